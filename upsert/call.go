package upsert

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
)

// Codes of outcomes that this package makes itself.
const (
	// CodeStopping is a job of which nothing was sent because the daemon stops, or
	// has lost the client.
	CodeStopping = "stopping"
	// CodeTimeout is a job of which nothing was sent because the time of its attempt
	// was used up before.
	CodeTimeout = "timeout"
	// CodeExists is a record that is in the target already and is not ours.
	CodeExists = "exists"
	// CodeAmbiguous is a key that several records of the target carry.
	CodeAmbiguous = "ambiguous"
	// CodeNoBody is a job without a record.
	CodeNoBody = "no_body"
	// CodeNoLink is an answer that does not name the record.
	CodeNoLink = "no_link"
	// CodeForeignAnswer is an answer that names another record.
	CodeForeignAnswer = "foreign_answer"
	// CodeShortAnswer is a batch that was not answered for all its records.
	CodeShortAnswer = "short_answer"
	// CodeBadAnswer is an outcome that no connector may return.
	CodeBadAnswer = "bad_answer"
	// CodeLinkNotStored is a link that the journal could not store.
	CodeLinkNotStored = "link_not_stored"
	// CodePanic is a panic in a connector.
	CodePanic = "panic"
	// CodeFind is a look-up that failed without saying why.
	CodeFind = "find"
)

// linkTime bounds the storing of a link once the record is created. It does not
// end with the job's context: the record is there, and forgetting it would cost
// a wait of SettleTime.
const linkTime = 10 * time.Second

// write calls one writing primitive.
func (a *attempt) write(ctx context.Context, op string, do func(context.Context, connectors.Write) connectors.Outcome) connectors.Outcome {
	return a.call(ctx, op, a.w, do)
}

// call has one write done. A panic leaves open what was sent.
func (a *attempt) call(ctx context.Context, op string, w connectors.Write, do func(context.Context, connectors.Write) connectors.Outcome) (o connectors.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = connectors.Fail(connectors.Unknown, CodePanic, "%s", a.panicked(op, v))
		}
	}()
	return checked(ctx, do(ctx, w))
}

// checked makes a claim that no connector may make an outcome in doubt: there
// is no telling what has happened. A call that did nothing because the daemon
// stops costs the record nothing.
func checked(ctx context.Context, o connectors.Outcome) connectors.Outcome {
	o.Resolved = false
	if o.Class == connectors.Transient && errors.Is(ctx.Err(), context.Canceled) {
		return stopping(ctx)
	}
	if !slices.Contains(connectors.Classes(), o.Class) || o.Class == connectors.Lost || o.Class == connectors.Expired {
		o.Message = fmt.Sprintf("the connector answered with class %q", o.Class)
		o.Class, o.Code, o.Link = connectors.Unknown, CodeBadAnswer, ""
	}
	return o
}

// find looks the records of a key up. failed is false when the answer can be
// used; else o is the outcome, which is never in doubt. Links are distinct.
func (a *attempt) find(ctx context.Context, w connectors.Write) (found []connectors.Found, o connectors.Outcome, failed bool) {
	found, err := find(ctx, a.finder, w, a.panicked)
	switch {
	case err == nil:
		return found, connectors.Outcome{}, false
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, stopping(ctx), true
	default:
		return nil, readOutcome(err), true
	}
}

// find calls Find, outlives a panic in it, and refuses an answer that does not name its records.
func find(ctx context.Context, f connectors.Finder, w connectors.Write, panicked func(string, any) string) (found []connectors.Found, err error) {
	defer func() {
		if v := recover(); v != nil {
			found, err = nil, connectors.Errorf(connectors.Transient, CodePanic, "%s", panicked("find", v))
		}
	}()
	found, err = f.Find(ctx, w)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if r.Link == "" {
			return nil, connectors.Errorf(connectors.Transient, CodeNoLink, "the target found %s but did not say under which id", w.Key)
		}
	}
	return distinct(found), nil
}

// distinct drops a record that a listing names more than once.
func distinct(fs []connectors.Found) []connectors.Found {
	var out []connectors.Found
	for _, f := range fs {
		if !slices.ContainsFunc(out, func(o connectors.Found) bool { return o.Link == f.Link }) {
			out = append(out, f)
		}
	}
	return out
}

// readOutcome is what a failed read leads to. Nothing was changed by it, so it
// may be tried again; only classes that say more about the client or about the
// record are kept.
func readOutcome(err error) connectors.Outcome {
	var e *connectors.Error
	if !errors.As(err, &e) {
		return connectors.Fail(connectors.Transient, CodeFind, "%v", err)
	}
	o := e.Outcome
	o.Link, o.MaybeDuplicate, o.Answered, o.Resolved = "", false, false, false
	if e.Op != "" {
		o.Message = strings.TrimSuffix(e.Op+": "+o.Message, ": ")
	}
	switch o.Class {
	case connectors.Throttled, connectors.Paused, connectors.Auth, connectors.Invalid:
	default:
		o.Class = connectors.Transient
	}
	return o
}

// putLink commits the record's link.
func (a *attempt) putLink(ctx context.Context, link string) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New(a.panicked("put link", v))
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkTime)
	defer cancel()
	return a.journal.PutLink(ctx, a.j, link)
}

// panicked tells the owner of the strategy of a panic and returns what may be shown of it.
func (a *attempt) panicked(op string, v any) string {
	if a.Panicked != nil {
		a.Panicked(op, a.j, v, debug.Stack())
	}
	return panicText(op, v)
}

// panicText names a panic without its text, except for the runtime's own, which
// holds no part of a record.
func panicText(op string, v any) string {
	kind := fmt.Sprintf("%T", v)
	if re, ok := v.(runtime.Error); ok {
		kind = re.Error()
	}
	return fmt.Sprintf("a defect of the connector: it panicked in %s (%s)", op, kind)
}

// stopping is the outcome of a job whose context ended before anything was
// sent. A stop costs the job nothing. That its time is over does: a target that
// uses up every attempt's time must come to an end.
func stopping(ctx context.Context) connectors.Outcome {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connectors.Fail(connectors.Transient, CodeTimeout, "not sent: the time of the attempt was over")
	}
	return connectors.Fail(connectors.Paused, CodeStopping, "not sent: %v", context.Cause(ctx))
}
