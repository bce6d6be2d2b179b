package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/ratelimit"
)

// Open prepares the client. The folder is looked at when it is first read.
func (s *Settings) Open(_ context.Context, env connectors.Env) (connectors.Instance, error) {
	if s.Dir == "" {
		return nil, errors.New("dir is missing; name the folder with the files")
	}
	dir := s.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(env.BaseDir, dir)
	}
	return &instance{settings: s, env: env, dir: dir}, nil
}

type instance struct {
	settings *Settings
	env      connectors.Env
	dir      string
	noted    noted
	known    blockedFiles

	mu     sync.Mutex
	rounds []keptRound
	closed bool
}

// maxKept bounds the rounds kept open between two pages: more than one per flow are leftovers of pages that were not stored.
const maxKept = 16

type keptRound struct {
	stream, next string
	round        *round
}

func (in *instance) Source() connectors.Source { return in }

func (in *instance) Target() connectors.Target { return nil }

// Fetch is never called: a line is an entry of a log, not a record to be asked for.
func (in *instance) Fetch(_ context.Context, stream, _ string) (connectors.Event, error) {
	return connectors.Event{}, in.fail(stream, connectors.Errorf(connectors.Invalid, "cannot_fetch", "files cannot be asked for one record"))
}

// Close closes the files that are open.
func (in *instance) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	for _, k := range in.rounds {
		k.round.close()
	}
	in.rounds = nil
	return nil
}

// keep stores a round for the page that follows.
func (in *instance) keep(stream string, next json.RawMessage, r *round) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		r.close()
		return
	}
	if len(in.rounds) >= maxKept {
		in.rounds[0].round.close()
		in.rounds = in.rounds[1:]
	}
	in.rounds = append(in.rounds, keptRound{stream, string(next), r})
}

// kept takes out the round that a cursor goes on with, or returns nil.
func (in *instance) kept(stream string, cursor json.RawMessage) *round {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, k := range in.rounds {
		if k.stream == stream && k.next == string(cursor) {
			in.rounds = append(in.rounds[:i:i], in.rounds[i+1:]...)
			return k.round
		}
	}
	return nil
}

// fail says of an error which stream was read.
func (in *instance) fail(stream string, err error) error {
	var e *connectors.Error
	if !errors.As(err, &e) {
		e = connectors.Errorf(connectors.Transient, "io", "%v", err)
		e.Err = err
	}
	e.Op = "read stream " + stream
	return e
}

// noted remembers of which files a person was told that they end within a line, so that it is said once.
type noted struct {
	mu    sync.Mutex
	files map[string]int64
	opens map[string]opening
}

// opening is a quoted value that was met without its end: where its record begins, and when that was first seen.
type opening struct {
	off   int64
	since time.Time
}

// open returns for how long the record at off of a file is known to have no end.
func (n *noted) open(name string, off int64, now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	o, ok := n.opens[name]
	if !ok || o.off != off {
		if n.opens == nil || len(n.opens) >= maxFiles {
			n.opens = map[string]opening{}
		}
		o = opening{off, now}
		n.opens[name] = o
	}
	return now.Sub(o.since)
}

func (n *noted) first(e entry) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.files[e.name] == e.changed {
		return false
	}
	if n.files == nil || len(n.files) >= maxFiles {
		n.files = map[string]int64{}
	}
	n.files[e.name] = e.changed
	return true
}

// Check looks for the folder, the files and the fields.
func (in *instance) Check(ctx context.Context, streams, _ []string) []connectors.Finding {
	pass, err := in.env.Gate.Enter(ctx, ratelimit.Ask{})
	if err != nil {
		return []connectors.Finding{{Problem: "not asked: " + err.Error(), Unreachable: true}}
	}
	defer pass.Drop(true)
	root, err := os.OpenRoot(in.dir)
	if err != nil {
		return []connectors.Finding{{Problem: fmt.Sprintf("the folder %s cannot be opened: %v; look at dir and at who may read it", in.dir, plain(err)), Unreachable: true}}
	}
	defer func() { _ = root.Close() }()
	var findings []connectors.Finding
	for _, name := range streams {
		st, ok := in.settings.Files[name]
		if !ok {
			findings = append(findings, connectors.Finding{Subject: name, Problem: "there is no such stream in the configuration"})
			continue
		}
		findings = append(findings, in.checkStream(root, name, st)...)
	}
	return findings
}

// maxPassed bounds the files of a stream of which a check says why they are passed over.
const maxPassed = 5

func (in *instance) checkStream(root *os.Root, name string, st *Stream) (findings []connectors.Finding) {
	problem := func(format string, args ...any) {
		findings = append(findings, connectors.Finding{Subject: name, Problem: fmt.Sprintf(format, args...)})
	}
	files, notes, err := st.list(root)
	if err != nil {
		problem("%v", err)
		return findings
	}
	for i, note := range notes {
		if i == maxPassed {
			problem("and %d more", len(notes)-i)
			break
		}
		problem("%s", note)
	}
	if len(files) == 0 {
		return append(findings, connectors.Finding{Subject: name, Note: fmt.Sprintf("no file matches %s yet", st.Path)})
	}
	newest := files[0]
	for _, e := range files {
		if e.changed > newest.changed {
			newest = e
		}
	}
	r := &round{name: name, stream: st, root: root, memory: newMemory(), noted: &noted{}, known: &blockedFiles{}, files: []entry{newest}, now: in.env.Now(), limit: 1}
	defer func() {
		if r.file != nil {
			_ = r.file.Close()
		}
	}()
	if err := r.visit(newest); err != nil {
		problem("%v", err)
	}
	for _, b := range r.blocked {
		problem("%s", b.err.Message)
	}
	if len(r.page.Events) > 0 && r.page.Events[0].Problem != "" {
		problem("the first record of the newest file cannot be used: %s", r.page.Events[0].Problem)
	}
	if len(findings) > 0 {
		return findings
	}
	many := "files"
	if len(files) == 1 {
		many = "file"
	}
	return []connectors.Finding{{Subject: name, Note: fmt.Sprintf("%d %s; the newest is %s", len(files), many, newest.name)}}
}

// gateError is the outcome of a read that the gate, or the end of its context, let not begin.
func gateError(err error) error {
	class, code := connectors.Paused, "paused"
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		class, code = connectors.Transient, "canceled"
	}
	e := connectors.Errorf(class, code, "%v", err)
	e.Err = err
	return e
}
