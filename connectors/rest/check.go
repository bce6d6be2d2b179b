package rest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// noSuchKey is looked up in a check; no record should bear it.
const noSuchKey = "syncd-check-no-such-key"

// Check reads one page of each stream and holds it against the settings, and
// looks up in each entity a key that nothing bears.
func (i *instance) Check(ctx context.Context, streams, entities []string) []connectors.Finding {
	var l []connectors.Finding
	for _, name := range streams {
		if i.source == nil || i.source.streams[name] == nil {
			l = append(l, connectors.Finding{Subject: name, Problem: "the client describes no stream of that name"})
			continue
		}
		l = append(l, i.source.check(ctx, i.source.streams[name])...)
	}
	for _, name := range entities {
		f := connectors.Finding{Subject: name, Problem: "the client describes no entity of that name"}
		if set, ok := i.set.Entity[name]; ok {
			f = checkEntity(ctx, &entity{api: i.api, name: name, set: set})
		}
		l = append(l, f)
	}
	return l
}

// failed makes a finding of an error.
func failed(subject, doing string, err error) connectors.Finding {
	f := connectors.Finding{Subject: subject, Problem: withOp(err, doing).Error()}
	var h *httpx.Error
	if errors.As(err, &h) {
		switch h.Kind {
		case httpx.NotSent, httpx.Paused, httpx.Canceled, httpx.Throttled, httpx.Unknown:
			f.Unreachable = true
		}
	}
	return f
}

// maxRecords bounds the records of a page of which a check tells what is wrong.
const maxRecords = 5

// findings gathers what is wrong with a stream.
type findings struct {
	subject string
	list    []connectors.Finding
}

func (fs *findings) problem(format string, args ...any) {
	fs.list = append(fs.list, connectors.Finding{Subject: fs.subject, Problem: fmt.Sprintf(format, args...)})
}

func (fs *findings) failed(doing string, err error) {
	fs.list = append(fs.list, failed(fs.subject, doing, err))
}

// check reads the first page without a lower bound, and asks for it again from
// its own greatest stamp on.
func (s *source) check(ctx context.Context, st *stream) []connectors.Finding {
	pos := position{V: 1}
	st.plan.begin(&pos, 0)
	l, err := s.list(ctx, st, &pos)
	if err != nil {
		return []connectors.Finding{failed(st.name, "list", err)}
	}
	if len(l.recs) == 0 {
		return []connectors.Finding{{Subject: st.name, Note: "the listing is empty; whether its fields are where the settings say cannot be told"}}
	}
	fs := &findings{subject: st.name}
	newest, broken := l.recs[0], 0
	for n, r := range l.recs {
		if r.event.Problem != "" {
			if broken++; broken <= maxRecords {
				fs.problem("record %d of the first page: %s", n+1, r.event.Problem)
			}
			continue
		}
		if newest.event.Problem != "" || r.stamp > newest.stamp {
			newest = r
		}
	}
	if broken > maxRecords {
		fs.problem("and %d more of its %d records", broken-maxRecords, len(l.recs))
	}
	if l.unsure {
		fs.problem(noNext, len(l.recs))
	}
	if broken < len(l.recs) {
		s.checkStamps(ctx, st, newest, l.date, fs)
		s.checkFetch(ctx, st, newest, fs)
	}
	if len(fs.list) == 0 {
		return []connectors.Finding{{Subject: st.name, Note: fmt.Sprintf("%d records on the first page", len(l.recs))}}
	}
	return fs.list
}

// checkStamps looks whether the newest record of the first page bears a stamp that can be.
func (s *source) checkStamps(ctx context.Context, st *stream, newest record, date time.Time, fs *findings) {
	switch {
	case st.plan.hasVersion && newest.stamp == 0:
		fs.problem("no record of the first page bears a stamp at %s; look at version", st.set.Version.Path)
	case st.plan.hasVersion && st.plan.version.isTime() && !date.IsZero() && newest.stamp > date.Add(5*time.Minute).UnixMicro():
		fs.problem("a record bears a time after the server's own clock; look at the format and zone of version")
	default:
		s.checkSince(ctx, st, newest, fs)
	}
}

// checkSince asks for what changed since the very stamp that a record bears: an
// API that leaves it out reads the bound in another zone, or otherwise than the
// settings say, and would hide changes.
func (s *source) checkSince(ctx context.Context, st *stream, r record, fs *findings) {
	if !st.plan.hasSince || r.stamp == 0 {
		return
	}
	pos := position{V: 1, Scan: &scan{Since: r.stamp, Size: st.plan.size, Page: st.plan.first}}
	l, err := s.list(ctx, st, &pos)
	if err != nil {
		fs.failed("list since the newest record's own stamp", err)
		return
	}
	found := false
	for _, x := range l.recs {
		if x.stamp > 0 && x.stamp < st.plan.sinceFmt.sent(r.stamp, st.plan.inclusive)-st.plan.version.slack() {
			fs.problem("asked for what changed since a stamp, the API gives older records too; look at the parameter of since")
			return
		}
		// Keyset paging goes on from a stamp on every page and needs its very records.
		found = found || x.id == r.id || x.stamp == r.stamp || x.stamp > r.stamp && st.plan.kind != pageKeyset
	}
	if !found && (len(l.recs) == 0 || st.plan.kind == pageNone || st.plan.kind == pageKeyset) {
		fs.problem("asked for what changed since a record's very stamp, the API does not give that record: it reads the bound in another zone or format, or leaves it out; look at since, and at what it says of inclusive")
	}
}

func (s *source) checkFetch(ctx context.Context, st *stream, r record, fs *findings) {
	if st.set.Fetch.Path == "" {
		return
	}
	e, err := s.fetch(ctx, st.name, r.id)
	switch {
	case err != nil:
		fs.failed("fetch", err)
	case e.Gone && !r.event.Gone:
		fs.problem("a record of the listing is not found under fetch.path")
	}
}

func checkEntity(ctx context.Context, e *entity) connectors.Finding {
	f := connectors.Finding{Subject: e.name}
	if e.set.Lookup.Path == "" {
		f.Note = "without lookup nothing can be asked; the first write will tell"
		return f
	}
	found, err := finder{e}.find(ctx, connectors.Write{Key: noSuchKey})
	switch {
	case err != nil:
		return failed(e.name, "lookup", err)
	case len(found) > 0:
		f.Problem = fmt.Sprintf("a record bears the key %q, which only this check uses", noSuchKey)
	default:
		f.Note = "a key that nothing bears is not found, as it should be"
	}
	return f
}
