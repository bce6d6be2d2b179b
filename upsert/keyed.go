package upsert

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
	"syncd/jobs"
)

// Codes of creates under an idempotency key.
const (
	// CodePinNotStored is a create of which nothing was sent, because what was to be
	// sent could not be kept.
	CodePinNotStored = "pin_not_stored"
	// CodeCompose is a record of which no request can be made.
	CodeCompose = "request"
)

// opCreate is the operation that idempotency keys are for. An update is repeated
// safely through its link, and needs none.
const opCreate = "create"

// keyed reports whether records are created under an idempotency key.
func (s *Strategy) keyed() bool { return s.flow.Strategy == connectors.IdempotencyKey }

// keyFor makes the idempotency key of a record's create. It depends on the record
// and on how often one of its keys was used up, never on a version or an attempt: a
// create that is sent again has the same key. Nobody without the secret can tell
// it, so that no other user of the target can ask for what was answered to us.
func keyFor(secret []byte, client string, k jobs.EntityKey, epoch int64, i *connectors.Idempotency) string {
	h := hmac.New(sha256.New, secret)
	for _, part := range []string{client, k.Entity, k.Key, opCreate} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part))) // so that no two lists run together
		h.Write(n[:])
		h.Write([]byte(part))
	}
	_ = binary.Write(h, binary.BigEndian, epoch)
	sum := h.Sum(nil)
	if i.Form == connectors.KeyHex {
		text := hex.EncodeToString(sum)
		if i.MaxLength > 0 && i.MaxLength < len(text) {
			text = text[:i.MaxLength]
		}
		return text
	}
	sum[6] = sum[6]&0x0f | 0x40 // version and variant of a random UUID: APIs look at them
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// resendUntil is the last moment at which a byte of what is pinned may be sent
// again: the server may work on it for settle time after that, and must know the
// key to the end.
func (a *attempt) resendUntil() time.Time {
	return a.j.Pin.FirstSentAt.Add(a.info.Idempotency.Retention - a.settle)
}

// mayResend reports whether what is pinned may be sent again, to find out what
// became of it. It is not, once an answer has shown that nothing would come of it:
// a refusal, or a link that led nowhere. Whether the record is there is then for
// look-ups to tell, as it is after the deadline, and where the target keeps an error
// under the key, of which the journal ends the pin.
func (a *attempt) mayResend() bool {
	if !a.keyed() || !a.j.Unresolved() || a.j.Pin == nil || !a.at.Before(a.resendUntil()) {
		return false
	}
	if a.finder == nil {
		return true // nothing else can tell; see send for answers after which nothing can
	}
	if a.removed {
		return false // the create was done and undone, and the target still says under its key that it was done
	}
	switch a.j.LastClass {
	case connectors.Invalid, connectors.Missing, connectors.Frozen:
		return false
	}
	return a.j.LastCode != jobs.CodeAbsentOnce
}

// sentUnremembered reports whether the create may have been sent and is not remembered,
// because the journal was restored from a backup, and a create under the same key
// finds out: the target answers as it did, or refuses another content. One that takes
// another content for another record has to be asked by key instead, or a person.
func (a *attempt) sentUnremembered() bool {
	return a.keyed() && a.finder == nil && a.j.Unresolved() && a.j.Pin == nil && !a.j.DoubtSince.IsZero() &&
		a.info.Idempotency.Mismatch != connectors.MismatchCreates &&
		a.at.Before(a.j.DoubtSince.Add(a.info.Idempotency.Retention-a.settle))
}

// resend sends what is pinned once more, in the same bytes and under the same key.
// A newer state waits for that, and follows through the link.
func (a *attempt) resend(ctx context.Context) connectors.Outcome {
	limited, cancel := context.WithTimeout(ctx, a.resendUntil().Sub(a.now()))
	defer cancel()
	if limited.Err() != nil {
		return stopping(limited)
	}
	o := a.send(limited, a.j.Pin)
	switch {
	case o.Class.Confirmed() && o.Link == "":
		return connectors.Fail(connectors.Unknown, CodeNoLink, "the target knows the create but did not say under which id")
	case o.Class.Confirmed() && string(a.j.Pin.Hash) == string(a.j.Hash):
		return a.linked(ctx, o)
	case o.Class.Confirmed():
		if f, failed := a.keep(ctx, o.Link); failed {
			f.Class, f.Link = connectors.Unknown, o.Link // it was written
			return f
		}
		a.rewritten, a.resent = true, true // by the one create that was in doubt
		return a.throughLink(ctx)
	case o.Class != connectors.Invalid:
	case a.finder == nil:
		u := a.unresolvable()
		u.Message = fmt.Sprintf("%s; sent again under its key, it was refused (%s %s), which is no proof that it was not done", u.Message, o.Code, o.Message)
		return u
	default:
		// It may have been looked at before the key was, so it proves nothing.
		if again, wait := a.absentOnce(); wait {
			again.Message = fmt.Sprintf("sent again under its key, it was refused (%s %s); %s", o.Code, o.Message, again.Message)
			return again
		}
	}
	return o
}

// send has a create sent under a key.
func (a *attempt) send(ctx context.Context, p *jobs.Pin) connectors.Outcome {
	w := a.w
	w.Body, w.Sent, w.IdempotencyKey = nil, p.Body, p.Key
	if mutant.On("key-with-attempt") {
		w.IdempotencyKey = fmt.Sprint(p.Key, a.j.Number)
	}
	if mutant.On("other-bytes") {
		w.Sent, _ = a.composer.Compose(a.w)
	}
	o := a.call(ctx, opCreate, w, a.creator.Create)
	if o.Class == connectors.Conflict {
		// "In progress": under this key something is at work, whoever has sent it twice.
		o.Class, o.Answered = connectors.Unknown, true
		return o
	}
	if o.Class != connectors.Unknown || !o.Answered {
		return o
	}
	if !a.info.Idempotency.KeepsErrors {
		return o
	}
	o.Message = fmt.Sprintf("%s: %s; the target keeps that answer under the key", o.Code, o.Message)
	o.Code = jobs.CodeKeptError
	if a.finder == nil {
		o.Code = jobs.CodeUnresolvable
		o.Message += ", and cannot be asked for a record by its key, so nobody can tell whether it was created all the same"
	}
	return o
}

// createKeyed creates the record under its next key. What is sent is kept first.
func (a *attempt) createKeyed(ctx context.Context) connectors.Outcome {
	p, o, ok := a.pin(ctx)
	if !ok {
		return o
	}
	return a.send(ctx, p)
}

// pin keeps what is about to be sent, for as long as it may be in doubt.
func (a *attempt) pin(ctx context.Context) (p *jobs.Pin, o connectors.Outcome, ok bool) {
	body, err := a.compose()
	if err != nil {
		return nil, connectors.Fail(connectors.Invalid, CodeCompose, "%v", err), false
	}
	secret, err := a.journal.Secret(ctx)
	if err == nil {
		epoch := a.j.KeyEpoch
		if a.j.Pin != nil {
			epoch = max(epoch, a.j.Pin.Epoch+1)
		}
		p = &jobs.Pin{RowID: a.j.RowID, Operation: opCreate, Epoch: epoch,
			Key:  keyFor(secret, a.flow.Client, a.j.EntityKey(), epoch, a.info.Idempotency),
			Body: body, Generation: a.j.Generation, Hash: a.j.Hash, FirstSentAt: a.now()}
		if a.sentUnremembered() {
			// What was sent, if anything, need not have been this; so no answer says that
			// the target holds it.
			p.FirstSentAt, p.Hash = a.j.DoubtSince, nil
		}
		err = a.putPin(ctx, *p)
	}
	switch {
	case err == nil:
		return p, o, true
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, stopping(ctx), false
	default:
		return nil, connectors.Fail(connectors.Paused, CodePinNotStored, "nothing was sent: what is to be sent under an idempotency key could not be kept: %v", err), false
	}
}

// compose is what the entity would send; it outlives a panic.
func (a *attempt) compose() (body []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New(a.panicked("compose", v))
		}
	}()
	return a.composer.Compose(a.w)
}

func (a *attempt) putPin(ctx context.Context, p jobs.Pin) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New(a.panicked("put pin", v))
		}
	}()
	return a.journal.PutPin(ctx, a.flow.Client, p)
}

// unresolvable is the outcome of a job whose write is in doubt and of which nobody
// but a person can find out what became of it. Nothing was sent.
func (a *attempt) unresolvable() connectors.Outcome {
	why := "the target cannot be asked for a record by its key"
	switch {
	case a.flow.Strategy == connectors.AtMostOnce:
		why = "flow " + a.flow.Name + " sends at most once"
	case a.j.Pin != nil && !a.at.Before(a.resendUntil()):
		why += ", and may not know the idempotency key any more"
	}
	o := connectors.Fail(connectors.Transient, jobs.CodeUnresolvable, "a write is in doubt, and %s", why)
	// For a doubt that is another flow's, over the same record: its row is the one that is held.
	o.RetryAfter = time.Minute
	return o
}
