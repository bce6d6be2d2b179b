package field

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"regexp"
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
	// open is how many bytes at its beginning are no secret: scheme, user and host of an address. A text that was cut off within
	// them shows nothing.
	open int
}

// plainWords are values that references often give and that are no secrets, or such bad ones that cutting them out of every text
// would tear the text apart and tell what they are.
var plainWords = []string{
	"postgres", "postgresql", "mysql", "sqlite", "database", "password", "secret", "username", "localhost", "disable", "prefer", "require",
	"verify-ca", "verify-full", "public", "private", "default", "production", "staging", "development", "example", "journal", "client", "syncd",
}

// secretName is a parameter of an address whose value lets in.
var secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|key|sign?(ature)?$|^auth`)

// Conceal has a value cut out of all later problems, and of what Redact is given, however it is written there. Of an address only what
// may be secret is: the password, and the address as a whole when it has more than scheme, user and host.
func (r *Resolver) Conceal(value string) {
	open := 0
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
		password, has := u.User.Password()
		user := u.User.Username()
		web := u.Scheme == "https" || u.Scheme == "http"
		for name, values := range u.Query() {
			if secretName.MatchString(name) {
				for _, v := range values {
					r.conceal(v, 0)
				}
			}
		}
		switch {
		case has && password != "":
			r.conceal(password, 0)
			if web {
				r.conceal(user, 0) // it is often half of a pair of keys
			}
			if raw, ok := rawPassword(value); ok {
				open = len(raw)
			}
		case user != "" && web:
			r.conceal(user, 0) // a token in the user's place
			open = len(u.Scheme + "://")
		case u.RawQuery == "" && u.Fragment == "" && (strings.Trim(u.Path, "/") == "" || !web):
			return // a place, and who is there
		default: // a path or a parameter may be what lets in
			open = len(value) - len(strings.TrimPrefix(value[len(u.Scheme+"://"):], u.Host)) + 1
		}
	}
	r.conceal(value, open)
}

// rawPassword is what stands before the password in an address.
func rawPassword(value string) (before string, ok bool) {
	i := strings.Index(value, "://")
	if i < 0 {
		return "", false
	}
	j := strings.IndexByte(value[i+3:], ':')
	if j < 0 {
		return "", false
	}
	return value[:i+3+j+1], true
}

// conceal remembers one text, the first open bytes of which are no secret.
func (r *Resolver) conceal(value string, open int) {
	if len(value) < minConcealed || slices.Contains(plainWords, strings.ToLower(value)) ||
		slices.ContainsFunc(r.needles, func(n needle) bool { return n.text == value && !n.within }) {
		return
	}
	digits := hex.EncodeToString([]byte(value))
	r.needles = append(r.needles, needle{text: value, open: open}, needle{text: digits, open: 2 * open}, needle{text: strings.ToUpper(digits), open: 2 * open})
	for _, part := range base64Parts(value) {
		r.needles = append(r.needles, needle{text: part, within: true, open: (open*4 + 2) / 3})
	}
	slices.SortStableFunc(r.needles, func(a, b needle) int { return cmp.Compare(len(b.text), len(a.text)) })
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
		if size := overlap(text[:end.from], n.text); size >= minCutOff && size > n.open && !n.word(size) {
			found = append(found, n.whole(text, span{end.from - size, end.to}))
		}
	}
	return found
}

// mostWord bounds a plain word.
const mostWord = 12

// word reports whether the first size bytes of the needle are a plain word by themselves, with which any text may end: of
// "database-2024", "database".
func (n needle) word(size int) bool {
	small := func(c byte) bool { return c >= 'a' && c <= 'z' }
	if size > mostWord || small(n.text[size]|0x20) {
		return false
	}
	for i := range size {
		if !small(n.text[i]) {
			return false
		}
	}
	return true
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
