package field

import (
	"errors"
	"fmt"
	"strings"
)

// scalar says how the texts of one kind of field are read and compared.
type scalar[T any] struct {
	kind  Kind
	typ   string
	parse func(text string) (T, error)
	less  func(a, b T) bool // nil when values have no order
	refs  bool              // whether references in the text are replaced
	hide  bool              // whether a refused text is never shown
}

func addScalar[T any](s *Set, p *T, k scalar[T], name, doc string, opts []Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: k.kind, Type: k.typ,
		check: func(f *Field) error { return k.declare(f, p) },
		bind: func(b *binder, f *Field, n *Node, at place) {
			text, ok := b.scalarText(f, n, at)
			shown := !n.Literal
			if ok && k.refs {
				text, shown, ok = b.expanded(n, at)
			}
			if !ok {
				return
			}
			v, msg := k.read(f, text, shown && !k.hide)
			if msg != "" {
				b.list.unreadable(at, "%s", msg)
				return
			}
			*p = v
		}}, opts)
}

// declare checks the field's own texts and stores its default.
func (k scalar[T]) declare(f *Field, p *T) error {
	if k.less == nil && (f.Min != "" || f.Max != "") {
		return errors.New("a range on values that have no order")
	}
	for _, bound := range []string{f.Min, f.Max} {
		if bound == "" {
			continue
		}
		if _, err := k.parse(bound); err != nil {
			return fmt.Errorf("range %q: %w", bound, err)
		}
	}
	if f.Example != "" && !strings.Contains(f.Example, "${") {
		if _, msg := k.read(f, f.Example, true); msg != "" {
			return fmt.Errorf("example: %s", msg)
		}
	}
	if !f.HasDefault {
		return nil
	}
	if f.Required {
		return errors.New("required, and yet with a default")
	}
	v, msg := k.read(f, f.Default, true)
	if msg != "" {
		return fmt.Errorf("default: %s", msg)
	}
	*p = v
	return nil
}

// read parses and checks a text. msg says what is wrong, with the text itself only if it may be shown.
func (k scalar[T]) read(f *Field, text string, shown bool) (v T, msg string) {
	if msg := f.refuse(text, shown); msg != "" {
		return v, msg
	}
	v, err := k.parse(text)
	if err != nil {
		return v, withValue(err.Error(), text, shown)
	}
	if k.less == nil {
		return v, ""
	}
	if f.Min != "" {
		if lo, _ := k.parse(f.Min); k.less(v, lo) {
			return v, withValue("out of range; "+f.rangeText(), text, shown)
		}
	}
	if f.Max != "" {
		if hi, _ := k.parse(f.Max); k.less(hi, v) {
			return v, withValue("out of range; "+f.rangeText(), text, shown)
		}
	}
	return v, ""
}

// refuse checks a text against the field's choices and pattern, and says what is wrong or "".
func (f *Field) refuse(text string, shown bool) string {
	if f.Required && text == "" {
		return "empty; " + wanted(f)
	}
	if names := choiceNames(f.Choices); len(names) > 0 {
		for _, n := range names {
			if n == text {
				return ""
			}
		}
		hint := "one of " + strings.Join(names, ", ")
		if n := Nearest(text, names); n != "" && shown {
			hint = fmt.Sprintf("did you mean %s? (%s)", n, hint)
		}
		return withValue("not accepted; "+hint, text, shown)
	}
	if f.pattern != nil && !f.pattern.MatchString(text) {
		return withValue("not accepted; expected "+f.What, text, shown)
	}
	return ""
}

// rangeText says in words what the range is.
func (f *Field) rangeText() string {
	switch {
	case f.Min == "":
		return "at most " + f.Max
	case f.Max == "":
		return "at least " + f.Min
	}
	return f.Min + " to " + f.Max
}

// withValue puts the refused text before the message, if it may be shown.
func withValue(msg, text string, shown bool) string {
	if !shown || text == "" || strings.ContainsAny(text, "\n\r") {
		return msg
	}
	return fmt.Sprintf("%q: %s", short(text), msg)
}

// short cuts a text to a length that fits a line.
func short(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}

// setFunc makes a function a Value.
type setFunc func(text string) error

func (s setFunc) Set(text string) error { return s(text) }

func varDefault(p Value) func(*Field) error {
	return func(f *Field) error {
		if !f.HasDefault {
			return nil
		}
		return p.Set(f.Default)
	}
}

func textDefault(p *Text) func(*Field) error {
	return func(f *Field) error {
		if f.HasDefault {
			*p = NewText(f.Default, Pos{File: "default of " + f.Name})
		}
		return nil
	}
}

func stringsDefault(p *[]string) func(*Field) error {
	return func(f *Field) error {
		if f.HasDefault && f.Default != "" {
			*p = strings.Split(f.Default, ",")
		}
		return nil
	}
}

func noDefault(f *Field) error {
	if f.HasDefault {
		return errors.New("this kind of field cannot have a default")
	}
	return nil
}
