package postgres

// Verbs that this engine does not have yet; each is to be built in a file of its topic.

import (
	"context"
	"errors"
	"time"

	"syncd/jobs"
)

var errNotYet = errors.New("not built yet")

func (t *tx) Reshard(ctx context.Context, client string, shards, limit int) (int, error) {
	return 0, errNotYet
}

func (t *tx) DropBodies(ctx context.Context, ids []jobs.RowID) (int, error) { return 0, errNotYet }

func (t *tx) CountReady(ctx context.Context, flow string, most int) (int, error) { return 0, errNotYet }

func (t *tx) Heads(ctx context.Context, flow string, groups []string, passed ...jobs.State) ([]jobs.Row, error) {
	return nil, errNotYet
}

func (t *tx) Groups(ctx context.Context, flow string, groups []string) ([]jobs.Group, error) {
	return nil, errNotYet
}

func (t *tx) PutGroups(ctx context.Context, gs []jobs.Group) error { return errNotYet }

func (t *tx) Pins(ctx context.Context, ids []jobs.RowID) ([]jobs.Pin, error) { return nil, errNotYet }

func (t *tx) PutPins(ctx context.Context, ps []jobs.Pin) error { return errNotYet }

func (t *tx) DeletePins(ctx context.Context, ids []jobs.RowID) error { return errNotYet }

func (t *tx) PruneAttempts(ctx context.Context, before time.Time, limit int) (int, error) {
	return 0, errNotYet
}

func (t *tx) DeleteAttempts(ctx context.Context, ids []jobs.RowID) error { return errNotYet }

func (t *tx) Fence(ctx context.Context, f jobs.Fence) error { return errNotYet }

func (t *tx) Leases(ctx context.Context) ([]jobs.Lease, error) { return nil, errNotYet }

func (t *tx) TakeLease(ctx context.Context, l jobs.Lease, was string, d time.Duration) (bool, error) {
	return false, errNotYet
}

func (t *tx) RenewLeases(ctx context.Context, tokens []string, d time.Duration) ([]string, error) {
	return nil, errNotYet
}

func (t *tx) FreeLease(ctx context.Context, f jobs.Fence) error { return errNotYet }

func (t *tx) Daemons(ctx context.Context) ([]jobs.Daemon, error) { return nil, errNotYet }

func (t *tx) PutDaemon(ctx context.Context, m jobs.Daemon, d time.Duration) error { return errNotYet }

func (t *tx) DeleteDaemon(ctx context.Context, owner string) error { return errNotYet }

func (t *tx) AddRun(ctx context.Context, r jobs.Run) (int64, error) { return 0, errNotYet }

func (t *tx) PutRun(ctx context.Context, r jobs.Run) error { return errNotYet }

func (t *tx) Runs(ctx context.Context, open bool, limit int) ([]jobs.Run, error) {
	return nil, errNotYet
}

func (t *tx) DeleteRuns(ctx context.Context, ids []int64) error { return errNotYet }

func (t *tx) ListSources(ctx context.Context, flow, after string, limit int) ([]jobs.SourceRecord, error) {
	return nil, errNotYet
}

func (t *tx) ListContenders(ctx context.Context, flow string, after jobs.Contender, limit int) ([]jobs.Contender, error) {
	return nil, errNotYet
}

func (t *tx) ListLinks(ctx context.Context, client string, after jobs.EntityKey, limit int) ([]jobs.Link, error) {
	return nil, errNotYet
}

func (t *tx) ListGroups(ctx context.Context, flow, after string, limit int) ([]jobs.Group, error) {
	return nil, errNotYet
}

func (t *tx) ListPins(ctx context.Context, after jobs.Pin, limit int) ([]jobs.Pin, error) {
	return nil, errNotYet
}

func (t *tx) ListAttempts(ctx context.Context, after int64, limit int) ([]jobs.Attempt, int64, error) {
	return nil, 0, errNotYet
}

func (t *tx) ListRequests(ctx context.Context, after int64, limit int) ([]jobs.Request, error) {
	return nil, errNotYet
}

func (t *tx) LinkClients(ctx context.Context) ([]string, error) { return nil, errNotYet }
