package memory

import (
	"context"
	"slices"
	"time"

	"syncd/jobs"
)

// Clients implements jobs.Tx.
func (t *tx) Clients(context.Context) ([]jobs.ClientState, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	return among(&t.s.clients, "", all, same), nil
}

// PutPause implements jobs.Tx.
func (t *tx) PutPause(_ context.Context, c jobs.ClientState) error {
	if err := t.writes(); err != nil {
		return err
	}
	was, _ := t.s.clients.get(text(id(c.Client)))
	c.ExpiryHeld = was.ExpiryHeld
	t.s.clients.put(t.edit, text(id(c.Client)), clientIn(c))
	return nil
}

// PutExpiryHold implements jobs.Tx.
func (t *tx) PutExpiryHold(_ context.Context, client string, s jobs.Standing) error {
	if err := t.writes(); err != nil {
		return err
	}
	c, _ := t.s.clients.get(text(id(client)))
	c.Client, c.ExpiryHeld = client, s
	t.s.clients.put(t.edit, text(id(client)), clientIn(c))
	return nil
}

// Fence implements jobs.Tx. The one who writes lets nobody else take a lease, so one
// look at the beginning is enough.
func (t *tx) Fence(_ context.Context, f jobs.Fence) error {
	if err := t.reads(); err != nil {
		return err
	}
	if l, _ := t.s.leases.get(laneOf(f.LaneID)); f.Token == "" || l.Token != f.Token {
		return t.fail(jobs.ErrFenced, "write for lane %s", f.LaneID)
	}
	return nil
}

// Leases implements jobs.Tx.
func (t *tx) Leases(context.Context) ([]jobs.Lease, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	now := t.now()
	return among(&t.s.leases, laneKey{}, all, func(l jobs.Lease) jobs.Lease {
		l.Lapsed = !l.Until.After(now)
		return l
	}), nil
}

// TakeLease implements jobs.Tx.
func (t *tx) TakeLease(_ context.Context, l jobs.Lease, was string, d time.Duration) (bool, error) {
	if err := t.writes(); err != nil {
		return false, err
	}
	if old, _ := t.s.leases.get(laneOf(l.LaneID)); old.Token != was || !l.Until.IsZero() && !old.Until.Equal(l.Until) {
		return false, nil
	}
	now := t.now()
	t.s.leases.put(t.edit, laneOf(l.LaneID), jobs.Lease{LaneID: l.LaneID, Owner: l.Owner, Token: l.Token, Since: now, Until: moment(now.Add(d))})
	return true, nil
}

// RenewLeases implements jobs.Tx.
func (t *tx) RenewLeases(_ context.Context, tokens []string, d time.Duration) (lost []string, err error) {
	if err := t.writes(); err != nil {
		return nil, err
	}
	until := moment(t.now().Add(d))
	var found []string
	for _, l := range among(&t.s.leases, laneKey{}, all, same) {
		if l.Token != "" && slices.Contains(tokens, l.Token) {
			l.Until = until
			t.s.leases.put(t.edit, laneOf(l.LaneID), l)
			found = append(found, l.Token)
		}
	}
	for _, token := range tokens {
		if !slices.Contains(found, token) && !slices.Contains(lost, token) {
			lost = append(lost, token)
		}
	}
	return lost, nil
}

// FreeLease implements jobs.Tx.
func (t *tx) FreeLease(_ context.Context, f jobs.Fence) error {
	if err := t.writes(); err != nil {
		return err
	}
	if l, ok := t.s.leases.get(laneOf(f.LaneID)); ok && l.Token == f.Token {
		t.s.leases.put(t.edit, laneOf(f.LaneID), jobs.Lease{LaneID: f.LaneID})
	}
	return nil
}

// Daemons implements jobs.Tx.
func (t *tx) Daemons(context.Context) ([]jobs.Daemon, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	now := t.now()
	return among(&t.s.daemons, "", all, func(m jobs.Daemon) jobs.Daemon {
		m.Lapsed = !m.Until.After(now)
		return daemonOut(m)
	}), nil
}

// PutDaemon implements jobs.Tx.
func (t *tx) PutDaemon(_ context.Context, m jobs.Daemon, d time.Duration) error {
	if err := t.writes(); err != nil {
		return err
	}
	m.Until, m.Lapsed = t.now().Add(d), false
	t.s.daemons.put(t.edit, text(id(m.Owner)), daemonIn(m))
	return nil
}

// DeleteDaemon implements jobs.Tx.
func (t *tx) DeleteDaemon(_ context.Context, owner string) error {
	if err := t.writes(); err != nil {
		return err
	}
	t.s.daemons.remove(t.edit, text(id(owner)))
	return nil
}
