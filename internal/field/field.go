// Package field lets a package declare its configuration fields once, in the style of the standard flag package: a name, a sentence
// of documentation, a default, a range. From the same declaration come the reading of a configuration (Bind), its documentation and
// its JSON Schema. The package reads no files except secrets, and knows no YAML: it works on trees of Node that a loader makes.
package field

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// Fielder is implemented by a struct that can be configured. Fields declares the struct's fields on s; it is called on a fresh value,
// also just for documentation, so it must do nothing else.
type Fielder interface {
	Fields(s *Set)
}

// Validator is implemented by a Fielder that has something to check across its fields. Validate is called after all fields were
// read, also when some of them were wrong (Report.Failed tells which); it reports problems and changes nothing else.
type Validator interface {
	Validate(r *Report)
}

// TextFielder is a Fielder that may also be written as one text instead of a mapping; see Set.StructText.
type TextFielder interface {
	Fielder
	// FieldText takes the short form. Its error says what is wrong and what to do, without repeating the text.
	FieldText(text string) error
}

// SecretTexter is a TextFielder whose short form can hold a credential.
type SecretTexter interface {
	// TextSecret gives what is secret in a short form as it stands in the file, with its references; "" when nothing is, or when
	// references give all of it. how says in which form to write it instead.
	TextSecret(text string) (secret, how string)
}

// Value is a field with its own notation, such as a rate "10/s"; see Set.Var.
type Value interface {
	// Set takes the text of the field. Its error says what is wrong without repeating the text: the caller adds it where it may be shown.
	Set(text string) error
}

// Kind is the kind of value a field takes.
type Kind int

// The kinds of fields.
const (
	KindString Kind = iota
	KindBool
	KindInt
	KindFloat
	KindDuration
	KindSize
	KindSecret
	KindURL
	KindText
	KindStrings
	KindStringMap
	KindAny
	KindVar
	KindStruct
	KindStructText
	KindMap
	KindList
)

// Choice is one allowed value of a field, with what it means.
type Choice struct {
	Name string
	Doc  string
}

// Field is a declared field: what documentation, schema and binding need to know about it.
type Field struct {
	Name     string
	Doc      string
	Kind     Kind
	Type     string // how the type is called in documentation, for example "duration"
	Required bool
	Default  string // as text; only meaningful with HasDefault
	Example  string // as text
	Choices  []Choice
	Min, Max string // as text, "" for open
	Advanced bool
	Group    string
	Pattern  string // what the whole text must match; "" for any
	What     string // what Pattern accepts, in words: "small letters and digits"
	NameRule string // for maps: what the whole of a user-chosen name must match; "" for any
	NameWhat string // what NameRule accepts, in words

	HasDefault bool

	pattern  *regexp.Regexp
	nameRule *regexp.Regexp
	proto    func() *Set // declarations of the mapping below (struct, map, list)
	bind     func(b *binder, f *Field, n *Node, at place)
	check    func(f *Field) error // whether default, example and range are well-formed
}

// Sub returns the declarations of the mapping that this field holds (for a map or a list: of each entry), or nil for other kinds.
func (f *Field) Sub() *Set {
	if f.proto == nil {
		return nil
	}
	return f.proto()
}

// Set is a list of declared fields, all of one mapping. The zero value is ready to use.
type Set struct {
	fields  []*Field
	byName  map[string]*Field
	variant *variant
}

type variant struct {
	on    string
	pick  func(name string) (Fielder, bool)
	names []Choice
	set   func(Fielder)
}

// Declare collects the declarations of f. Defaults are stored in f on the way.
func Declare(f Fielder) *Set {
	s := &Set{}
	f.Fields(s)
	return s
}

// Fields returns the declared fields in the order of their declaration, without those of a variant.
func (s *Set) Fields() []*Field { return s.fields }

// Field returns the declared field of that name, or nil.
func (s *Set) Field(name string) *Field { return s.byName[name] }

// Variants returns the name of the field that chooses more fields, and the declarations for each of its values in order. It returns ""
// and nil when the set has no variant.
func (s *Set) Variants() (on string, variants []Variant) {
	if s.variant == nil {
		return "", nil
	}
	for _, c := range s.variant.names {
		f, ok := s.variant.pick(c.Name)
		if !ok {
			continue
		}
		variants = append(variants, Variant{Choice: c, Set: Declare(f), Fielder: f})
	}
	return s.variant.on, variants
}

// Variant is one choice of a variant with the fields it brings.
type Variant struct {
	Choice  Choice
	Set     *Set
	Fielder Fielder
}

func (s *Set) add(f *Field, opts []Option) {
	for _, o := range opts {
		o(f)
	}
	if f.Name == "" || f.Doc == "" {
		panic(fmt.Sprintf("field: %q is declared without a name or documentation", f.Name))
	}
	if _, dup := s.byName[f.Name]; dup {
		panic(fmt.Sprintf("field: %q is declared twice", f.Name))
	}
	if f.check != nil {
		if err := f.check(f); err != nil {
			panic(fmt.Sprintf("field: declaration of %q: %v", f.Name, err))
		}
	}
	if s.byName == nil {
		s.byName = map[string]*Field{}
	}
	s.fields = append(s.fields, f)
	s.byName[f.Name] = f
}

// String declares a text field. References such as ${env:NAME} in it are replaced; its characters are otherwise kept exactly.
func (s *Set) String(p *string, name, doc string, opts ...Option) {
	addScalar(s, p, scalar[string]{kind: KindString, typ: "text", parse: parseString, refs: true}, name, doc, opts)
}

// Bool declares a field that is true or false.
func (s *Set) Bool(p *bool, name, doc string, opts ...Option) {
	addScalar(s, p, scalar[bool]{kind: KindBool, typ: "true or false", parse: parseBool}, name, doc, opts)
}

// Int declares a field for a whole number.
func (s *Set) Int(p *int, name, doc string, opts ...Option) {
	addScalar(s, p, scalar[int]{kind: KindInt, typ: "whole number", parse: parseInt[int], less: less[int]}, name, doc, opts)
}

// Int64 declares a field for a whole number of 64 bits.
func (s *Set) Int64(p *int64, name, doc string, opts ...Option) {
	addScalar(s, p, scalar[int64]{kind: KindInt, typ: "whole number", parse: parseInt[int64], less: less[int64]}, name, doc, opts)
}

// Float declares a field for a decimal number. Not for money.
func (s *Set) Float(p *float64, name, doc string, opts ...Option) {
	addScalar(s, p, scalar[float64]{kind: KindFloat, typ: "number", parse: parseFloat, less: less[float64]}, name, doc, opts)
}

// Duration declares a field for a length of time, written with its unit: 500ms, 30s, 5m, 2h, 7d, 1h30m. It is never negative.
func (s *Set) Duration(p *time.Duration, name, doc string, opts ...Option) {
	addScalar(s, p, scalar[time.Duration]{kind: KindDuration, typ: "duration", parse: ParseDuration, less: less[time.Duration]}, name, doc, opts)
}

// Size declares a field for a number of bytes, written with its unit: 512B, 64KiB, 16MiB, 1GiB, or in powers of ten 64kB, 16MB, 1GB.
func (s *Set) Size(p *int64, name, doc string, opts ...Option) {
	addScalar(s, p, scalar[int64]{kind: KindSize, typ: "size", parse: ParseSize, less: less[int64]}, name, doc, opts)
}

// Secret declares a field for a credential, which can only be given by reference: ${env:NAME}, ${file:/path} or ${credential:name}.
func (s *Set) Secret(p *Secret, name, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindSecret, Type: "secret", check: noDefault,
		bind: func(b *binder, f *Field, n *Node, at place) { b.secret(f, n, at, p) }}, opts)
}

// URL declares a field for an absolute http or https URL without a user name or password in it. References in it are replaced.
func (s *Set) URL(p *string, name, doc string, opts ...Option) {
	addScalar(s, p, scalar[string]{kind: KindURL, typ: "URL", parse: parseURL, refs: true, hide: true}, name, doc, opts)
}

// Text declares a field for a longer text, such as a program, that keeps where it stands in the file. References in it are not replaced.
func (s *Set) Text(p *Text, name, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindText, Type: "text", check: textDefault(p),
		bind: func(b *binder, f *Field, n *Node, at place) { b.text(f, n, at, p) }}, opts)
}

// Strings declares a field for a list of texts. From the environment it is given with commas. A default is written with commas, too.
func (s *Set) Strings(p *[]string, name, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindStrings, Type: "list of texts", check: stringsDefault(p),
		bind: func(b *binder, f *Field, n *Node, at place) { b.strings(f, n, at, p) }}, opts)
}

// StringMap declares a field for a mapping of names, which the user chooses, to texts.
func (s *Set) StringMap(p *map[string]string, name, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindStringMap, Type: "mapping of names to texts", check: noDefault,
		bind: func(b *binder, f *Field, n *Node, at place) { b.stringMap(f, n, at, p) }}, opts)
}

// Any declares a field that takes any value: it becomes a tree of map[string]any, []any, string, json.Number, bool and nil. A number is
// one only if it is written as JSON writes numbers, and keeps its digits; 007, NO or 1_000 stay the texts they are.
func (s *Set) Any(p *any, name, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindAny, Type: "any value", check: noDefault,
		bind: func(b *binder, f *Field, n *Node, at place) { b.any(n, at, p) }}, opts)
}

// JSON declares a field that takes any value, like Any, and stores it as JSON with sorted keys.
func (s *Set) JSON(p *json.RawMessage, name, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindAny, Type: "any value", check: noDefault,
		bind: func(b *binder, f *Field, n *Node, at place) { b.json(n, at, p) }}, opts)
}

// Var declares a field with a notation of its own. typ is how documentation calls it, for example "rate". References are not replaced.
func (s *Set) Var(p Value, name, typ, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindVar, Type: typ, check: varDefault(p),
		bind: func(b *binder, f *Field, n *Node, at place) { b.value(f, n, at, p) }}, opts)
}

// Struct declares a field that is a mapping with declared fields of its own. One that is left out is read like an empty one: its defaults are
// set, fields required in it are missed, and its Validate is called; Report.Given tells there whether anything was given.
func (s *Set) Struct(p Fielder, name, doc string, opts ...Option) {
	sub := Declare(p)
	s.add(&Field{Name: name, Doc: doc, Kind: KindStruct, Type: "mapping", check: noDefault,
		proto: func() *Set { return sub },
		bind:  func(b *binder, f *Field, n *Node, at place) { b.mapping(sub, p, n, at) }}, opts)
}

// StructText declares a field that is either a mapping with declared fields of its own, or a text that p.FieldText takes. A default is
// the text form.
func (s *Set) StructText(p TextFielder, name, doc string, opts ...Option) {
	sub := Declare(p)
	s.add(&Field{Name: name, Doc: doc, Kind: KindStructText, Type: "text or mapping", check: varDefault(setFunc(p.FieldText)),
		proto: func() *Set { return sub },
		bind:  func(b *binder, f *Field, n *Node, at place) { b.structText(f, sub, p, n, at) }}, opts)
}

// Variant adds more fields to the same mapping, chosen by the value of the field on, which must be declared before as a String. pick
// returns a fresh Fielder for a value; names lists the values in the order of the documentation; set receives the Fielder that was
// chosen, filled. The fields it brings must not have the names of fields already declared.
func (s *Set) Variant(on string, pick func(name string) (Fielder, bool), names []Choice, set func(Fielder)) {
	f := s.byName[on]
	if f == nil || f.Kind != KindString {
		panic(fmt.Sprintf("field: variant on %q, which is not a text field declared before", on))
	}
	if s.variant != nil {
		panic("field: a mapping can have one variant only")
	}
	f.Choices = names
	s.variant = &variant{on: on, pick: pick, names: names, set: set}
}

// Map declares a field that maps names chosen by the user to mappings with declared fields; Names restricts the names.
func Map[T any, P interface {
	*T
	Fielder
}](s *Set, p *map[string]P, name, doc string, opts ...Option) {
	MapOf(s, p, func() P { return P(new(T)) }, name, doc, opts...)
}

// MapOf is Map with a function that makes a fresh entry, for entries that need more than their zero value to declare their fields.
func MapOf[P Fielder](s *Set, p *map[string]P, fresh func() P, name, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindMap, Type: "mapping of names to mappings", check: noDefault,
		proto: func() *Set { return Declare(fresh()) },
		bind: func(b *binder, f *Field, n *Node, at place) {
			b.eachEntry(f, n, at, func(key string, v *Node, at place) {
				e := fresh()
				b.mapping(Declare(e), e, v, at)
				if *p == nil {
					*p = map[string]P{}
				}
				(*p)[key] = e
			})
		}}, opts)
}

// List declares a field that is a list of mappings with declared fields.
func List[T any, P interface {
	*T
	Fielder
}](s *Set, p *[]P, name, doc string, opts ...Option) {
	s.add(&Field{Name: name, Doc: doc, Kind: KindList, Type: "list of mappings", check: noDefault,
		proto: func() *Set { return Declare(P(new(T))) },
		bind: func(b *binder, f *Field, n *Node, at place) {
			*p = nil
			b.eachItem(f, n, at, func(v *Node, at place) {
				e := P(new(T))
				b.mapping(Declare(e), e, v, at)
				*p = append(*p, e)
			})
		}}, opts)
}
