package faketarget

import (
	"time"

	"syncd/connectors"
)

// Op names a primitive.
type Op string

// The primitives.
const (
	Upsert  Op = "upsert"
	Create  Op = "create"
	Find    Op = "find"
	Update  Op = "update"
	Remove  Op = "remove"
	Advance Op = "advance"
)

// Call is one call of a primitive for one record, as the target saw it. A batch
// is seen as one Upsert call per record.
type Call struct {
	Op        Op
	Key, Link string
	Stamp     connectors.Stamp
	At        time.Time
	// N counts the calls, from 1.
	N int
	// Fault is what was done to it.
	Fault Fault
}

// Kind is what goes wrong with a call.
type Kind string

// The kinds of faults. What they do to a read is said where it differs.
const (
	// None lets the call be.
	None Kind = ""
	// NotSent does nothing and says so: Transient.
	NotSent Kind = "not_sent"
	// Throttle does nothing: Throttled.
	Throttle Kind = "throttle"
	// Refuse does nothing: Invalid.
	Refuse Kind = "refuse"
	// LoseRequest does nothing, but nobody can tell: Unknown. A read is Transient.
	LoseRequest Kind = "lose_request"
	// LoseAnswer does what was asked: Unknown. A read is Transient.
	LoseAnswer Kind = "lose_answer"
	// Late does what was asked after Fault.Delay: Unknown. A read is Transient.
	Late Kind = "late"
	// FailUndone does nothing and answers with a server error: Unknown, Answered.
	// A read is Transient.
	FailUndone Kind = "fail_undone"
	// FailDone does what was asked and answers with a server error all the same.
	FailDone Kind = "fail_done"
	// PanicBefore panics with nothing done, PanicAfter with everything done. In a
	// batch the records before it are done.
	PanicBefore Kind = "panic_before"
	PanicAfter  Kind = "panic_after"
	// NoLink does what was asked and does not say under which id.
	NoLink Kind = "no_link"
	// Foreign does what was asked and names a record that does not exist.
	Foreign Kind = "foreign"
	// BadClass does what was asked and answers with a class that does not exist.
	BadClass Kind = "bad_class"
	// NotThere does nothing and denies that the record exists, as a replica does
	// that has not heard of it: Missing. Only updates of records created less than
	// IndexLag ago are spoilt by it.
	NotThere Kind = "not_there"
	// Short does what was asked and leaves the record out of the batch's answer.
	// Single calls are answered with an empty outcome.
	Short Kind = "short"
)

// Kinds lists all faults but None.
func Kinds() []Kind {
	return []Kind{NotSent, Throttle, Refuse, LoseRequest, LoseAnswer, Late, FailUndone, FailDone,
		PanicBefore, PanicAfter, NoLink, Foreign, BadClass, NotThere, Short}
}

// Fault is what happens to one call.
type Fault struct {
	Kind Kind
	// Delay is when a Late call takes effect, counted from the call.
	Delay time.Duration
	// Code is the code of a server error; "" means http_500.
	Code string
}

func (f Fault) code() string {
	if f.Code == "" {
		return "http_500"
	}
	return f.Code
}

// spoil carries out one write under its fault.
func (e *Entity) spoil(c Call, w connectors.Write) connectors.Outcome {
	do := func() connectors.Outcome { return e.do(c.Op, w, c.At, false) }
	unknown := func(code string) connectors.Outcome {
		return connectors.Fail(connectors.Unknown, code, "%s %s", c.Op, c.Fault.Kind)
	}
	if o, ok := e.spoilKeyed(c, w); ok {
		return o
	}
	switch c.Fault.Kind {
	case NotSent:
		return connectors.Fail(connectors.Transient, "connect", "not sent")
	case Throttle:
		o := connectors.Fail(connectors.Throttled, "http_429", "too many requests")
		o.RetryAfter = time.Second
		return o
	case Refuse:
		return connectors.Fail(connectors.Invalid, "http_422", "refused")
	case LoseRequest:
		return unknown("timeout")
	case LoseAnswer:
		do()
		return unknown("timeout")
	case Late:
		e.pending = append(e.pending, pending{at: c.At.Add(c.Fault.Delay), op: c.Op, w: w})
		return unknown("timeout")
	case FailUndone, FailDone:
		if c.Fault.Kind == FailDone {
			do()
		}
		o := unknown(c.Fault.code())
		o.Answered = true
		return o
	case PanicBefore:
		panic("faketarget: before " + string(c.Op))
	case PanicAfter:
		do()
		panic("faketarget: after " + string(c.Op))
	case NoLink:
		o := do()
		o.Link = ""
		return o
	case Foreign:
		o := do()
		o.Link = "99999"
		return o
	case BadClass:
		o := do()
		o.Class = "splendid"
		return o
	case NotThere:
		if c.Op != Update || !e.young(w.Link, c.At) {
			return do()
		}
		return connectors.Fail(connectors.Missing, "http_404", "there is no record %s", w.Link)
	case Short:
		do()
		return connectors.Outcome{}
	default:
		return do()
	}
}

// spoilRead returns the error of a read under its fault; nil when it may go on.
func spoilRead(c Call) error {
	switch c.Fault.Kind {
	case None, NoLink, Foreign, BadClass, NotThere, Short:
		return nil
	case Throttle:
		err := connectors.Errorf(connectors.Throttled, "http_429", "too many requests")
		err.RetryAfter = time.Second
		return err
	case Refuse:
		return connectors.Errorf(connectors.Auth, "http_403", "no right to read")
	case PanicBefore, PanicAfter:
		panic("faketarget: in find")
	default:
		return connectors.Errorf(connectors.Transient, c.Fault.code(), "find failed")
	}
}
