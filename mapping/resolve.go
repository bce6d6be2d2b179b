package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// FindRefs lists the references of a record, each once, in order of
// appearance. The body is a [Pair] body, or any JSON with the same
// placeholders; a "$ref" that is not a placeholder is an error.
func FindRefs(body []byte) ([]Ref, error) {
	var refs refSet
	err := eachPlaceholder(body, func(p placeholder) error {
		refs.add(p.ref)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return refs.list, nil
}

// ResolveRefs replaces the placeholders of a record by the target's own ids.
//
// lookup is asked once for each distinct reference. Where it knows the link it
// returns ok and the link as a JSON string or number. An optional reference it
// does not know is written as null; every other one is returned in missing,
// and out is then nil: the record cannot be sent yet. Without placeholders out
// is body itself. The body is not changed.
//
// An error means that the body is not a record as [Program.Map] makes it, or
// that a link is not a JSON string or number.
func ResolveRefs(body []byte, lookup func(Ref) (link json.RawMessage, ok bool)) (out []byte, missing []Ref, err error) {
	var (
		links   = map[Ref]json.RawMessage{}
		absent  refSet
		written int
	)
	err = eachPlaceholder(body, func(p placeholder) error {
		link, known := links[p.ref]
		if !known {
			if link, err = oneLink(p.ref, lookup); err != nil {
				return err
			}
			links[p.ref] = link
		}
		if link == nil {
			absent.add(p.ref)
			return nil
		}
		out = append(append(out, body[written:p.start]...), link...)
		written = p.end
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, err
	case absent.list != nil:
		return nil, absent.list, nil
	case written == 0:
		return body, nil, nil
	}
	return append(out, body[written:]...), nil, nil
}

// oneLink asks for a link and checks it; nil means that it is missing.
func oneLink(r Ref, lookup func(Ref) (json.RawMessage, bool)) (json.RawMessage, error) {
	link, ok := lookup(r)
	switch {
	case !ok && r.Optional:
		return json.RawMessage("null"), nil
	case !ok:
		return nil, nil
	}
	link = bytes.TrimSpace(link)
	if len(link) == 0 || link[0] != '"' && link[0] != '-' && !isDigit(link[0]) || !json.Valid(link) {
		return nil, fmt.Errorf("resolve ref to entity %q: link is not a JSON string or number", r.Entity)
	}
	return slices.Clone(link), nil
}

// placeholder is one reference and where it stands in the body.
type placeholder struct {
	ref        Ref
	start, end int
}

// eachPlaceholder calls f for every placeholder of a JSON body, from the first
// to the last. It walks the bytes and builds nothing.
func eachPlaceholder(body []byte, f func(placeholder) error) error {
	if !bytes.Contains(body, []byte(refMember)) && !bytes.Contains(body, []byte(`\u`)) {
		return nil // the name cannot occur, not even in another spelling
	}
	if len(body) > MaxBodyBytes {
		return fmt.Errorf("find refs: record is larger than %d bytes", MaxBodyBytes)
	}
	s := scanner{body: body, found: f}
	if err := s.value(0); err != nil {
		return fmt.Errorf("find refs: %w", err)
	}
	if s.blanks(); s.i != len(body) {
		return errNotRecord
	}
	return nil
}

var (
	errNotRecord   = errors.New("record is not JSON")
	errBadRef      = errors.New(`record has a "$ref" that is not {"$ref":{"entity":…,"key":…}}`)
	errScanTooDeep = errors.New("record is nested deeper than 200 levels")
)

type scanner struct {
	body  []byte
	i     int
	found func(placeholder) error
}

func (s *scanner) blanks() {
	for s.i < len(s.body) {
		switch s.body[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// at passes over blanks and says whether c comes next, and passes over it.
func (s *scanner) at(c byte) bool {
	s.blanks()
	if s.i < len(s.body) && s.body[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) value(depth int) error {
	if depth > maxBodyDepth {
		return errScanTooDeep
	}
	s.blanks()
	if s.i == len(s.body) {
		return errNotRecord
	}
	switch s.body[s.i] {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		_, err := s.str()
		return err
	}
	return s.scalar()
}

// scalar passes over a number or word.
func (s *scanner) scalar() error {
	start := s.i
	for s.i < len(s.body) && !bytes.ContainsRune([]byte(" \t\r\n,:]}{[\""), rune(s.body[s.i])) {
		s.i++
	}
	if !json.Valid(s.body[start:s.i]) {
		return errNotRecord
	}
	return nil
}

func (s *scanner) array(depth int) error {
	s.i++
	if s.at(']') {
		return nil
	}
	for {
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if s.at(']') {
			return nil
		}
		if !s.at(',') {
			return errNotRecord
		}
	}
}

func (s *scanner) object(depth int) error {
	start := s.i
	s.i++
	if s.at('}') {
		return nil
	}
	for first := true; ; first = false {
		name, err := s.name()
		if err != nil {
			return err
		}
		if name == refMember {
			if !first {
				return errBadRef
			}
			return s.placeholder(start)
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if s.at('}') {
			return nil
		}
		if !s.at(',') {
			return errNotRecord
		}
	}
}

// name reads a member's name and the colon after it.
func (s *scanner) name() (string, error) {
	if s.blanks(); s.i == len(s.body) || s.body[s.i] != '"' {
		return "", errNotRecord
	}
	raw, err := s.str()
	if err != nil {
		return "", err
	}
	if !s.at(':') {
		return "", errNotRecord
	}
	return textOf(raw)
}

// str passes over a string and returns it with its quotes.
func (s *scanner) str() ([]byte, error) {
	start := s.i
	for s.i++; s.i < len(s.body); s.i++ {
		switch s.body[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return s.body[start:s.i], nil
		}
	}
	return nil, errNotRecord
}

// textOf reads a string with its quotes; without escapes it stays as it is.
func textOf(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", errNotRecord
	}
	return text, nil
}

// placeholder reads the rest of {"$ref": that began at start.
func (s *scanner) placeholder(start int) error {
	var r Ref
	var has [2]bool
	if !s.at('{') {
		return errBadRef
	}
	for {
		name, err := s.name()
		if err != nil {
			return errBadRef
		}
		s.blanks()
		switch name {
		case entityMember:
			r.Entity, has[0], err = s.member()
		case keyMember:
			r.Key, has[1], err = s.member()
		case optionalMember:
			if !bytes.HasPrefix(s.body[s.i:], []byte("true")) {
				return errBadRef
			}
			s.i += len("true")
			r.Optional = true
		default:
			return errBadRef
		}
		if err != nil {
			return err
		}
		if s.at('}') {
			break
		}
		if !s.at(',') {
			return errBadRef
		}
	}
	if !s.at('}') || !has[0] || !has[1] {
		return errBadRef
	}
	return s.found(placeholder{ref: r, start: start, end: s.i})
}

func (s *scanner) member() (string, bool, error) {
	if s.i == len(s.body) || s.body[s.i] != '"' {
		return "", false, errBadRef
	}
	raw, err := s.str()
	if err != nil {
		return "", false, errBadRef
	}
	text, err := textOf(raw)
	return text, text != "", err
}
