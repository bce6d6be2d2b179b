package sqlite

import (
	"context"
	"fmt"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

const linkColumns = `l.entity, l.key, l.link, l.seen_at`

func readLink(v row) (jobs.Link, error) {
	var in stored.ReadIDs
	l := jobs.Link{EntityKey: jobs.EntityKey{Entity: in.ID(v.text(0)), Key: in.ID(v.text(1))},
		Link: in.ID(v.text(2)), SeenAt: v.time(3)}
	return l, in.Err
}

// Links implements jobs.Tx.
func (t *tx) Links(ctx context.Context, client string, keys []jobs.EntityKey) ([]jobs.Link, error) {
	entities := map[string][]string{}
	for _, k := range stored.EntityKeys(keys) {
		entities[k.Entity] = append(entities[k.Entity], k.Key)
	}
	out := make([]jobs.Link, 0, len(keys))
	for entity, ks := range entities {
		err := t.query(ctx, `SELECT `+linkColumns+` FROM json_each(?3) k
			CROSS JOIN links l ON l.client = ?1 AND l.entity = ?2 AND l.key = k.value`,
			[]any{id(client), id(entity), list(ks)}, func(v row) error {
				l, err := readLink(v)
				out = append(out, l)
				return err
			})
		if err != nil {
			return nil, fmt.Errorf("read %d links of client %s: %w", len(ks), client, err)
		}
	}
	return out, nil
}

// PutLinks implements jobs.Tx.
func (t *tx) PutLinks(ctx context.Context, client string, ls []jobs.Link) error {
	for _, l := range stored.Links(ls) {
		err := stored.Fit(l.Key)
		if err == nil {
			_, err = t.exec(ctx, `INSERT INTO links (client, entity, key, link, seen_at) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (client, entity, key) DO UPDATE SET link = excluded.link, seen_at = excluded.seen_at
				WHERE links.link <> excluded.link`,
				id(client), id(l.Entity), id(l.Key), id(l.Link), stamp(l.SeenAt))
		}
		if err != nil {
			return fmt.Errorf("store the link of %s %s at client %s: %w", l.Entity, l.Key, client, err)
		}
	}
	return nil
}

// DeleteLinks implements jobs.Tx.
func (t *tx) DeleteLinks(ctx context.Context, client string, keys []jobs.EntityKey) error {
	for _, k := range stored.EntityKeys(keys) {
		_, err := t.exec(ctx, `DELETE FROM links WHERE client = ? AND entity = ? AND key = ?`, id(client), id(k.Entity), id(k.Key))
		if err != nil {
			return fmt.Errorf("remove the link of %s %s at client %s: %w", k.Entity, k.Key, client, err)
		}
	}
	return nil
}
