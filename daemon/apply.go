package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/internal/crash"
	"syncd/jobs"
	"syncd/mapping"
)

// apply writes a unit: references are replaced by the target's own ids, then
// the strategy does the write under the client's breaker and the flow's timeout.
func (l *lane) apply(hard context.Context, u unit) []jobs.Settlement {
	crash.At("job.claimed")
	begun := time.Now()
	ctx, cancel := context.WithTimeout(hard, u.flow.Retry.Timeout)
	defer cancel()
	ss := make([]jobs.Settlement, len(u.jobs))
	var sent []*jobs.Job
	var at []int
	for i, jb := range u.jobs {
		ss[i] = jobs.Settlement{Job: jb, Flow: u.flow}
		if o, ok := l.resolve(ctx, u.flow, jb, &ss[i]); !ok {
			ss[i].Outcome = o
			continue
		}
		sent, at = append(sent, jb), append(at, i)
	}
	if len(sent) > 0 {
		out := l.write(ctx, u.flow, sent)
		for k, i := range at {
			ss[i].Outcome = out[k]
			ss[i].Batch = len(sent) > 1
		}
	}
	crash.At("job.applied")
	now := l.d.journal.Now()
	for i := range ss {
		ss[i].SentAt, ss[i].Served = now, l.client.lastServed()
		ss[i].Took = time.Since(begun)
		o := &ss[i].Outcome // a code can be the server's own word, too
		o.Code, o.Message = l.d.opts.Redact(o.Code), l.d.opts.Redact(o.Message)
		l.follow(hard, ss[i].Outcome)
	}
	return ss
}

// write has the strategy write jobs and tells the breaker what came of it.
func (l *lane) write(ctx context.Context, f *jobs.Flow, js []*jobs.Job) []connectors.Outcome {
	try, err := l.client.try()
	if err != nil {
		return all(len(js), connectors.Fail(connectors.Paused, "suspended", "%s", err))
	}
	defer try.end()
	call, err := l.client.breaker.Allow()
	if err != nil {
		return all(len(js), connectors.Fail(connectors.Paused, "breaker", "%s", err))
	}
	res := breaker.Result{Verdict: breaker.Failure, Err: "panic"}
	defer func() { call.Done(res) }()
	ctx, m := l.client.metered(ctx)
	out := l.safely(ctx, f, js)
	try.answer(ctx, out...)
	res = l.judge(js, out)
	if res.Took = m.took(); res.Verdict == breaker.Success && m.over(l.client) {
		for _, jb := range js {
			res.Records = append(res.Records, jb.Key)
		}
	}
	if res.Verdict == breaker.Success {
		l.client.lives()
	}
	return out
}

// safely runs the strategy; a panic leaves its jobs in doubt.
func (l *lane) safely(ctx context.Context, f *jobs.Flow, js []*jobs.Job) (out []connectors.Outcome) {
	defer func() {
		if r := recover(); r != nil {
			l.log.Error("writing panicked", "flow", f.Name, "jobs", len(js), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			out = all(len(js), connectors.Fail(connectors.Unknown, "panic", "syncd failed while writing; see its log"))
		}
	}()
	return l.doers[f.Name].Apply(ctx, js)
}

func all(n int, o connectors.Outcome) []connectors.Outcome {
	out := make([]connectors.Outcome, n)
	for i := range out {
		out[i] = o
	}
	return out
}

// judge says what a unit's outcomes tell of the client.
func (l *lane) judge(js []*jobs.Job, out []connectors.Outcome) breaker.Result {
	res := breaker.Result{Verdict: breaker.Ignore}
	for i, o := range out {
		switch verdict(o) {
		case breaker.Success:
			return breaker.Result{Verdict: breaker.Success}
		case breaker.Failure:
			res.Verdict = breaker.Failure
			res.Records = append(res.Records, js[i].Key)
			res.Err = o.Code
			if o.Message != "" {
				res.Err += ": " + o.Message
			}
		}
	}
	return res
}

// follow closes the gate for outcomes that concern the whole client.
func (l *lane) follow(ctx context.Context, o connectors.Outcome) {
	switch o.Class {
	case connectors.Auth:
		l.client.suspend(ctx, o.Code)
	case connectors.Throttled:
		l.client.throttled(ctx, o)
	}
}

// refMark is how a reference begins in a mapped record.
var refMark = []byte(`"$ref"`)

// resolve replaces the references of a record by the target's own ids: by
// their links, else looked up in the target. When one is missing the job waits.
func (l *lane) resolve(ctx context.Context, f *jobs.Flow, jb *jobs.Job, s *jobs.Settlement) (connectors.Outcome, bool) {
	if jb.Gone || !bytes.Contains(jb.Body, refMark) {
		return connectors.Outcome{}, true
	}
	refs, err := mapping.FindRefs(jb.Body)
	if err != nil {
		return connectors.Fail(connectors.Invalid, "mapping", "the references of the record cannot be read: %s", err), false
	}
	keys := make([]jobs.EntityKey, len(refs))
	for i, r := range refs {
		keys[i] = jobs.EntityKey{Entity: r.Entity, Key: r.Key}
	}
	links, err := l.d.journal.Links(ctx, f.Client, keys)
	if err != nil {
		return connectors.Fail(connectors.Paused, "journal", "reading links failed"), false
	}
	for i, k := range keys {
		if links[k] != "" {
			continue
		}
		link, o := l.lookUp(ctx, f.Client, k)
		if o.Class != "" {
			return o, false
		}
		if link == "" && refs[i].Optional {
			s.Reopen = k
			continue
		}
		if link == "" {
			o := connectors.Fail(connectors.Waiting, "reference", "%s %s is not in the target yet", k.Entity, k.Key)
			o.WaitEntity, o.WaitKey = k.Entity, k.Key
			return o, false
		}
		links[k] = link
	}
	if s.Reopen != (jobs.EntityKey{}) && jb.Applied() && bytes.Equal(jb.AppliedHash, jb.Hash) && !jb.Unresolved() {
		// It stands already without the optional reference; there is nothing to add yet.
		o := connectors.Fail(connectors.Waiting, "optional_reference", "written without %s %s, which is not in the target yet", s.Reopen.Entity, s.Reopen.Key)
		o.WaitEntity, o.WaitKey, o.RetryAfter = s.Reopen.Entity, s.Reopen.Key, 10*time.Minute
		return o, false
	}
	body, missing, err := mapping.ResolveRefs(jb.Body, func(r mapping.Ref) (json.RawMessage, bool) {
		link := links[jobs.EntityKey{Entity: r.Entity, Key: r.Key}]
		return json.RawMessage(link), link != ""
	})
	if err != nil || len(missing) > 0 {
		return connectors.Fail(connectors.Invalid, "mapping", "the references of the record cannot be replaced"), false
	}
	jb.Body, jb.Refers = body, true
	return connectors.Outcome{}, true
}
