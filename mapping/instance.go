package mapping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// instance is a program compiled for one goroutine at a time.
type instance struct {
	program  *Program
	run      *run
	mapCode  *gojq.Code
	key      expression
	group    expression // its code is nil without one
	locating *gojq.Code // mapCode that tells which field failed; made when needed
	dec      decoder
	enc      encoder
	broken   bool // panicked, and must not be used again
}

func (p *Program) newInstance() (*instance, error) {
	in := &instance{program: p, run: newRun()}
	in.enc = encoder{limit: p.src.MaxBytes, owner: p.maker}
	var err error
	if in.mapCode, err = in.compile(stageMap, p.src.Map, false); err != nil {
		return nil, err
	}
	if in.key, err = in.expression(stageKey, p.src.Key); err != nil {
		return nil, err
	}
	if p.src.Group != "" {
		if in.group, err = in.expression(stageGroup, p.src.Group); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// expression gives a name to a record.
type expression struct {
	code *gojq.Code
	path []string // of an expression that is nothing but a path of names, as most are
}

func (in *instance) expression(field, src string) (e expression, err error) {
	if e.code, err = in.compile(field, src, false); err != nil {
		return e, err
	}
	if q, err := gojq.Parse(src); err == nil {
		e.path = plainPath(q)
	}
	return e, nil
}

// plainPath gives the names of a path such as .a.b; nil for anything else.
func plainPath(q *gojq.Query) (names []string) {
	t := q.Term
	if t == nil || t.Type != gojq.TermTypeIndex || len(q.FuncDefs) > 0 {
		return nil
	}
	if t.Index.Name == "" {
		return nil
	}
	names = append(names, t.Index.Name)
	for _, s := range t.SuffixList {
		if s.Index == nil || s.Index.Name == "" {
			return nil
		}
		names = append(names, s.Index.Name)
	}
	return names
}

// at follows the path, as jq does; false where there is no path, or jq has an error to tell.
func (e expression) at(record map[string]any) (v any, ok bool) {
	v = record
	for _, name := range e.path {
		switch m := v.(type) {
		case map[string]any:
			v = m[name]
		case nil:
		default:
			return nil, false
		}
	}
	return v, e.path != nil
}

// maxProgramBytes bounds the text of a program.
const maxProgramBytes = 256 << 10

func (in *instance) compile(field, src string, locate bool) (code *gojq.Code, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = compileError(field, src, -1, "the program makes the compiler fail", fmt.Sprint(p))
		}
	}()
	switch {
	case strings.TrimSpace(src) == "":
		return nil, compileError(field, src, -1, "the program is empty", emptyHint(field))
	case len(src) > maxProgramBytes:
		return nil, compileError(field, src, -1, fmt.Sprintf("the program is longer than %d bytes", maxProgramBytes), "")
	}
	q, err := gojq.Parse(src)
	if err != nil {
		return nil, syntaxError(field, src, err)
	}
	w := &rewriter{
		lib: in.program.lib, run: in.run, field: field, src: src, vars: in.program.src.Vars,
		locate: locate, calls: map[string]int{},
		options: []gojq.CompilerOption{gojq.WithVariables(variables())},
	}
	q = w.query(q)
	if w.err != nil {
		return nil, w.err
	}
	code, err = gojq.Compile(q, w.options...)
	if err != nil {
		return nil, nameError(field, src, err)
	}
	return code, nil
}

func emptyHint(field string) string {
	if field == stageGroup {
		return "write the field of the record that names what it is kept in order with, such as .product"
	}
	if field == stageKey {
		return "write the field of the record that names it, such as .external_id"
	}
	return `write an object, such as {"name": .title}`
}

// syntaxError places an error of the parser.
func syntaxError(field, src string, err error) *CompileError {
	var p *gojq.ParseError
	if !errors.As(err, &p) {
		return compileError(field, src, -1, err.Error(), "")
	}
	offset := max(p.Offset-len(p.Token), 0)
	hint := ""
	switch {
	case p.Token == "" && offset >= len(strings.TrimRight(src, " \t\r\n")):
		offset = len(src)
		hint = "a bracket, a quote or an end is missing"
	case p.Token == "'":
		hint = `strings are written in double quotes`
	case p.Token == "==" || p.Token == "!":
		hint = "a condition is written as if … then … else … end"
	case offset < len(src):
		hint = typeset(src[:offset], src[offset:])
	}
	return compileError(field, src, offset, p.Error(), hint)
}

// typeset advises on a character that word processors, chat programs and web pages
// put in the place of one that jq knows.
func typeset(before, src string) string {
	r, _ := utf8.DecodeRuneInString(src)
	switch {
	case strings.ContainsRune("“”„‟«»″＂‘’‚‛‹›′＇`´", r):
		return `use straight quotes: "text"`
	case strings.ContainsRune("‐‑‒–—−－", r):
		return "write the plain minus sign -"
	case r == '…':
		return "write three plain dots, or what they stand for"
	case r == 0xfeff, r >= 0x200b && r <= 0x200f, r != ' ' && unicode.Is(unicode.Zs, r):
		return fmt.Sprintf("put a plain blank in the place of this invisible character (U+%04X)", r)
	case strings.HasPrefix(src, "&"):
		return "write and between conditions"
	case strings.HasPrefix(src, "||"), src[0] == '|' && strings.HasSuffix(before, "|"):
		return "write or between conditions"
	}
	return ""
}

// nameError places an error of the compiler, which is about a variable or label
// that does not exist.
func nameError(field, src string, err error) *CompileError {
	msg := err.Error()
	_, name, _ := strings.Cut(msg, ": ")
	if !strings.HasPrefix(msg, "variable not defined") {
		return compileError(field, src, position(src, name, 0), msg, "")
	}
	known := variables()
	for _, t := range tokens(src) {
		if t.text[0] == '$' && t.text != name {
			known = append(known, t.text)
		}
	}
	return compileError(field, src, position(src, name, 0), "there is no variable "+name, didYouMean("", closest(name, known)))
}

func (in *instance) mapEvent(ctx context.Context, body []byte, meta Meta) ([]Pair, error) {
	src := &in.program.src
	in.run.reset(ctx, src.Timeout)
	event, replaced, err := in.dec.decode(body, in.program.wanted)
	if err != nil {
		return nil, err
	}
	e := evaluation{instance: in, event: event, replaced: replaced, meta: metaValue(meta), vars: varsValue(src.Vars)}
	if err := e.each(stageMap, in.mapCode, event, e.output); err != nil {
		return nil, in.withField(ctx, &e, body, err)
	}
	return e.pairs, nil
}

// withField runs the map program again to learn which field of the record it
// failed in.
func (in *instance) withField(ctx context.Context, e *evaluation, body []byte, err error) error {
	var failed *Error
	if !errors.As(err, &failed) || failed.Stage != stageMap || failed.Path != "" || in.run.over != nil || in.broken {
		return err
	}
	if in.locating == nil {
		code, cerr := in.compile(stageMap, in.program.src.Map, true)
		if cerr != nil {
			return err
		}
		in.locating = code
	}
	event, _, derr := in.dec.decode(body, in.program.wanted)
	if derr != nil {
		return err
	}
	left := time.Until(in.run.deadline)
	in.run.reset(ctx, max(left, 0))
	again := evaluation{instance: in, event: event, meta: e.meta, vars: e.vars}
	ignore := func(any) error { return nil }
	if again.each(stageMap, in.locating, event, ignore) != nil && in.run.over == nil {
		failed.Path = in.run.fieldPath()
	}
	return failed
}

func metaValue(m Meta) map[string]any {
	var changed any
	if !m.ChangedAt.IsZero() {
		changed = m.ChangedAt.UTC().Format(time.RFC3339Nano)
	}
	return map[string]any{"id": m.SourceID, "stream": m.Stream, "version": int(m.Version), "changed_at": changed}
}

func varsValue(vars map[string]string) map[string]any {
	m := make(map[string]any, len(vars))
	for k, v := range vars {
		m[k] = v
	}
	return m
}

// secondsOf is the function now: seconds since 1970 with microseconds.
func secondsOf(now func() time.Time) func() any {
	if now == nil {
		return nil
	}
	return func() any {
		us := now().UnixMicro()
		return json.Number(fmt.Sprintf("%d.%06d", us/1e6, us%1e6))
	}
}

// evaluation is the mapping of one event.
type evaluation struct {
	*instance
	event    any
	replaced bool // the body held broken characters
	meta     map[string]any
	vars     map[string]any
	outputs  int
	pairs    []Pair
	byKey    map[string]int // from the ninth pair on
}

// each runs a program and hands on its outputs.
func (e *evaluation) each(stage string, code *gojq.Code, input any, f func(any) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.broken = true
			err = &Error{Stage: stage, Msg: "a function failed unexpectedly; please report it", Hint: panicPlace(p)}
		}
	}()
	iter := code.RunWithContext(e.run, input, e.event, e.meta, e.vars)
	for {
		v, ok := iter.Next()
		if !ok {
			return nil
		}
		if failed, ok := v.(error); ok {
			return e.failure(stage, failed)
		}
		if err := f(v); err != nil {
			return err
		}
	}
}

// panicPlace keeps Go's own messages, which hold types, and drops texts that
// may hold values.
func panicPlace(p any) string {
	if e, ok := p.(interface{ RuntimeError() }); ok {
		return fmt.Sprint(e)
	}
	return ""
}

func (e *evaluation) failure(stage string, err error) error {
	if over := e.run.over; over != nil {
		if ctxErr := e.run.parent.Err(); ctxErr != nil {
			return fmt.Errorf("map event: %w", ctxErr)
		}
		msg := over.Error()
		if errors.Is(over, errTimeout) {
			msg += ": more than " + e.program.src.Timeout.String()
		}
		return &Error{Stage: stage, Msg: msg}
	}
	return &Error{Stage: stage, Msg: describe(err), Hint: hintFor(err)}
}

func hintFor(err error) string {
	switch kind := fmt.Sprintf("%T", err); {
	case strings.HasSuffix(kind, ".iteratorError"):
		return "use .x[]? or (.x // [])[] where a list may be missing"
	case strings.HasSuffix(kind, ".exitCodeError"):
		return "write the message there as a plain string, or use fail(message), to see it here"
	}
	return ""
}

// output takes one output of the map program.
func (e *evaluation) output(v any) error {
	if e.outputs++; e.outputs > e.program.src.MaxOutputs {
		return &Error{Stage: stageMap, Msg: fmt.Sprintf("gave more than %d outputs for one event", e.program.src.MaxOutputs)}
	}
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		return e.record(v)
	case []any:
		return &Error{Stage: stageMap, Msg: "gave an array, and one record is one object", Hint: "add [] behind it to give its elements one by one"}
	}
	return &Error{Stage: stageMap, Msg: "gave " + typeName(v) + ", and a record is an object", Hint: "give null or empty where there is no record"}
}

func (e *evaluation) record(m map[string]any) error {
	body, refs, err := e.enc.record(m)
	if err != nil {
		return err
	}
	if err := e.run.produce(len(body)); err != nil {
		return e.failure(stageMap, err)
	}
	key, err := e.name(stageKey, e.key, m)
	if err != nil {
		return err
	}
	group := ""
	if e.group.code != nil {
		if group, err = e.name(stageGroup, e.group, m); err != nil {
			return err
		}
	}
	i, ok := e.find(key)
	if !ok {
		e.pairs = append(e.pairs, Pair{Key: key, Group: group, Body: body, Refs: refs})
		return nil
	}
	if !bytes.Equal(e.pairs[i].Body, body) || e.pairs[i].Group != group {
		return &Error{Stage: stageKey, Msg: fmt.Sprintf("outputs %d and %d of the event have one key but differ", i+1, len(e.pairs)+1),
			Hint: "make the key tell them apart"}
	}
	return nil
}

func (e *evaluation) find(key string) (int, bool) {
	if len(e.pairs) < 8 {
		for i := range e.pairs {
			if e.pairs[i].Key == key {
				return i, true
			}
		}
		return 0, false
	}
	if e.byKey == nil {
		e.byKey = map[string]int{}
	}
	for i := len(e.byKey); i < len(e.pairs); i++ {
		e.byKey[e.pairs[i].Key] = i
	}
	i, ok := e.byKey[key]
	return i, ok
}

// name runs the expression that names a record, or its group, on the record.
func (e *evaluation) name(stage string, x expression, m map[string]any) (string, error) {
	v, ok := x.at(m)
	if !ok {
		var err error
		if v, err = e.one(stage, x.code, m); err != nil {
			return "", err
		}
	}
	text, err := keyText(v)
	if err == nil {
		text, err = NormalizeKey(text)
	}
	if err != nil {
		return "", &Error{Stage: stage, Msg: strings.TrimPrefix(err.Error(), "key "), Hint: keyHint(stage, v)}
	}
	if e.replaced && strings.ContainsRune(text, '\uFFFD') {
		return "", &Error{Stage: stage, Msg: "holds a character that is broken in the event, so it may not be the record's own"}
	}
	return strings.Clone(text), nil // not a part of the body, which would stay in memory with it
}

// one is the one value that an expression gives on a record.
func (e *evaluation) one(stage string, code *gojq.Code, m map[string]any) (any, error) {
	var names []any
	err := e.each(stage, code, m, func(v any) error {
		if names = append(names, v); len(names) > 1 {
			return &Error{Stage: stage, Msg: "gave more than one value", Hint: "use first(…) or join the parts into one string"}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, &Error{Stage: stage, Msg: "gave no value, and every record needs a " + stage}
	}
	return names[0], nil
}

func keyHint(stage string, v any) string {
	if v == nil {
		return "the " + stage + " expression runs on the record; the event is $event"
	}
	if _, ok := v.(map[string]any); ok {
		return "join the parts of a " + stage + ", such as \"\\(.a)-\\(.b)\""
	}
	return ""
}
