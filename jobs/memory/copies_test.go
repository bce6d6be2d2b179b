package memory_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/memory"
)

// filled sets every field of v, however deep, to something that is not zero.
func filled[T any]() T {
	var v T
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.UTC)))
		return
	case jobs.State:
		v.SetString(string(jobs.Ready))
		return
	case jobs.Reason, connectors.Class:
		v.SetString("transient")
		return
	case json.RawMessage:
		v.SetBytes([]byte(`{"a":1}`))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	default:
		panic("no value for " + v.Type().String())
	}
}

// spoil changes whatever memory v leads to.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.Uint8 {
				v.Index(i).SetUint(0)
			} else if v.Index(i).Kind() == reflect.String {
				v.Index(i).SetString("spoilt")
			} else if v.Index(i).Type() == reflect.TypeFor[jobs.LaneID]() {
				v.Index(i).SetZero()
			} else {
				spoil(v.Index(i))
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			spoil(v.Field(i))
		}
	}
}

// thing is a kind of what the journal holds: one of it, how it is put, and how it is got.
type thing struct {
	fresh func() any
	put   func(ctx context.Context, tx jobs.Tx, given any) error
	get   func(ctx context.Context, tx jobs.Tx) (any, error)
}

func one[T any](put func(ctx context.Context, tx jobs.Tx, vs []T) error, get func(ctx context.Context, tx jobs.Tx) ([]T, error)) thing {
	return thing{
		func() any { return []T{filled[T]()} },
		func(ctx context.Context, tx jobs.Tx, given any) error { return put(ctx, tx, given.([]T)) },
		func(ctx context.Context, tx jobs.Tx) (any, error) { return get(ctx, tx) },
	}
}

func TestNobodySharesMemoryWithTheEngine(t *testing.T) {
	t.Parallel()
	row := filled[jobs.Row]().RowID
	things := map[string]thing{
		"rows": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Row) error { return tx.PutRows(ctx, vs) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Row, error) {
				return tx.Rows(ctx, []jobs.RowID{row}, true)
			}),
		"due rows": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Row) error { return tx.PutRows(ctx, vs) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Row, error) {
				return tx.Due(ctx, jobs.LaneID{Client: "text", Shard: 7}, time.Now().AddDate(100, 0, 0), 1)
			}),
		"listed rows": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Row) error { return tx.PutRows(ctx, vs) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Row, error) {
				return tx.List(ctx, jobs.Filter{Bodies: true})
			}),
		"flows": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.FlowState) error { return tx.SaveFlow(ctx, vs[0]) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.FlowState, error) { return tx.Flows(ctx) }),
		"a flow": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.FlowState) error { return tx.SaveFlow(ctx, vs[0]) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.FlowState, error) {
				s, err := tx.LockFlow(ctx, "text")
				return []jobs.FlowState{s}, err
			}),
		"source records": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.SourceRecord) error {
			return tx.PutSources(ctx, "text", vs)
		},
			func(ctx context.Context, tx jobs.Tx) ([]jobs.SourceRecord, error) {
				return tx.Sources(ctx, "text", []string{"text"})
			}),
		"source records listed": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.SourceRecord) error {
			return tx.PutSources(ctx, "text", vs)
		},
			func(ctx context.Context, tx jobs.Tx) ([]jobs.SourceRecord, error) {
				return tx.ListSources(ctx, "text", "", 1)
			}),
		"contenders": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Contender) error { return tx.PutContender(ctx, vs[0]) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Contender, error) {
				return tx.Contenders(ctx, "text", []string{"text"})
			}),
		"contenders listed": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Contender) error { return tx.PutContender(ctx, vs[0]) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Contender, error) {
				return tx.ListContenders(ctx, "text", jobs.Contender{}, 1)
			}),
		"claims": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Claim) error { return tx.AddClaim(ctx, vs[0]) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Claim, error) { return tx.Claims(ctx, "") }),
		"pins": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Pin) error { return tx.PutPins(ctx, vs) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Pin, error) { return tx.Pins(ctx, []jobs.RowID{row}) }),
		"pins listed": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Pin) error { return tx.PutPins(ctx, vs) },
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Pin, error) { return tx.ListPins(ctx, jobs.Pin{}, 1) }),
		"runs": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Run) error {
			_, err := tx.AddRun(ctx, vs[0])
			return err
		},
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Run, error) {
				rs, err := tx.Runs(ctx, false, 1)
				for i := range rs {
					rs[i].ID = 7
				}
				return rs, err
			}),
		"daemons": one(func(ctx context.Context, tx jobs.Tx, vs []jobs.Daemon) error {
			return tx.PutDaemon(ctx, vs[0], time.Hour)
		},
			func(ctx context.Context, tx jobs.Tx) ([]jobs.Daemon, error) {
				ds, err := tx.Daemons(ctx)
				for i := range ds {
					ds[i].Until, ds[i].Lapsed = filled[time.Time](), true
				}
				return ds, err
			}),
	}
	for name, x := range things {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := opened(t, memory.Options{})
			given, want := x.fresh(), x.fresh()
			update := func(fn func(tx jobs.Tx) error) {
				t.Helper()
				if err := e.Update(t.Context(), fn); err != nil {
					t.Fatal(err)
				}
			}
			update(func(tx jobs.Tx) error { return x.put(t.Context(), tx, given) })
			spoil(reflect.ValueOf(given))
			for _, when := range []string{"after what was given was changed", "after what was got was changed"} {
				update(func(tx jobs.Tx) error {
					got, err := x.get(t.Context(), tx)
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s it is\n%+v, want\n%+v", when, got, want)
					}
					spoil(reflect.ValueOf(got))
					return err
				})
			}
		})
	}
}
