package jobs

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"syncd/internal/mutant"
)

// MostShards bounds the shards of a client.
const MostShards = 64

// ShardOf is the shard, from 0 on, that writes a record of a client split into so
// many. It never changes for a record and a number of shards.
func ShardOf(k EntityKey, shards int) int {
	if shards <= 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(k.Entity))
	h.Write([]byte{0})
	h.Write([]byte(k.Key))
	return int(h.Sum32() % uint32(shards))
}

// shardsOf names the fact that says into how many shards the rows of a client are split.
func shardsOf(client string) string { return "shards/" + client }

// Sharded returns into how many shards the ready rows of a client are split.
func (j *Journal) Sharded(ctx context.Context, client string) (n int, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		n, err = sharded(ctx, tx, client)
		return err
	})
	return n, wrap(err, "read into how many shards client %s is split", client)
}

func sharded(ctx context.Context, tx Tx, client string) (int, error) {
	meta, err := tx.Meta(ctx)
	if err != nil {
		return 0, err
	}
	text, ok := meta[shardsOf(client)]
	if !ok {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no number of shards", text)
	}
	return n, nil
}

// place gives rows that are due again to the shards that write them now: what is not
// ready is left where it was when its client is split anew.
func place(ctx context.Context, tx Tx, rows []Row) error {
	split := map[string]int{}
	for i := range rows {
		r := &rows[i]
		if r.State != Ready {
			continue
		}
		n, known := split[r.Client]
		if !known {
			var err error
			if n, err = sharded(ctx, tx, r.Client); err != nil {
				return err
			}
			split[r.Client] = n
		}
		r.Shard = ShardOf(r.EntityKey(), n)
	}
	return nil
}

// reshardStep bounds the rows that one transaction moves to another shard.
const reshardStep = 1000

// ReshardError says that a client cannot be split anew yet.
type ReshardError struct {
	Client   string
	Has, Get int
	// Why names what it waits for.
	Why string
}

func (e *ReshardError) Error() string {
	return fmt.Sprintf("client %s is split into %d shards and is to be split into %d; that waits until %s. Nothing that is written to it is read before that, and nothing is lost: reload or restart the daemons that still have another number", e.Client, e.Has, e.Get, e.Why)
}

// Reshard splits the rows of a client into another number of shards, if it has
// another one. This daemon must have the client's shard 0, run none of the client's
// lanes, and nobody may have another of them or be configured otherwise: until that
// is so it returns a *ReshardError. What was left under way in other shards is settled
// first, as Recover does, because no shard is theirs afterwards. flows are those that
// write to the client.
func (j *Journal) Reshard(ctx context.Context, client string, shards int, flows map[string]*Flow) error {
	shards = max(shards, 1)
	has, err := j.Sharded(ctx, client)
	if err != nil || has == shards {
		return err
	}
	s, err := j.Survey(ctx)
	if err != nil {
		return err
	}
	if why := j.keepsShards(&s, client, shards); why != "" {
		return &ReshardError{client, has, shards, why}
	}
	for n := 1; n < has && !mutant.On("claims-outlive-shards"); n++ {
		if _, err := j.recoverUnder(ctx, LaneID{Client: client}, LaneID{client, n}, flows); err != nil {
			return wrap(err, "split client %s into %d shards", client, shards)
		}
	}
	for n := reshardStep; n > 0; {
		err := j.under(ctx, LaneID{Client: client}, func(tx Tx, _ string) (err error) {
			if n, err = tx.Reshard(ctx, client, shards, reshardStep); err != nil || n > 0 {
				return err
			}
			return tx.PutMeta(ctx, shardsOf(client), strconv.Itoa(shards))
		})
		if err != nil {
			return wrap(err, "split client %s into %d shards", client, shards)
		}
	}
	return nil
}

// asSplit refuses an admission into shards that are not those into which the client
// is split: nobody would write the rows, or somebody beside the one who should. The
// split is looked up once for a lease. While that is valid, nobody splits anew; one
// that was stopped past it may meet another split.
func (j *Journal) asSplit(ctx context.Context, tx Tx, f *Flow) error {
	j.holds.mu.Lock()
	joined, h := j.holds.joined, j.holds.of[LaneID{Client: f.SourceClient}]
	j.holds.mu.Unlock()
	want := max(f.Shards, 1)
	if !joined || mutant.On("split-unseen") || h != nil && h.Valid() && h.splitSeen(f.Client) == want {
		return nil
	}
	has, err := sharded(ctx, tx, f.Client)
	if err != nil {
		return err
	}
	if has != want {
		return &ReshardError{f.Client, has, want, "a daemon that is configured so has its first lane"}
	}
	if h != nil {
		h.seeSplit(f.Client, want)
	}
	return nil
}

// splitSeen is into how many shards a client was seen to be split under the lease; 0
// for not seen.
func (h *Hold) splitSeen(client string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.splits[client]
}

func (h *Hold) seeSplit(client string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.splits == nil {
		h.splits = map[string]int{}
	}
	h.splits[client] = n
}

// keepsShards says what a split of a client into so many shards waits for.
func (j *Journal) keepsShards(s *Survey, client string, shards int) string {
	me := j.Me()
	for _, l := range s.Leases {
		if l.Client != client || l.Shard == 0 || l.Owner == me.Owner {
			continue
		}
		if _, free := s.Free(l.LaneID, me, j.Alone()); !free {
			return "another daemon has given lane " + l.String() + " back"
		}
	}
	for _, m := range s.Living(me.Process) {
		n := 0
		for _, l := range m.Lanes {
			if l.Client == client {
				n++
			}
		}
		if n > 0 && n != shards && m.Owner != me.Owner && !j.Alone() {
			return fmt.Sprintf("the daemon with process %d on %s is configured so too", m.Process.PID, m.Process.Host)
		}
	}
	if !slices.ContainsFunc(j.Holds(), func(h *Hold) bool { return h.LaneID == LaneID{Client: client} }) {
		return "this daemon has its first lane"
	}
	return ""
}
