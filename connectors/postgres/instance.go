package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"syncd/connectors"
)

// Open prepares the client. It connects when the first statement is to be sent.
func (s *Settings) Open(ctx context.Context, env connectors.Env) (connectors.Instance, error) {
	config, err := s.poolConfig(env)
	if err != nil {
		return nil, fmt.Errorf("client %s: %w", env.Client, err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("client %s: the connection pool cannot be made", env.Client)
	}
	return &instance{settings: s, db: &db{pool: pool, env: env, settings: s, tables: map[tableName]cached{}}}, nil
}

type instance struct {
	settings *Settings
	db       *db
}

func (in *instance) Source() connectors.Source {
	if len(in.settings.Tables) == 0 {
		return nil
	}
	return in
}

func (in *instance) Target() connectors.Target {
	if len(in.settings.Records) == 0 {
		return nil
	}
	return in
}

// Entity returns the entity of that name.
func (in *instance) Entity(name string) (connectors.Entity, error) {
	e, ok := in.settings.Records[name]
	if !ok {
		return nil, fmt.Errorf("client %s has no entity %s", in.db.env.Client, name)
	}
	t := &entity{db: in.db, name: name, config: e}
	if !e.Unique {
		return lookedUp{t}, nil
	}
	return t, nil
}

// lookedUp is an entity whose key nothing makes unique, so that it cannot be upserted.
type lookedUp struct{ rows }

// rows is what such an entity can do.
type rows interface {
	connectors.Entity
	connectors.Creator
	connectors.Finder
	connectors.Updater
	connectors.Remover
	connectors.Verifier
}

// Close waits for statements under way and closes all connections.
func (in *instance) Close() error {
	in.db.pool.Close()
	return nil
}
