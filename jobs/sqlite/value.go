package sqlite

import (
	"database/sql/driver"
	"strconv"
	"time"

	"syncd/jobs/internal/stored"
)

// row is one row of a result as the driver gives it: int64, string, []byte or nil.
type row []driver.Value

func (r row) text(i int) string {
	s, _ := r[i].(string)
	return s
}

func (r row) int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r row) bool(i int) bool { return r.int(i) != 0 }

func (r row) blob(i int) []byte {
	b, _ := r[i].([]byte)
	return b
}

func (r row) time(i int) time.Time {
	if us, ok := r[i].(int64); ok {
		return time.UnixMicro(us).UTC()
	}
	return time.Time{}
}

// never is how a due time that is zero is stored: before all others.
var never = time.Time{}.UnixMicro()

func (r row) due(i int) time.Time {
	if us := r.int(i); us != never {
		return time.UnixMicro(us).UTC()
	}
	return time.Time{}
}

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func blob(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// numbers is a list of numbers as the JSON array that json_each takes.
func numbers(ns []int64) any {
	b := []byte{'['}
	for i, n := range ns {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}

// id is an id or key as an argument.
func id(s string) any { return stored.ID(s) }
