package crash

import (
	"math/rand/v2"
	"strings"
	"testing"

	"syncd/internal/pgtest"
)

// TestKilledDaemonLosesAndDoublesNothing prints its seed: the same seed has the
// same things go wrong, as far as the moment of a kill lets them.
func TestKilledDaemonLosesAndDoublesNothing(t *testing.T) {
	binary, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := Options{Binary: binary, Dir: t.TempDir(), Kills: 10, Seed: rand.Uint64N(1_000_000), Say: t.Logf}
			if engine == "postgres" {
				o.Postgres = pgtest.DSN(t)
			}
			t.Logf("seed %d", o.Seed)
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var table strings.Builder
			if err := r.Print(&table); err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + table.String())
			if !r.OK() {
				t.Error("something was lost, doubled, left stale or turned back")
			}
			// A run in which no kill met a write proves nothing.
			if r.Doubts == 0 {
				t.Error("no kill left a write in doubt")
			}
		})
	}
}
