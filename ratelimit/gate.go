package ratelimit

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Gate says whether a client may be called now. One gate serves all that calls
// the client; it is safe for concurrent use.
type Gate struct {
	client string
	store  Store
	now    func() time.Time
	random func() float64
	log    *slog.Logger

	mu       sync.Mutex
	settings Settings
	pacer    *pacer
	queues   [kinds][]*waiter
	last     Kind        // whose turn it was
	timer    *time.Timer // looks at the queues again
	heldBy   held        // what keeps the first one back
	pause    Pause
	strikes  int
	changed  chan struct{} // closed, and replaced, when the gate opens or closes or its rate changes
	expiry   *time.Timer   // tells waiters of Changed that a pause is over
	shapes   map[string]*shaped
	resting  bool            // a pause lies behind us, and calls have not begun again
	version  uint64          // counts changes of pause
	unread   uint64          // headers that could not be read, or said what cannot be
	odd      map[string]bool // their names, of which the log has told
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
		changed:  make(chan struct{}),
	}
	g.pacer = newPacer(g.settings)
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
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
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
	g.pacer.set(s)
	g.dispatch()
	g.announce()
	return nil
}

// Recall takes over what another gate of the same client has learned. What this one knows already stays.
func (g *Gate) Recall(l Learned) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pacer.learned.recall(l, time.Now())
	g.dispatch()
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
	// Waiting counts the callers that wait for leave, and HeldBy is what keeps the first of them back: "rate", "quota", "learned", "ramp" or
	// "at once"; "" when nobody waits.
	Waiting int
	HeldBy  string
	// InFlight counts the calls under way.
	InFlight int
	// Quotas are those that the server tells of.
	Quotas []QuotaState
	// Learned is what was learned from refusals; its Rate is 0 when there were none.
	Learned Learned
	// Shapes are the kinds of calls that wait by themselves.
	Shapes []ShapePause
	// Unread counts headers of answers that could not be read, or said what cannot be.
	Unread uint64
	// Unsaved is why the present pause could not be stored, if so. It holds all
	// the same, until the process ends.
	Unsaved error
}

// State tells what the gate is doing at now.
func (g *Gate) State(now time.Time) State {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{Strikes: g.strikes, Rate: g.settings.Rate, Burst: g.settings.Burst, InFlight: g.pacer.underWay(0),
		Quotas: g.pacer.quotas(time.Now()), Learned: g.pacer.learned.all(), Shapes: g.waitingShapes(now), Unread: g.unread}
	for _, q := range g.queues {
		s.Waiting += len(q)
	}
	if s.Waiting > 0 {
		s.HeldBy = string(g.heldBy)
	}
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
