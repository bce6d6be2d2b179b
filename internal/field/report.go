package field

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a configuration.
type Problem struct {
	Pos  Pos
	Path string // where in the configuration: flows.orders.retry.max_attempts
	Msg  string // what is wrong; what to do
}

// String gives "file:line:col: path: what is wrong; what to do".
func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("%s: %s", p.Pos, p.Msg)
	}
	return fmt.Sprintf("%s: %s: %s", p.Pos, p.Path, p.Msg)
}

// Report collects problems at a place of the configuration.
type Report struct {
	at   place
	list *problems
}

// place is where we are: a path, the node there (nil if it was not given), and the position to show.
type place struct {
	path []string
	node *Node
	pos  Pos
}

func (p place) child(name string) place {
	q := place{path: append(slices.Clip(p.path), name), pos: p.pos}
	if e := p.node.Entry(name); e != nil {
		q.node, q.pos = e.Value, e.KeyPos
		if e.Value.Kind == Scalar || e.Value.Kind == Null && e.Value.Text != "" {
			q.pos = e.Value.Pos
		}
	}
	return q
}

func (p place) item(i int) place {
	q := place{path: append(slices.Clip(p.path), fmt.Sprintf("[%d]", i)), pos: p.pos}
	if p.node != nil && i < len(p.node.Items) {
		q.node, q.pos = p.node.Items[i], p.node.Items[i].Pos
	}
	return q
}

func (p place) String() string { return PathString(p.path) }

// PathString writes a path with dots; names that hold dots or blanks are quoted.
func PathString(path []string) string {
	var b strings.Builder
	for i, s := range path {
		if strings.HasPrefix(s, "[") {
			b.WriteString(s)
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		if s == "" || strings.ContainsAny(s, ". \t\n\"'") {
			fmt.Fprintf(&b, "%q", s)
			continue
		}
		b.WriteString(s)
	}
	return b.String()
}

// At returns a report for a place below this one: names of fields or map entries, "[0]" for the first item of a list. A place that was not given
// is shown at the mapping it is missing from.
func (r *Report) At(path ...string) *Report {
	at := r.at
	for _, name := range path {
		var i int
		if n, _ := fmt.Sscanf(name, "[%d]", &i); n == 1 {
			at = at.item(i)
			continue
		}
		at = at.child(name)
	}
	return &Report{at: at, list: r.list}
}

// AtPos returns a report for the same path, shown at another position: one inside a text (Text.At), for example.
func (r *Report) AtPos(pos Pos) *Report {
	at := r.at
	at.pos = pos
	return &Report{at: at, list: r.list}
}

// Errorf adds a problem: "what is wrong; what to do", in small letters and without a full stop. It is dropped when the field itself could not
// be read, so that a check across fields need not know whether it could. Values that came from references are cut
// out of the message.
func (r *Report) Errorf(format string, args ...any) {
	r.list.add(r.at, fmt.Sprintf(format, args...))
}

// Given tells whether a place below this one was given, by file or environment, as opposed to defaulted.
func (r *Report) Given(path ...string) bool { return r.At(path...).at.node != nil }

// Failed tells whether a place below this one, or anything below that, already has a problem. Values there may be missing or defaults.
func (r *Report) Failed(path ...string) bool {
	return r.list.failedBelow(r.At(path...).at.path)
}

// Pos returns the position that problems of this report show.
func (r *Report) Pos() Pos { return r.at.pos }

type problems struct {
	list   []Problem
	seen   map[Problem]bool
	failed map[string]bool // paths with a problem, and all paths above them
	unread map[string]bool // paths of fields that could not be read
}

func newProblems() *problems {
	return &problems{seen: map[Problem]bool{}, failed: map[string]bool{}, unread: map[string]bool{}}
}

// key makes a path a map key; no name holds the byte between.
func key(path []string) string { return strings.Join(path, "\x00") }

// unreadable adds a problem of a field that could not be read.
func (l *problems) unreadable(at place, format string, args ...any) {
	l.append(at, fmt.Sprintf(format, args...))
	l.unread[key(at.path)] = true
}

// add adds a problem unless the field could not even be read.
func (l *problems) add(at place, msg string) {
	if !l.unread[key(at.path)] {
		l.append(at, msg)
	}
}

func (l *problems) append(at place, msg string) {
	p := Problem{Pos: at.pos, Path: at.String(), Msg: msg}
	if l.seen[p] {
		return
	}
	l.seen[p] = true
	l.list = append(l.list, p)
	for i := range len(at.path) + 1 {
		l.failed[key(at.path[:i])] = true
	}
}

func (l *problems) failedBelow(path []string) bool { return l.failed[key(path)] }
