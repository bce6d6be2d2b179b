package rest

import (
	"slices"
	"strconv"
	"strings"

	"syncd/connectors"
	"syncd/internal/field"
)

// answerSettings say what an API's answers mean where the status does not.
type answerSettings struct {
	Error    path
	Code     path
	Message  []string
	Codes    map[string]string
	Statuses map[string]string

	messages []path
	codes    map[string]meaning
	statuses map[int]meaning
}

func (s *answerSettings) Fields(f *field.Set) {
	f.Var(&s.Error, "error", "path", "A field whose presence means that the request was refused, whatever the status: for APIs that answer errors with 200.", field.Example("error"))
	f.Var(&s.Code, "code", "path", "Where an error's code stands.", field.Example("error.code"))
	f.Strings(&s.Message, "message", "Where an error's message for people stands; the first path that is there counts. Without it the usual places are tried.", field.Advanced())
	f.StringMap(&s.Codes, "codes", "What the API's error codes mean: throttled, duplicate, conflict, frozen, missing, waiting, invalid, auth, transient (the server surely did nothing) or unknown.")
	f.StringMap(&s.Statuses, "statuses", "The same for statuses that the API uses in a way of its own.", field.Advanced())
}

// Validate reads the tables.
func (s *answerSettings) Validate(r *field.Report) {
	s.messages, s.statuses = nil, map[int]meaning{}
	for _, t := range s.Message {
		var p path
		if err := p.Set(t); err != nil {
			r.At("message").Errorf("%q: %v", t, err)
		}
		s.messages = append(s.messages, p)
	}
	s.codes = readMeanings(r.At("codes"), s.Codes)
	for text, m := range readMeanings(r.At("statuses"), s.Statuses) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 200 || n > 599 {
			r.At("statuses", text).Errorf("not a status between 200 and 599")
		}
		s.statuses[n] = m
	}
	if len(s.Codes) > 0 && !s.Code.given() && !r.Failed("code") {
		r.At("code").Errorf("missing; say where an error's code stands")
	}
}

// meaning is what a code means: a class, or that the key is taken.
type meaning struct {
	class     connectors.Class
	duplicate bool
}

var meanings = []string{"throttled", "duplicate", "conflict", "frozen", "missing", "waiting", "invalid", "auth", "transient", "unknown"}

func readMeanings(r *field.Report, m map[string]string) map[string]meaning {
	out := map[string]meaning{}
	for code, word := range m {
		switch {
		case word == "duplicate":
			out[code] = meaning{connectors.Conflict, true}
		case slices.Contains(meanings, word):
			out[code] = meaning{class: connectors.Class(word)}
		default:
			r.At(code).Errorf("%q is not a meaning; use one of %s", word, strings.Join(meanings, ", "))
		}
	}
	return out
}

// maxMessage bounds what is kept of a server's message.
const maxMessage = 300

// message finds the readable message in an error's body: the server's own
// words and the names of fields, never a value that we sent.
func (s *answerSettings) message(v raw) string {
	for _, p := range s.messages {
		if m, found, _ := p.in(v); found {
			if t := words(m, 3); t != "" {
				return cut(t, maxMessage)
			}
		}
	}
	if v.kind() == '"' {
		return cut(v.word(), maxMessage)
	}
	for _, name := range []string{"errors", "error", "error_description", "message", "detail", "title", "reason"} {
		m, found, _ := v.member(name)
		if !found {
			continue
		}
		if t := words(m, 3); t != "" {
			return cut(t, maxMessage)
		}
	}
	return ""
}

// words makes a line of an error's value: a text, a list of texts or of
// objects with a message, or an object of lists by field.
func words(v raw, depth int) string {
	if depth == 0 {
		return ""
	}
	var parts []string
	switch v.kind() {
	case '"':
		return v.word()
	case '[':
		v.elements(func(x raw) bool {
			if t := words(x, depth-1); t != "" && len(parts) < 5 {
				parts = append(parts, t)
			}
			return true
		})
		return strings.Join(parts, "; ")
	case '{':
		return wordsOfObject(v, depth)
	}
	return ""
}

func wordsOfObject(v raw, depth int) string {
	var where string
	for _, name := range []string{"field", "path", "property", "param"} {
		if x, ok, _ := v.member(name); ok {
			where = strings.ReplaceAll(words(x, 2), "; ", ".")
		}
	}
	for _, name := range []string{"message", "detail", "error", "description", "title", "code"} {
		x, ok, _ := v.member(name)
		if !ok {
			continue
		}
		if t := words(x, depth-1); t != "" {
			if where != "" {
				return where + ": " + t
			}
			return t
		}
	}
	var parts []string
	v.members(func(key string, x raw) bool {
		if t := words(x, depth-1); t != "" && len(parts) < 5 {
			parts = append(parts, key+": "+t)
		}
		return true
	})
	return strings.Join(parts, "; ")
}

// read tells what a body says beyond its status: the code, the words, and what
// they mean. refused is true for an error in the body, whatever the status.
func (s *answerSettings) read(status int, v raw, own map[string]meaning) (said said) {
	if v == nil {
		if m, ok := s.statuses[status]; ok {
			said.meaning, said.known = m, true
		}
		return said
	}
	if s.Code.given() {
		if c, found, _ := s.Code.in(v); found {
			said.code = c.word()
		}
	}
	if m, ok := own[said.code]; ok && said.code != "" {
		said.meaning, said.known = m, true
	} else if m, ok := s.codes[said.code]; ok && said.code != "" {
		said.meaning, said.known = m, true
	} else if m, ok := s.statuses[status]; ok {
		said.meaning, said.known = m, true
	}
	if s.Error.given() {
		if e, found, _ := s.Error.in(v); found && e.truthy() {
			said.refused = true
		}
	}
	if said.refused || said.known || status >= 300 {
		said.words = s.message(v)
	}
	return said
}

// said is what an answer says of a request.
type said struct {
	code    string
	words   string
	meaning meaning
	known   bool // the code or status has a meaning of its own
	refused bool // the body holds an error
}
