package field

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// minConcealed is the length from which on a value is cut out of texts: a shorter one would tear ordinary words apart, and is no secret.
const minConcealed = 6

// minCutOff is how much of a value must stand at the end of a text that was shortened to be taken for it.
const minCutOff = 8

// needle is one text that is looked for.
type needle struct {
	text string
	// within says that it stands inside a longer word of base64, which is hidden as a whole.
	within bool
}

// Conceal has a value cut out of all later problems, and of what Redact is given, however it is written there.
func (r *Resolver) Conceal(value string) {
	if len(value) < minConcealed || slices.ContainsFunc(r.needles, func(n needle) bool { return n.text == value && !n.within }) {
		return
	}
	digits := hex.EncodeToString([]byte(value))
	r.needles = append(r.needles, needle{text: value}, needle{text: digits}, needle{text: strings.ToUpper(digits)})
	for _, part := range base64Parts(value) {
		r.needles = append(r.needles, needle{part, true})
	}
	slices.SortStableFunc(r.needles, func(a, b needle) int { return cmp.Compare(len(b.text), len(a.text)) })
	if u, err := url.Parse(value); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok {
			r.Conceal(password)
		}
	}
}

// base64Parts are the parts of a value's base64 that do not depend on what stands before and behind it in what is encoded, for
// each of its three places in a group of bytes and for both alphabets.
func base64Parts(value string) (parts []string) {
	for before := range 3 {
		whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
		first := []int{0, 2, 3}[before] // characters that hold a bit of what stands before
		last := len(whole)
		if (before+len(value))%3 != 0 {
			last-- // and of what stands behind
		}
		part := whole[first:last]
		for _, p := range []string{part, strings.NewReplacer("+", "-", "/", "_").Replace(part)} {
			if len(p) >= minConcealed && !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// span is a part of a text.
type span struct{ from, to int }

// Redact cuts all values that came from references out of a text, for messages and logs. What a server, a proxy or a library
// repeats of a request is seldom written as it was sent: it comes back percent-encoded in an address, escaped in JSON or HTML,
// in base64 within a header, cut off where a message was shortened, or in several of these at once. So a value, its base64 and
// its hexadecimal digits are looked for in the text and in all that the text stands for.
func (r *Resolver) Redact(msg string) string {
	if len(r.needles) == 0 {
		return msg
	}
	var found []span
	for _, v := range versions(msg) {
		ends := ends(v.text)
		for _, n := range r.needles {
			for _, s := range n.in(v.text, ends) {
				found = append(found, span{v.at(s.from), v.at(s.to)})
			}
		}
	}
	if len(found) == 0 {
		return msg
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var b strings.Builder
	kept, open := 0, 0
	for _, s := range found {
		if s.from >= open {
			b.WriteString(msg[kept:s.from])
			b.WriteString(hidden)
		}
		open = max(open, s.to)
		kept = open
	}
	b.WriteString(msg[kept:])
	return b.String()
}

// in lists where the needle stands in a text, and where its beginning is all that is left of it.
func (n needle) in(text string, ends []span) (found []span) {
	for at := 0; ; {
		i := strings.Index(text[at:], n.text)
		if i < 0 {
			break
		}
		s := n.whole(text, span{at + i, at + i + len(n.text)})
		found = append(found, s)
		at = s.to
	}
	for _, end := range ends {
		if size := overlap(text[:end.from], n.text); size >= minCutOff {
			found = append(found, n.whole(text, span{end.from - size, end.to}))
		}
	}
	return found
}

// whole is the word of base64 that a part of it stands in.
func (n needle) whole(text string, s span) span {
	if !n.within {
		return s
	}
	for s.from > 0 && isBase64(text[s.from-1]) {
		s.from--
	}
	for s.to < len(text) && (isBase64(text[s.to]) || text[s.to] == '=') {
		s.to++
	}
	return s
}

func isBase64(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '+' || c == '/' || c == '-' || c == '_'
}

// maxEnds bounds the places that are looked at where a text may have been cut off.
const maxEnds = 16

// ends are where a text may have been cut off: before each mark of a shortened one, and at its own end. An escape that was
// itself cut off there stands for nothing any more: it lies between from and to.
func ends(text string) (l []span) {
	add := func(end int) {
		l = append(l, span{end, end})
		last := text[max(0, end-12):end]
		if strings.ContainsAny(last, `%\&`) {
			if broken := brokenEscape.FindString(last); broken != "" {
				l = append(l, span{end - len(broken), end})
			}
		}
	}
	for at := 0; len(l) < maxEnds; {
		i := strings.Index(text[at:], "…")
		if i < 0 {
			break
		}
		add(at + i)
		at += i + len("…")
	}
	add(len(text))
	return l
}

// overlap is the length of the longest end of text that want begins with.
func overlap(text, want string) int {
	for size := min(len(text), len(want)-1); size >= minCutOff; size-- {
		if text[len(text)-size] == want[0] && text[len(text)-size:] == want[:size] {
			return size
		}
	}
	return 0
}
