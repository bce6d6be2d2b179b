package mapping

import "unicode/utf8"

// Reading an event in part. What is passed over is checked as if it were read:
// whatever is not plain sailing (a mistake in the JSON, a member given twice,
// too deep a nesting) makes the attempt fail, and the event is read as a whole,
// which knows what to say of it. So an event that can be read in part can be
// read, and one that cannot is refused in the same words.

// decodePart reads what is wanted of a body.
func (d *decoder) decodePart(body []byte, wanted *part) (v any, ok bool) {
	if !utf8.Valid(body) {
		return nil, false
	}
	d.s = string(body)
	d.skipStart()
	if v, ok = d.part(wanted, 0); !ok {
		return nil, false
	}
	d.blanks()
	return v, d.i == len(d.s)
}

func (d *decoder) part(p *part, depth int) (v any, ok bool) {
	if d.blanks(); d.i == len(d.s) {
		return nil, false
	}
	switch c := d.s[d.i]; {
	case c == '{' && !p.whole:
		return d.partOfObject(p, depth)
	case c == '[' && p.each != nil:
		return d.partOfArray(p.each, depth)
	}
	v, err := d.value(depth)
	return v, err == nil
}

func (d *decoder) partOfObject(p *part, depth int) (any, bool) {
	m := make(map[string]any, len(p.members))
	ok := d.eachMember(depth, func(name string) bool {
		wanted := p.named(name)
		switch {
		case p.each != nil && wanted != nil:
			v, err := d.value(depth + 1)
			m[name] = v
			return err == nil
		case p.each != nil:
			wanted = p.each
		case wanted == nil:
			return d.skip(depth + 1)
		}
		v, ok := d.part(wanted, depth+1)
		m[name] = v
		return ok
	})
	return m, ok
}

func (d *decoder) partOfArray(each *part, depth int) (any, bool) {
	first := len(d.items)
	ok := d.eachElement(depth, func() bool {
		v, ok := d.part(each, depth+1)
		d.items = append(d.items, v)
		return ok
	})
	a := append([]any{}, d.items[first:]...)
	clear(d.items[first:])
	d.items = d.items[:first]
	return a, ok
}

// skip passes over a value.
func (d *decoder) skip(depth int) bool {
	if d.blanks(); d.i == len(d.s) {
		return false
	}
	switch c := d.s[d.i]; c {
	case '{':
		return d.eachMember(depth, func(string) bool { return d.skip(depth + 1) })
	case '[':
		return d.eachElement(depth, func() bool { return d.skip(depth + 1) })
	case '"':
		return d.skipText()
	case 't':
		return d.skipWord("true")
	case 'f':
		return d.skipWord("false")
	case 'n':
		return d.skipWord("null")
	}
	_, err := d.numberEnd()
	return err == nil
}

// eachMember reads an object; f reads the value of a member.
func (d *decoder) eachMember(depth int, f func(name string) bool) bool {
	if depth >= maxBodyDepth {
		return false
	}
	d.i++
	if d.blanks(); d.i < len(d.s) && d.s[d.i] == '}' {
		d.i++
		return true
	}
	seen := seenNames{first: len(d.names)}
	for {
		if d.blanks(); d.i == len(d.s) || d.s[d.i] != '"' {
			return false
		}
		name, err := d.text()
		if err != nil || seen.twice(d.names, name) {
			return false
		}
		d.names = append(d.names, name)
		if d.blanks(); d.i == len(d.s) || d.s[d.i] != ':' {
			return false
		}
		d.i++
		if !f(name) {
			return false
		}
		more, err := d.next('}')
		if err != nil {
			return false
		}
		if !more {
			d.names = d.names[:seen.first]
			return true
		}
	}
}

// eachElement reads an array; f reads an element.
func (d *decoder) eachElement(depth int, f func() bool) bool {
	if depth >= maxBodyDepth {
		return false
	}
	d.i++
	if d.blanks(); d.i < len(d.s) && d.s[d.i] == ']' {
		d.i++
		return true
	}
	for {
		if !f() {
			return false
		}
		more, err := d.next(']')
		if err != nil {
			return false
		}
		if !more {
			return true
		}
	}
}

func (d *decoder) skipWord(w string) bool {
	_, err := d.word(w, nil)
	return err == nil
}

// skipText passes over a string.
func (d *decoder) skipText() bool {
	s := d.s
	for i := plainEnd(s, d.i+1); i < len(s); i = plainEnd(s, i) {
		switch {
		case s[i] == '"':
			d.i = i + 1
			return true
		case s[i] != '\\':
			return false
		case i+1 < len(s) && s[i+1] == 'u':
			_, size := d.unicodeEscape(s[i:])
			if size == 0 {
				return false
			}
			i += size
		default:
			if _, ok := simpleEscape(s[i:]); !ok {
				return false
			}
			i += 2
		}
	}
	return false
}

// seenNames finds a member that an object has twice.
type seenNames struct {
	first int // of the object's names among those of the decoder
	marks uint64
	many  map[string]struct{} // of an object with more than fewNames
}

const fewNames = 64

// twice reports whether name is among the object's names.
func (s *seenNames) twice(names []string, name string) bool {
	names = names[s.first:]
	if len(names) >= fewNames {
		return s.amongMany(names, name)
	}
	if name == "" {
		name = " " // which is then looked for in vain, as the two share a mark
	}
	mark := uint64(1) << ((uint(len(name)) + uint(name[0]) + 7*uint(name[len(name)/2]) + 3*uint(name[len(name)-1])) % 64)
	if s.marks&mark == 0 {
		s.marks |= mark
		return false
	}
	for _, n := range names {
		if n == name || n == "" {
			return true
		}
	}
	return false
}

func (s *seenNames) amongMany(names []string, name string) bool {
	if s.many == nil {
		s.many = make(map[string]struct{}, 2*fewNames)
		for _, n := range names {
			s.many[n] = struct{}{}
		}
	}
	if _, ok := s.many[name]; ok {
		return true
	}
	s.many[name] = struct{}{}
	return false
}
