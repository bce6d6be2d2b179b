package jobs

import (
	"fmt"
	"testing"
	"time"
)

func TestRowThatIsReopenedIsInTheShardThatItsClientHasByNow(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for i := range 20 {
		for _, shards := range []int{1, 2, 5} {
			r := Row{RowID: RowID{Flow: "orders", Key: fmt.Sprint(i)}, Entity: "order", State: Held, Shard: 7}
			r.reopen(&Flow{Shards: shards}, now)
			if want := ShardOf(r.EntityKey(), shards); r.Shard != want {
				t.Errorf("of %d shards row %d is in %d, want %d", shards, i, r.Shard, want)
			}
		}
	}
}
