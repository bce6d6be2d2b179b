//go:build torture

package crash

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// On says whether the process may be told to die.
const On = true

// order is what the process was told.
type order struct {
	point  string
	passed atomic.Int64
	at     int64
	delay  time.Duration
	signal syscall.Signal
	once   string
	armed  atomic.Bool
}

var told = parse(os.Getenv("TORTURE_CRASH"), os.Getenv("TORTURE_CRASH_ONCE"))

// parse reads an order. One that is not understood must not make a run look as if it had survived.
func parse(text, once string) *order {
	o := &order{at: 1, signal: syscall.SIGKILL, once: once}
	if text == "" {
		return o
	}
	fields := strings.Split(text, ":")
	o.point = fields[0]
	for _, f := range fields[1:] {
		n, notNumber := strconv.ParseInt(f, 10, 64)
		d, notTime := time.ParseDuration(f)
		switch {
		case f == "stop":
			o.signal = syscall.SIGSTOP
		case notNumber == nil && n > 0:
			o.at = n
		case notTime == nil && d > 0:
			o.delay = d
		default:
			panic(fmt.Sprintf("TORTURE_CRASH: %q in %q is not understood", f, text))
		}
	}
	for _, p := range Points() {
		if p.Name == o.point {
			return o
		}
	}
	panic(fmt.Sprintf("TORTURE_CRASH: there is no point %q", o.point))
}

// At is passed at the point of that name.
func At(name string) {
	if told.point == name {
		told.pass()
	}
}

// Commit is passed at a stage of the commit of a transaction of the journal. The kind of the transaction is told by the
// verb that made it, which is found on the stack: so the verbs need not say it, and ordinary builds carry nothing along.
func Commit(stage string) {
	kind, at, _ := strings.Cut(told.point, ".")
	if at == InFlight {
		at = Committing
	}
	if at == stage && kind == transaction() {
		told.pass()
	}
}

// transaction is the kind of the transaction on whose way the caller is: that of the outermost verb.
func transaction() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	verb := ""
	for {
		f, more := frames.Next()
		if v := verbOf(f.Function); v != "" {
			verb = v
		}
		if !more {
			return kindOf(verb)
		}
	}
}

func (o *order) pass() {
	if o.once != "" && !o.armed.Load() {
		if _, err := os.Stat(o.once); err != nil {
			return
		}
		o.armed.Store(true)
	}
	if o.passed.Add(1) != o.at {
		return
	}
	if o.delay > 0 {
		time.AfterFunc(o.delay, o.end)
		return
	}
	o.end()
}

// end does not return when the process is to die: nothing may happen after the point.
func (o *order) end() {
	_ = syscall.Kill(os.Getpid(), o.signal) // it can always signal itself
	if o.signal == syscall.SIGKILL {
		select {}
	}
}

// unshortened is the lease to which TORTURE_LEASE is compared.
const unshortened = 30 * time.Second

var lease = func() time.Duration {
	text := os.Getenv("TORTURE_LEASE")
	if text == "" {
		return unshortened
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		panic(fmt.Sprintf("TORTURE_LEASE: %q is no duration", text))
	}
	return d
}()

// Shorten makes a duration that belongs to a lease as much shorter as the lease is to be.
func Shorten(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (float64(lease) / float64(unshortened)))
}

// verbOf is the verb in the full name of a function; "" when it is none of the journal's.
func verbOf(function string) string {
	rest, ok := strings.CutPrefix(function, "syncd/jobs.(*Journal).")
	if !ok {
		return ""
	}
	verb, _, _ := strings.Cut(rest, ".")
	return verb
}
