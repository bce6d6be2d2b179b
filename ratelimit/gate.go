package ratelimit

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"syncd/internal/mutant"
)

// Gate says whether a client may be called now. One gate serves all that calls
// the client; it is safe for concurrent use.
type Gate struct {
	client string
	store  Store
	now    func() time.Time
	random func() float64
	log    *slog.Logger

	// turn is held by the one waiter that has a reservation at the limiter. A
	// limiter does not apply a new rate to reservations already made, and cannot
	// give back one that others were made after; with a single one neither matters.
	turn chan struct{}

	mu       sync.Mutex
	settings Settings
	limiter  *rate.Limiter // nil without a configured rate
	pause    Pause
	strikes  int
	changed  chan struct{} // closed, and replaced, when the gate opens or closes or its rate changes
	expiry   *time.Timer   // tells waiters of Changed that a pause is over
	spend    bool          // a pause lies behind us, and tokens saved up in it must not go out at once
	waiting  int
	version  uint64 // counts changes of pause
	closed   bool

	saving  sync.Mutex // orders saves; taken before mu
	saved   uint64     // version that was last given to the store
	saveErr error      // what the store said to it
}

// NewGate returns an open gate. A nil store keeps pauses in memory only; nil
// now, random and log mean the system's clock, a random source and no log.
// random returns numbers in [0, 1).
func NewGate(client string, s Settings, store Store, now func() time.Time, random func() float64, log *slog.Logger) (*Gate, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("client %q: %w", client, err)
	}
	if now == nil {
		now = time.Now
	}
	if random == nil {
		random = rand.Float64
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &Gate{
		client: client, store: store, now: now, random: random, log: log.With("client", client),
		settings: s.withDefaults(),
		turn:     make(chan struct{}, 1),
		changed:  make(chan struct{}),
	}
	g.limiter = newLimiter(g.settings)
	return g, nil
}

// Close ends the gate's own work: the end of a pause is not told any more. That is
// for a gate whose client is not called through it again, since another one has
// taken its place.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.expiry != nil {
		g.expiry.Stop()
		g.expiry = nil
	}
}

func newLimiter(s Settings) *rate.Limiter {
	if s.Rate == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(s.Rate), s.Burst)
}

// Wait takes one token, waiting for it if need be. It returns a *PausedError at
// once when the client is paused or becomes paused meanwhile, and the context's
// error as soon as that ends. A deadline too close for the next token is only
// ever seen as the context's own error, after it has passed.
func (g *Gate) Wait(ctx context.Context) error {
	for {
		limited, changed, err := g.look(ctx)
		if err != nil || !limited {
			return err
		}
		g.count(+1)
		took := g.token(ctx, changed)
		g.count(-1)
		if took {
			_, _, err = g.look(ctx)
			return err
		}
	}
}

// look reports why no call may be made now, and if one may, whether it needs a token.
func (g *Gate) look(ctx context.Context) (limited bool, changed <-chan struct{}, err error) {
	if err := ctx.Err(); err != nil {
		return false, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pause.Active(g.now()) && !mutant.On("pause-overlooked") {
		return false, nil, &PausedError{Client: g.client, Pause: g.pause}
	}
	return g.limiter != nil, g.changed, nil
}

func (g *Gate) count(n int) {
	g.mu.Lock()
	g.waiting += n
	g.mu.Unlock()
}

// token waits for its turn and then for a token. It reports false when the
// context ended or the gate changed first.
func (g *Gate) token(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-changed:
		return false
	case <-ctx.Done():
		return false
	}
	r := g.reserve()
	if r == nil {
		return true
	}
	// The limiter runs on the monotonic clock alone: a stale or set-back time
	// would make it give out tokens twice.
	delay := r.Delay()
	if delay == 0 {
		return true
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-changed:
	case <-ctx.Done():
	}
	r.Cancel()
	return false
}

// reserve books the next token; nil when none is needed.
func (g *Gate) reserve() *rate.Reservation {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limiter == nil {
		return nil
	}
	// Whoever came before the pause and books only in it leaves the rest to those who come after.
	if g.spend && !g.pause.Active(g.now()) {
		g.spend = false
		if surplus := int(g.limiter.Tokens()) - 1; surplus > 0 {
			g.limiter.AllowN(time.Now(), surplus)
		}
	}
	return g.limiter.Reserve()
}

// SetRate changes the rate and the burst, also for those who are waiting.
func (g *Gate) SetRate(perSecond float64, burst int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.settings
	s.Rate, s.Burst = perSecond, burst
	if err := s.Validate(); err != nil {
		return fmt.Errorf("client %q: %w", g.client, err)
	}
	s = s.withDefaults()
	if s.Rate == g.settings.Rate && s.Burst == g.settings.Burst {
		return nil
	}
	g.settings = s
	if g.limiter == nil || s.Rate == 0 {
		g.limiter = newLimiter(s)
	} else {
		g.limiter.SetLimit(rate.Limit(s.Rate))
		g.limiter.SetBurst(s.Burst)
	}
	g.announce()
	return nil
}

// State is what a gate is doing.
type State struct {
	// Open means that a call may be made, as soon as there is a token for it.
	Open bool
	// Pause is the present pause; zero when the gate is open.
	Pause Pause
	// Strikes counts the pauses asked for by the server since its last good answer.
	Strikes int
	// Rate and Burst are those in force; Rate is 0 when none is configured.
	Rate  float64
	Burst int
	// Waiting counts the callers that wait for a token.
	Waiting int
	// Unsaved is why the present pause could not be stored, if so. It holds all
	// the same, until the process ends.
	Unsaved error
}

// State tells what the gate is doing at now.
func (g *Gate) State(now time.Time) State {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{Strikes: g.strikes, Rate: g.settings.Rate, Burst: g.settings.Burst, Waiting: g.waiting}
	if s.Open = !g.pause.Active(now); !s.Open {
		s.Pause, s.Unsaved = g.pause, g.saveErr
	}
	return s
}

// Changed returns a channel that is closed when the gate next opens or closes,
// or gets another rate. Take the channel first and then look at the state.
func (g *Gate) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// announce wakes everybody who waits for a change. The caller holds mu.
func (g *Gate) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}
