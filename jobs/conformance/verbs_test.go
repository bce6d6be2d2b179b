package conformance_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"syncd/connectors"
	"syncd/jobs"
)

// looks are the verbs that change nothing.
func (w *world) looks() map[string]func() verb {
	looks := map[string]func() verb{}
	for _, topic := range w.topics() {
		for name, v := range w.verbs(topic) {
			if slices.Contains([]string{"Attempts", "Contenders", "CountReady", "Counts", "Due", "Groups", "Heads", "Links", "Pins", "Requests", "Rows",
				"Runs", "Sources"}, name) || strings.HasPrefix(name, "List") {
				looks[name] = v
			}
		}
	}
	return looks
}

// topics are what a history can be about, rows more often than the rest. With all verbs in each history the few that
// have to do with each other would hardly ever meet.
func (w *world) topics() []string {
	return []string{"rows", "rows", "flows", "claims", "histories", "lanes"}
}

// verbs make random verbs about a topic. What is random is drawn when one is made, not
// when it is run.
func (w *world) verbs(topic string) map[string]func() verb {
	verbs := map[string]func() map[string]func() verb{
		"rows": w.rowVerbs, "flows": w.flowVerbs, "claims": w.claimVerbs, "histories": w.historyVerbs, "lanes": w.laneVerbs,
	}[topic]()
	maps.Copy(verbs, w.walkVerbs()[topic])
	return verbs
}

// changes is a verb that only may fail, about what was drawn before.
func changes[T any](draw func() T, do func(ctx context.Context, tx jobs.Tx, v T) error) func() verb {
	return func() verb {
		v := draw()
		return func(ctx context.Context, tx jobs.Tx) error { return do(ctx, tx, v) }
	}
}

func (w *world) rowVerbs() map[string]func() verb {
	rows := func() []jobs.Row { return some(w, "rows", w.row) }
	return map[string]func() verb{
		"PutRows":   changes(rows, func(ctx context.Context, tx jobs.Tx, v []jobs.Row) error { return tx.PutRows(ctx, v) }),
		"more rows": changes(rows, func(ctx context.Context, tx jobs.Tx, v []jobs.Row) error { return tx.PutRows(ctx, v) }),
		"PatchRows": changes(rows, func(ctx context.Context, tx jobs.Tx, v []jobs.Row) error { return tx.PatchRows(ctx, v) }),
		"Rows": changes(w.rowIDs, func(ctx context.Context, tx jobs.Tx, v []jobs.RowID) error {
			_, err := tx.Rows(ctx, v, true)
			return err
		}),
		"DropBodies": changes(w.rowIDs, func(ctx context.Context, tx jobs.Tx, v []jobs.RowID) error {
			_, err := tx.DropBodies(ctx, v)
			return err
		}),
		"Due": func() verb {
			lane, at, limit := w.lane(), w.now().Add(pick(w.t, "until", -time.Microsecond, 0, 3*time.Hour)), w.limit()
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Due(ctx, lane, at, limit); return err }
		},
		"CloseRows":  w.closeRows,
		"Wake":       w.wake,
		"Wake again": w.wake,
		"Reshard": func() verb {
			client, shards, limit := w.client(), rapid.IntRange(0, 3).Draw(w.t, "shards"), w.limit()
			return func(ctx context.Context, tx jobs.Tx) error {
				_, err := tx.Reshard(ctx, client, shards, limit)
				return err
			}
		},
		"CountReady": func() verb {
			flow, n := w.flow(), w.limit()
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.CountReady(ctx, flow, n); return err }
		},
		"Heads": func() verb {
			flow, groups, passed := w.flow(), append(w.groups(), "", "none"), some(w, "passed", func() jobs.State { return pick(w.t, "state", jobs.Ready, jobs.Dead, jobs.Held) })
			return func(ctx context.Context, tx jobs.Tx) error {
				_, err := tx.Heads(ctx, flow, groups, passed...)
				return err
			}
		},
		"List": changes(w.filter, func(ctx context.Context, tx jobs.Tx, f jobs.Filter) error { _, err := tx.List(ctx, f); return err }),
		"Counts": changes(w.when, func(ctx context.Context, tx jobs.Tx, at time.Time) error {
			_, err := tx.Counts(ctx, at)
			return err
		}),
	}
}

// wake is mostly about what rows wait for.
func (w *world) wake() verb {
	client, at := w.client(), w.now()
	keys := append(some(w, "keys", w.entityKey), jobs.EntityKey{Entity: "sale", Key: w.key()}, jobs.EntityKey{Entity: "sale", Key: w.key()})
	return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Wake(ctx, client, keys, at); return err }
}

// closeRows closes rows that fit but for what little is drawn, and whatever else there is.
func (w *world) closeRows() verb {
	client, at := w.client(), w.now()
	var rows []jobs.Row
	var cs []jobs.Closing
	seen := map[jobs.RowID]bool{}
	for _, r := range some(w, "rows", w.row) {
		if seen[r.RowID] {
			continue
		}
		seen[r.RowID] = true
		class := pick(w.t, "class", connectors.Applied, connectors.Unchanged, "")
		cs = append(cs, jobs.Closing{RowID: r.RowID, Generation: r.Generation, Attempt: r.Attempt + 1, Class: class})
		if spoilt := pick(w.t, "spoilt", 0, 1, 2, 3, 4, 5, 6, 7, 8); spoilt < 8 {
			near := r
			near.Client, near.State, near.Gone, near.UnresolvedAt, near.LastClass = client, jobs.Ready, false, time.Time{}, connectors.Unchanged
			near.Group, near.WaitEntity, near.WaitKey, near.RenamedFrom = "", "", "", ""
			for i, back := range []func(){func() { near.Client = r.Client }, func() { near.State = r.State }, func() { near.Gone = r.Gone },
				func() { near.UnresolvedAt = r.UnresolvedAt }, func() { near.LastClass = r.LastClass }, func() { near.Group = r.Group },
				func() { near.WaitEntity, near.WaitKey = r.WaitEntity, r.WaitKey }} {
				if i == spoilt {
					back()
				}
			}
			rows = append(rows, near)
		}
	}
	return func(ctx context.Context, tx jobs.Tx) error {
		if err := tx.PutRows(ctx, rows); err != nil {
			return err
		}
		_, _, err := tx.CloseRows(ctx, client, cs, at)
		return err
	}
}

// filter has some of its fields set.
func (w *world) filter() (f jobs.Filter) {
	f.Flow = w.flow() // those of other histories are many
	for _, set := range some(w, "fields", func() func() {
		return pick(w.t, "field",
			func() { f.State = pick(w.t, "state", jobs.Ready, jobs.Done, jobs.Dead, jobs.Held) },
			func() { f.Class = string(w.class()) },
			func() { f.Reason = pick(w.t, "reason", jobs.ReasonWaiting, jobs.ReasonFailed) },
			func() { f.Keys = some(w, "keys", w.key) },
			func() { f.After = w.rowID() },
			func() { f.Unresolved = true },
			func() { f.Contended = true },
			func() { f.SourceID = "1" },
			func() { f.Before = w.when() },
			func() { f.Since = w.when() },
			func() { f.Bodies = true },
		)
	}) {
		set()
	}
	f.Limit = w.limit()
	return f
}

func (w *world) flowVerbs() map[string]func() verb {
	contender := func() jobs.Contender {
		return jobs.Contender{RowID: w.rowID(), SourceID: w.source(), Stamp: w.stamp(), ChangedAt: w.when(), Hash: w.hash(), Body: w.body(), Since: w.when()}
	}
	return map[string]func() verb{
		"LockFlow": changes(w.flow, func(ctx context.Context, tx jobs.Tx, f string) error { _, err := tx.LockFlow(ctx, f); return err }),
		"SaveFlow": changes(func() jobs.FlowState {
			return jobs.FlowState{Flow: w.flow(), Cursor: pick(w.t, "cursor", nil, json.RawMessage(`""`), json.RawMessage(`{"n":1.0}`)), Epoch: w.small(), PageStarts: 2,
				Suspect: pick(w.t, "suspect", "", "1\xff"), MovedAt: w.when(), ReadAt: w.when(), Suspended: w.standing(), Full: w.standing(),
				Restored: pick(w.t, "restored", jobs.Restored{}, jobs.Restored{At: w.now(), AsOf: w.now().Add(-time.Hour)}, jobs.Restored{At: w.now(), AsOf: w.now(), Caught: w.now().Add(1234 * time.Nanosecond)}),
				Failing:  jobs.Failing{Since: w.when(), Class: w.class(), Code: "c", Message: "m\x00"}}
		}, func(ctx context.Context, tx jobs.Tx, s jobs.FlowState) error { return tx.SaveFlow(ctx, s) }),
		"PutSources": func() verb {
			flow, rs := w.flow(), some(w, "records", func() jobs.SourceRecord {
				return jobs.SourceRecord{ID: w.source(), Stamp: w.stamp(), Gone: w.bool(), Keys: some(w, "keys", w.key)}
			})
			return func(ctx context.Context, tx jobs.Tx) error { return tx.PutSources(ctx, flow, rs) }
		},
		"Sources": func() verb {
			flow, ids := w.flow(), some(w, "ids", w.source)
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Sources(ctx, flow, ids); return err }
		},
		"PutContender": changes(contender, func(ctx context.Context, tx jobs.Tx, c jobs.Contender) error { return tx.PutContender(ctx, c) }),
		"DeleteContender": changes(contender, func(ctx context.Context, tx jobs.Tx, c jobs.Contender) error {
			return tx.DeleteContender(ctx, c.RowID, c.SourceID)
		}),
		"Contenders": func() verb {
			flow, keys := w.flow(), some(w, "keys", w.key)
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Contenders(ctx, flow, keys); return err }
		},
		"PutGroups": changes(func() []jobs.Group {
			return some(w, "groups", func() jobs.Group {
				return jobs.Group{Flow: w.flow(), Name: w.group(), Sent: w.stamp(), SentKey: w.key()}
			})
		}, func(ctx context.Context, tx jobs.Tx, gs []jobs.Group) error { return tx.PutGroups(ctx, gs) }),
		"Groups": func() verb {
			flow, names := w.flow(), w.groups()
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Groups(ctx, flow, names); return err }
		},
		"PutPause": changes(func() jobs.ClientState {
			return jobs.ClientState{Client: w.client(), PausedUntil: w.when(), Reason: "r", Evidence: "e\x00", Since: w.when(), Strikes: int(w.small()),
				Owner: "d\x00", SeenAt: w.when(), ExpiryHeld: w.standing()}
		}, func(ctx context.Context, tx jobs.Tx, c jobs.ClientState) error { return tx.PutPause(ctx, c) }),
		"PutExpiryHold": changes(func() jobs.ClientState {
			return jobs.ClientState{Client: w.client(), ExpiryHeld: w.standing()}
		}, func(ctx context.Context, tx jobs.Tx, c jobs.ClientState) error {
			return tx.PutExpiryHold(ctx, c.Client, c.ExpiryHeld)
		}),
		"PutMeta": changes(func() string { return pick(w.t, "value", "", "1", "2") }, func(ctx context.Context, tx jobs.Tx, v string) error { return tx.PutMeta(ctx, "fact", v) }),
	}
}

func (w *world) claimVerbs() map[string]func() verb {
	claim := func() string { return w.own("claim", "c", "d\x00", "e") }
	owner := func() string { return pick(w.t, "owner", "me", "them") }
	pin := func() jobs.Pin {
		return jobs.Pin{RowID: w.rowID(), Operation: pick(w.t, "operation", "create", "confirm"), Epoch: w.small(), Key: "k\x00\xff", Body: w.body(),
			Generation: w.small(), Hash: w.hash(), FirstSentAt: w.when()}
	}
	return map[string]func() verb{
		"AddClaim": changes(func() jobs.Claim {
			l := w.lane()
			c := jobs.Claim{ID: claim(), Client: l.Client, Shard: l.Shard, Owner: owner(), At: w.when(), Jobs: some(w, "jobs", func() jobs.ClaimedJob {
				return jobs.ClaimedJob{RowID: w.rowID(), Generation: w.small(), Attempt: w.small(), Hash: w.hash(), Gone: w.bool()}
			})}
			c.Open = len(c.Jobs)
			return c
		}, func(ctx context.Context, tx jobs.Tx, c jobs.Claim) error { return tx.AddClaim(ctx, c) }),
		"ReduceClaim": func() verb {
			id, owner, n := claim(), owner(), rapid.IntRange(0, 2).Draw(w.t, "n")
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.ReduceClaim(ctx, id, owner, n); return err }
		},
		"PutLinks": func() verb {
			client, ls := w.client(), some(w, "links", func() jobs.Link {
				return jobs.Link{EntityKey: w.entityKey(), Link: pick(w.t, "link", `7`, `"eight\u0000"`), SeenAt: w.when()}
			})
			return func(ctx context.Context, tx jobs.Tx) error { return tx.PutLinks(ctx, client, ls) }
		},
		"Links": func() verb {
			client, keys := w.client(), some(w, "keys", w.entityKey)
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Links(ctx, client, keys); return err }
		},
		"DeleteLinks": func() verb {
			client, keys := w.client(), some(w, "keys", w.entityKey)
			return func(ctx context.Context, tx jobs.Tx) error { return tx.DeleteLinks(ctx, client, keys) }
		},
		"PutPins":    changes(func() []jobs.Pin { return some(w, "pins", pin) }, func(ctx context.Context, tx jobs.Tx, ps []jobs.Pin) error { return tx.PutPins(ctx, ps) }),
		"Pins":       changes(w.rowIDs, func(ctx context.Context, tx jobs.Tx, ids []jobs.RowID) error { _, err := tx.Pins(ctx, ids); return err }),
		"DeletePins": changes(w.rowIDs, func(ctx context.Context, tx jobs.Tx, ids []jobs.RowID) error { return tx.DeletePins(ctx, ids) }),
	}
}

func (w *world) historyVerbs() map[string]func() verb {
	// asked is the number of one of the requests, or of none.
	asked := func(ctx context.Context, tx jobs.Tx, at int) (int64, error) {
		rs, err := tx.ListRequests(ctx, 0, most)
		if err != nil || at >= len(rs) {
			return 1 << 50, err
		}
		return rs[at].ID, nil
	}
	place := func() int { return rapid.IntRange(0, 3).Draw(w.t, "which") }
	return map[string]func() verb{
		"AddAttempts": changes(func() []jobs.Attempt {
			return some(w, "attempts", func() jobs.Attempt {
				return jobs.Attempt{RowID: w.rowID(), Number: w.small(), Generation: w.small(), At: w.when(), Class: w.class(), Code: "c", Message: "m\xff"}
			})
		}, func(ctx context.Context, tx jobs.Tx, v []jobs.Attempt) error { return tx.AddAttempts(ctx, v) }),
		"Attempts": func() verb {
			id, n := w.rowID(), w.limit()
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Attempts(ctx, id, n); return err }
		},
		"PruneAttempts": func() verb {
			before, n := w.now().Add(pick(w.t, "before", -time.Minute, 0, time.Minute)), w.limit()
			return func(ctx context.Context, tx jobs.Tx) error {
				_, last, err := tx.PruneAttempts(ctx, 0, before, n)
				if err == nil {
					_, _, err = tx.PruneAttempts(ctx, last, before, n)
				}
				return err
			}
		},
		"DeleteAttempts": changes(w.rowIDs, func(ctx context.Context, tx jobs.Tx, ids []jobs.RowID) error { return tx.DeleteAttempts(ctx, ids) }),
		"AddRequests": changes(func() []jobs.Request {
			return some(w, "requests", func() jobs.Request {
				return jobs.Request{Client: w.client(), Flow: w.flow(), SourceID: w.source(), Kind: pick(w.t, "kind", jobs.Refresh, jobs.Remap), Key: w.key(),
					At: w.alone(), DueAt: w.when()}
			})
		}, func(ctx context.Context, tx jobs.Tx, rs []jobs.Request) error { return tx.AddRequests(ctx, rs) }),
		"Requests": func() verb {
			client, n, at := w.client(), w.limit(), w.now()
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Requests(ctx, client, at, n); return err }
		},
		"PostponeRequest": func() verb {
			at, due := place(), w.when()
			return func(ctx context.Context, tx jobs.Tx) error {
				id, err := asked(ctx, tx, at)
				if err != nil {
					return err
				}
				return tx.PostponeRequest(ctx, id, due)
			}
		},
		"DeleteRequests": changes(place, func(ctx context.Context, tx jobs.Tx, at int) error {
			id, err := asked(ctx, tx, at)
			if err != nil {
				return err
			}
			return tx.DeleteRequests(ctx, []int64{id, 1 << 51})
		}),
		"AddRun": changes(w.run, func(ctx context.Context, tx jobs.Tx, r jobs.Run) error { _, err := tx.AddRun(ctx, r); return err }),
		"PutRun": func() verb {
			r, at := w.run(), place()
			return func(ctx context.Context, tx jobs.Tx) error {
				rs, err := tx.Runs(ctx, false, most)
				if err != nil {
					return err
				}
				if r.ID = 1 << 50; at < len(rs) {
					r.ID = rs[at].ID
				}
				return tx.PutRun(ctx, r)
			}
		},
		"DeleteRuns": changes(place, func(ctx context.Context, tx jobs.Tx, at int) error {
			rs, err := tx.Runs(ctx, false, most)
			if err != nil || at >= len(rs) {
				return err
			}
			return tx.DeleteRuns(ctx, []int64{rs[at].ID, 1 << 50})
		}),
		"Runs": func() verb {
			open, n := w.bool(), w.limit()
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.Runs(ctx, open, n); return err }
		},
	}
}

func (w *world) run() jobs.Run {
	return jobs.Run{Kind: "audit", Flow: w.flow(), Client: w.client(), Settings: pick(w.t, "settings", nil, json.RawMessage(`{ "n": 1.10 }`)), Total: w.small(),
		Done: w.small(), Failed: w.small(), After: w.rowID(), At: w.when(), EndedAt: w.when(), By: "b", Why: "w\xff", Message: "m\x00"}
}

func (w *world) laneVerbs() map[string]func() verb {
	daemon := func() string { return w.own("daemon", "d", "e\x00") }
	// Longer than a test lasts, so that no clock has to be waited for.
	const long = 1000 * time.Hour
	return map[string]func() verb{
		"Fence": changes(w.fence, func(ctx context.Context, tx jobs.Tx, f jobs.Fence) error { return tx.Fence(ctx, f) }),
		"TakeLease": func() verb {
			lane := w.lane()
			l, was := jobs.Lease{LaneID: lane, Owner: "o\x00", Token: w.token(lane)}, pick(w.t, "was", "", lane.String()+" 1", lane.String()+" 2")
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.TakeLease(ctx, l, was, long); return err }
		},
		"RenewLeases": func() verb {
			tokens := some(w, "tokens", func() string { return w.fence().Token })
			return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.RenewLeases(ctx, tokens, long); return err }
		},
		"FreeLease": changes(w.fence, func(ctx context.Context, tx jobs.Tx, f jobs.Fence) error { return tx.FreeLease(ctx, f) }),
		"PutDaemon": changes(func() jobs.Daemon {
			return jobs.Daemon{Owner: daemon(), Process: jobs.Process{Host: "h", BootID: "b", PIDSpace: "p", PID: w.small(), Started: w.small()}, Since: w.when(),
				Lanes: some(w, "lanes", w.lane), Leaving: w.bool()}
		}, func(ctx context.Context, tx jobs.Tx, m jobs.Daemon) error { return tx.PutDaemon(ctx, m, long) }),
		"DeleteDaemon": changes(daemon, func(ctx context.Context, tx jobs.Tx, owner string) error { return tx.DeleteDaemon(ctx, owner) }),
	}
}

// walkVerbs are more verbs of topics.
func (w *world) walkVerbs() map[string]map[string]func() verb {
	return map[string]map[string]func() verb{
		"rows": {"PutContender": w.flowVerbs()["PutContender"]}, // listings choose by them
		"flows": {
			"ListSources": func() verb {
				flow, after, n := w.flow(), pick(w.t, "after", "", "1", "2x", "3\xff"), w.limit()
				return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.ListSources(ctx, flow, after, n); return err }
			},
			"ListContenders": func() verb {
				flow, after, n := w.flow(), jobs.Contender{RowID: jobs.RowID{Key: w.key()}, SourceID: pick(w.t, "after", "", "2")}, w.limit()
				return func(ctx context.Context, tx jobs.Tx) error {
					_, err := tx.ListContenders(ctx, flow, after, n)
					return err
				}
			},
			"ListGroups": func() verb {
				flow, after, n := w.flow(), pick(w.t, "after", "", "G", "H\x00"), w.limit()
				return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.ListGroups(ctx, flow, after, n); return err }
			},
		},
		"claims": {
			"ListLinks": func() verb {
				client, after, n := w.client(), pick(w.t, "after", jobs.EntityKey{}, jobs.EntityKey{Entity: "party"}, jobs.EntityKey{Entity: "sale", Key: "B"}), w.limit()
				return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.ListLinks(ctx, client, after, n); return err }
			},
			"ListPins": func() verb {
				after, n := jobs.Pin{RowID: w.rowID(), Operation: pick(w.t, "after", "", "confirm")}, w.limit()
				return func(ctx context.Context, tx jobs.Tx) error { _, err := tx.ListPins(ctx, after, n); return err }
			},
		},
		"histories": {
			"ListAttempts": changes(w.limit, func(ctx context.Context, tx jobs.Tx, n int) error {
				_, last, err := tx.ListAttempts(ctx, 0, n)
				if err == nil {
					_, _, err = tx.ListAttempts(ctx, last, n)
				}
				return err
			}),
		},
	}
}
