package notify

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Options of a notifier.
type Options struct {
	// Daemon names the machine in messages, Version is that of syncd.
	Daemon, Version string
	Log             *slog.Logger
	// Clients are looked at for long pauses; nil for none.
	Clients func() []Client
	// Now is the time that the clients' pauses are told in; nil for the system's.
	Now func() time.Time
	// Done is told of each message: way is command or webhook, result sent or failed. It may be nil.
	Done func(way, result string)
}

// Notifier gathers what happens and tells people of it. Tell may be called from many
// goroutines; it never waits.
type Notifier struct {
	opts Options

	mu       sync.Mutex
	settings Settings
	ways     []way
	gathered gathered
	stirred  chan struct{}

	pauses pauses
}

// way is how a message reaches people.
type way interface {
	name() string
	// send tries once. A permanent error says that another try is no use.
	send(ctx context.Context, id string, body []byte, now time.Time) error
}

const (
	// gatherTime is how long the first happening after a time of rest waits for others.
	gatherTime = 5 * time.Second
	// tryTime bounds one try.
	tryTime = 10 * time.Second
	// lastTime bounds the one try for what is left at the end.
	lastTime = 5 * time.Second
	// lookEvery is how often clients are looked at for long pauses.
	lookEvery = 5 * time.Second
)

// pausesBetween are the waits before the second and each later try. With those of
// tryTime a message takes a minute and a half at most.
func pausesBetween() []time.Duration {
	return []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second}
}

// New returns a notifier that tells nobody before Set and Run.
func New(o Options) *Notifier {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Done == nil {
		o.Done = func(string, string) {}
	}
	return &Notifier{opts: o, stirred: make(chan struct{}, 1)}
}

// Set puts settings into force, also while messages are being sent; those go by the
// old ones.
func (n *Notifier) Set(s Settings) {
	var ways []way
	if len(s.Command) > 0 {
		ways = append(ways, newCommand(s))
	}
	if s.URL != "" {
		ways = append(ways, newWebhook(s, "syncd/"+n.opts.Version))
	}
	n.set(s, ways)
}

func (n *Notifier) set(s Settings, ways []way) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settings, n.ways = s, ways
	if len(ways) == 0 {
		n.gathered = gathered{}
	}
}

// Tell takes note of what happened, to be told with the next message. What nobody is
// to be told of is dropped.
func (n *Notifier) Tell(h Happening) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.ways) == 0 || !slices.Contains(n.settings.Events, h.Event) {
		return
	}
	n.gathered.add(h, n.opts.Now())
	select {
	case n.stirred <- struct{}{}:
	default:
	}
}

// Run sends messages until ctx ends, and then tries once to send what is left.
func (n *Notifier) Run(ctx context.Context) {
	var looks sync.WaitGroup
	looks.Go(func() { n.look(ctx) })
	for ctx.Err() == nil {
		n.round(ctx)
	}
	looks.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	n.send(last, nil)
}

// round waits until there is something to tell, gathers for a moment, tells it, and
// rests for the remainder of the interval.
func (n *Notifier) round(ctx context.Context) {
	select {
	case <-n.stirred:
	case <-ctx.Done():
		return
	}
	wait(ctx, min(gatherTime, n.coalesce()))
	if ctx.Err() != nil {
		return
	}
	begun := time.Now()
	n.send(ctx, pausesBetween())
	wait(ctx, n.coalesce()-time.Since(begun))
}

func (n *Notifier) coalesce() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.settings.Coalesce
}

// send tells what was gathered in all ways at once, with a try more for each of the
// waits between them.
func (n *Notifier) send(ctx context.Context, between []time.Duration) {
	n.mu.Lock()
	g, ways := n.gathered, n.ways
	n.gathered = gathered{}
	select {
	case <-n.stirred: // it told of what is sent now
	default:
	}
	n.mu.Unlock()
	if g.empty() {
		return
	}
	id, m := g.message(n.opts.Daemon, n.opts.Version, n.opts.Now())
	body := m.bytes()
	var wg sync.WaitGroup
	for _, w := range ways {
		wg.Go(func() { n.deliver(ctx, w, id, body, between) })
	}
	wg.Wait()
}

// deliver tries one way until the message has arrived or the tries are used up.
func (n *Notifier) deliver(ctx context.Context, w way, id string, body []byte, between []time.Duration) {
	for try := 0; ; try++ {
		one, cancel := context.WithTimeout(ctx, tryTime)
		err := w.send(one, id, body, time.Now())
		cancel()
		var p permanent
		switch {
		case err == nil:
			n.opts.Done(w.name(), "sent")
			n.opts.Log.Debug("people were told", "way", w.name(), "id", id)
			return
		case try < len(between) && !errors.As(err, &p) && wait(ctx, between[try]):
			n.opts.Log.Debug("telling people failed; tried again", "way", w.name(), "id", id, "error", err)
		default:
			n.opts.Done(w.name(), "failed")
			n.opts.Log.Error("people could not be told; syncd status tells what stands", "way", w.name(), "id", id, "tries", try+1, "error", err)
			return
		}
	}
}

// wait sleeps for d, and reports whether ctx was still there then.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
