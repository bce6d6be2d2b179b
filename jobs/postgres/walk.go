package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// ListSources implements jobs.Lister.
func (t *tx) ListSources(ctx context.Context, flow, after string, limit int) ([]jobs.SourceRecord, error) {
	out, err := t.readSources(ctx, t.q.listSources, stored.ID(flow), stored.ID(after), limit)
	if err != nil {
		return nil, fmt.Errorf("list the source records of flow %s: %w", flow, err)
	}
	return out, nil
}

// ListContenders implements jobs.Lister.
func (t *tx) ListContenders(ctx context.Context, flow string, after jobs.Contender, limit int) ([]jobs.Contender, error) {
	out, err := t.readContenders(ctx, t.q.listContenders, stored.ID(flow), stored.ID(after.Key), stored.ID(after.SourceID), limit)
	if err != nil {
		return nil, fmt.Errorf("list the contenders of flow %s: %w", flow, err)
	}
	return out, nil
}

// ListLinks implements jobs.Lister.
func (t *tx) ListLinks(ctx context.Context, client string, after jobs.EntityKey, limit int) ([]jobs.Link, error) {
	out, err := t.readLinks(ctx, t.q.listLinks, stored.ID(client), stored.ID(after.Entity), stored.ID(after.Key), limit)
	if err != nil {
		return nil, fmt.Errorf("list the links of client %s: %w", client, err)
	}
	return out, nil
}

// ListGroups implements jobs.Lister.
func (t *tx) ListGroups(ctx context.Context, flow, after string, limit int) ([]jobs.Group, error) {
	out, err := t.readGroups(ctx, t.q.listGroups, stored.ID(flow), stored.ID(after), limit)
	if err != nil {
		return nil, fmt.Errorf("list the groups of flow %s: %w", flow, err)
	}
	return out, nil
}

// ListPins implements jobs.Lister.
func (t *tx) ListPins(ctx context.Context, after jobs.Pin, limit int) ([]jobs.Pin, error) {
	out, err := t.readPins(ctx, t.q.listPins, stored.ID(after.Flow), stored.ID(after.RowID.Key), stored.ID(after.Operation), limit)
	if err != nil {
		return nil, fmt.Errorf("list what is pinned: %w", err)
	}
	return out, nil
}

// ListAttempts implements jobs.Lister.
func (t *tx) ListAttempts(ctx context.Context, after int64, limit int) (out []jobs.Attempt, last int64, err error) {
	last = after
	err = t.query(ctx, func(rows pgx.Rows) error {
		var a jobs.Attempt
		var at pgtype.Timestamptz
		var class string
		if err := rows.Scan(&last, &a.Flow, &a.Key, &a.Number, &a.Generation, &at, &class, &a.Code, &a.Message); err != nil {
			return err
		}
		var in stored.ReadIDs
		a.RowID, a.At, a.Class = jobs.RowID{Flow: in.ID(a.Flow), Key: in.ID(a.Key)}, moment(at), connectors.Class(class)
		out = append(out, a)
		return in.Err
	}, t.q.listAttempts, after, limit)
	if err != nil {
		return nil, after, fmt.Errorf("list the attempts: %w", err)
	}
	return out, last, nil
}

// ListRequests implements jobs.Lister.
func (t *tx) ListRequests(ctx context.Context, after int64, limit int) ([]jobs.Request, error) {
	out, err := t.readRequests(ctx, t.q.listRequests, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list the requests: %w", err)
	}
	return out, nil
}

// LinkClients implements jobs.Lister.
func (t *tx) LinkClients(ctx context.Context) (out []string, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var client string
		if err := rows.Scan(&client); err != nil {
			return err
		}
		client, err := stored.ParseID(client)
		out = append(out, client)
		return err
	}, t.q.linkClients)
	if err != nil {
		return nil, fmt.Errorf("list the clients that have links: %w", err)
	}
	return out, nil
}
