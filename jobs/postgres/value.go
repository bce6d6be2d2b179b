package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// stamp is a time as an argument; NULL for the zero time.
func stamp(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// due is a due time as an argument; -infinity for the zero time, before all others.
func due(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return stamp(t)
}

// moment is the time of a column; the zero time for NULL and -infinity.
func moment(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time.UTC()
}

// blob is bytes as an argument; NULL for none.
func blob(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// column is one column of a batch, as an array argument.
func column[T, V any](items []T, get func(*T) V) []V {
	out := make([]V, len(items))
	for i := range items {
		out[i] = get(&items[i])
	}
	return out
}
