package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options of Open.
type Options struct {
	// Schema holds the journal's tables; "" for "syncd". It is made if it is not there.
	Schema string
	// Exclusive is for the daemon: it makes a journal that is missing and brings an
	// older one up to date, for which it needs that alone. Of a journal as this version
	// knows it any number of daemons may be at work, each in the lanes whose leases it
	// has. Without it the journal has to be there already, as this version knows it.
	Exclusive bool
	// ReadOnly refuses Update.
	ReadOnly bool
	// Pooler says that a transaction pooler (PgBouncer and the like) stands before
	// the server: settings then travel with each transaction and no statement is
	// prepared.
	Pooler bool
	// MaxConns bounds the connections in use at once; 0 for 8. There is one more for
	// what is jobs.Urgent.
	MaxConns int
	// Now is the time in tests; nil for the database's clock. Leases always go by the database's.
	Now func() time.Time
	// Log is told of what is not worth an error; nil for no log.
	Log *slog.Logger
}

// Engine is the journal in PostgreSQL. It implements jobs.Engine.
type Engine struct {
	o     Options
	pool  *pgxpool.Pool
	q     *queries
	marks *marks
	place string
	// syncCommit is set when the server's default for synchronous_commit is off, so
	// that each session or transaction has to turn it on.
	syncCommit bool
	clock      *clock
	// ordinary bounds the connections in use for what is not urgent.
	ordinary chan struct{}

	stop      context.CancelFunc
	work      sync.WaitGroup
	closeOnce sync.Once
}

// defaultSchema and defaultConns stand for options that are not set.
const (
	defaultSchema = "syncd"
	defaultConns  = 8
	mostConns     = 1000
)

// connectTimeout bounds one attempt to reach the server, unless the DSN says otherwise.
const connectTimeout = 10 * time.Second

// Open opens the journal in the database that dsn names: a postgres:// URL or
// key=value pairs. Its errors say what to do and hold no password; they wrap
// jobs.ErrInUse, jobs.ErrNewer, jobs.ErrOlder, jobs.ErrAbsent and
// jobs.ErrUnsafe where these apply.
func Open(ctx context.Context, dsn string, o Options) (*Engine, error) {
	e, err := open(ctx, dsn, o)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return e, nil
}

func open(ctx context.Context, dsn string, o Options) (e *Engine, err error) {
	if o.Exclusive && o.ReadOnly {
		return nil, errors.New("a daemon cannot have its journal read-only")
	}
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	// Names that need no quoting anywhere, and no case to be kept.
	if !regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`).MatchString(o.Schema) {
		return nil, fmt.Errorf("schema %q: want lower-case letters, digits and _, at most 63 of them, not beginning with a digit", o.Schema)
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultConns
	}
	o.MaxConns = min(o.MaxConns, mostConns)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The parser's error repeats the string with its password masked at best.
		return nil, errors.New("the connection string is not understood; write postgres://USER@HOST:5432/DATABASE or key=value pairs, with the password by reference")
	}
	background, stop := context.WithCancel(context.Background())
	e = newEngine(o)
	e.place, e.stop = describe(config.ConnConfig, o.Schema), stop
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	e.configure(config)
	if e.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return e, e.explain(err)
	}
	if err = e.prepare(ctx, background); err != nil {
		return e, e.explain(err)
	}
	return e, nil
}

// newEngine is an engine without connections.
func newEngine(o Options) *Engine {
	return &Engine{o: o, q: newQueries(o.Schema), marks: newMarks(), clock: &clock{now: o.Now}, ordinary: make(chan struct{}, o.MaxConns)}
}

// prepare makes sure that server and schema can serve.
func (e *Engine) prepare(ctx, background context.Context) error {
	if err := e.checkServer(ctx); err != nil {
		return err
	}
	if err := e.clock.measure(ctx, e.acquire); err != nil {
		return err
	}
	ready, err := e.mayUse(ctx)
	if err != nil {
		return err
	}
	if ready.version < ready.want {
		if err := e.migrate(ctx, ready); err != nil {
			return err
		}
	}
	if e.o.Now == nil {
		e.work.Go(func() { e.clock.keep(background, e.acquire) })
	}
	return nil
}

// configure gives the pool's connections their settings.
func (e *Engine) configure(c *pgxpool.Config) {
	c.MaxConns = int32(e.o.MaxConns) + 1
	c.MinConns, c.MinIdleConns = 0, 0
	c.MaxConnLifetime, c.MaxConnLifetimeJitter = time.Hour, 10*time.Minute
	c.HealthCheckPeriod = 30 * time.Second
	// Without it a connection that died silently eats the caller's whole deadline.
	c.PingTimeout = 5 * time.Second
	c.AfterConnect = e.greet
	cc := c.ConnConfig
	if cc.ConnectTimeout <= 0 {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DialFunc = dialer().DialContext
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = "syncd"
	}
	// Left alone, a server takes texts to be in its database's own encoding.
	cc.RuntimeParams["client_encoding"] = "UTF8"
	if e.o.Pooler {
		cc.DefaultQueryExecMode = pgx.QueryExecModeExec
		cc.StatementCacheCapacity, cc.DescriptionCacheCapacity = 0, 0
		return
	}
	for _, s := range sessionSettings() {
		cc.RuntimeParams[s.name] = s.value
	}
}

// dialer notices within half a minute that the other side has gone without a word.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         boundUnacknowledged,
	}
}

// describe names the place for people: no user, no password.
func describe(c *pgx.ConnConfig, schema string) string {
	return "postgresql " + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database + ", schema " + schema
}

// Describe implements jobs.Engine.
func (e *Engine) Describe() string { return e.place }

// Now implements jobs.Engine: the database's time, measured and carried on by this
// process's monotonic clock.
func (e *Engine) Now() time.Time { return e.clock.read() }

// Close implements jobs.Engine. It waits for transactions under way.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		e.stop()
		e.work.Wait()
		if e.pool != nil {
			e.pool.Close()
		}
	})
	return nil
}
