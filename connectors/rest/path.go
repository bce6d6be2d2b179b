package rest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// path leads to a value inside a JSON value: member names joined by dots
// (`data.items`), whole numbers for elements of lists (`lines.0.sku`), `\.`
// for a dot inside a name, and `.` for the value itself. The zero path is one
// that was not given.
type path struct {
	text  string
	steps []string
}

// Set reads a path from the configuration.
func (p *path) Set(text string) error {
	if text == "" {
		return errors.New("an empty path; write . for the answer itself")
	}
	*p = path{text: text}
	if text == "." {
		return nil
	}
	var step strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			step.WriteByte(text[i])
		case c == '.':
			p.steps = append(p.steps, step.String())
			step.Reset()
		default:
			step.WriteByte(c)
		}
	}
	p.steps = append(p.steps, step.String())
	if slices.Contains(p.steps, "") {
		return errors.New("a path with an empty step; join names with single dots, as in data.items")
	}
	return nil
}

func mustPath(text string) path {
	var p path
	if err := p.Set(text); err != nil {
		panic("rest: " + err.Error())
	}
	return p
}

func (p path) given() bool    { return p.text != "" }
func (p path) String() string { return p.text }

// in returns the value that the path leads to in v.
func (p path) in(v raw) (val raw, found bool, err error) {
	for _, s := range p.steps {
		switch v.kind() {
		case '{':
			if v, found, err = v.member(s); err != nil {
				return nil, false, fmt.Errorf("%s: %w", p, err)
			}
		case '[':
			n, e := strconv.Atoi(s)
			if e != nil {
				return nil, false, nil
			}
			v, found = v.element(n)
		default:
			return nil, false, nil
		}
		if !found {
			return nil, false, nil
		}
	}
	return v, true, nil
}

// put returns v, an object, with val at the path. Objects on the way are made
// where they are missing; anything else in the way is an error.
func (p path) put(v raw, val raw) (raw, error) {
	return putSteps(v, p.steps, val)
}

func putSteps(v raw, steps []string, val raw) (raw, error) {
	if len(steps) == 0 {
		return val, nil
	}
	if v == nil || v.isNull() {
		v = raw("{}")
	}
	if v.kind() != '{' {
		return nil, fmt.Errorf("cannot set %q in %s", strings.Join(steps, "."), v.kindName())
	}
	m := v.asMap()
	inner, err := putSteps(m[steps[0]], steps[1:], val)
	if err != nil {
		return nil, err
	}
	m[steps[0]] = inner
	return object(m), nil
}
