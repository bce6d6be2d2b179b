package mapping

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The regular expressions of jq, written again because jq's own count every
// match's place from the beginning of the text, which takes minutes on a long
// description and cannot be stopped.

const maxMatches = 500_000

var errTooManyMatches = errors.New("a regular expression matched more than 500000 times")

type pattern struct{ re, flags string }

// find compiles the pattern of a call: a string with flags or null, or an
// array of the two.
func (r *run) find(re, flags any) (p *regexp.Regexp, all bool, err error) {
	if pair, ok := re.([]any); ok && len(pair) > 0 && flags == nil {
		re = pair[0]
		if len(pair) > 1 {
			flags = pair[1]
		}
	}
	text, ok := re.(string)
	if !ok {
		return nil, false, fmt.Errorf("a regular expression must be a string but is %s", typeName(re))
	}
	flagText, ok := flags.(string)
	if !ok && flags != nil {
		return nil, false, fmt.Errorf("flags must be a string but are %s", typeName(flags))
	}
	key := pattern{text, flagText}
	if p, ok = r.patterns[key]; !ok {
		if p, err = compilePattern(text, flagText); err != nil {
			return nil, false, err
		}
		if len(r.patterns) < maxCached {
			// copied, because a pattern may be a part of an event
			r.patterns[pattern{strings.Clone(text), strings.Clone(flagText)}] = p
		}
	}
	return p, strings.Contains(flagText, "g"), nil
}

func compilePattern(text, flags string) (*regexp.Regexp, error) {
	if len(text) > 10_000 {
		return nil, errors.New("the regular expression is longer than 10000 bytes")
	}
	if strings.Trim(flags, "gim") != "" {
		return nil, errors.New("the flags of a regular expression can be g, i and m")
	}
	if strings.Contains(flags, "i") {
		text = "(?i)" + text
	}
	if strings.Contains(flags, "m") {
		text = "(?s)" + text
	}
	p, err := regexp.Compile(text)
	if err != nil {
		return nil, errors.New("not a regular expression of RE2 (https://github.com/google/re2/wiki/Syntax)")
	}
	return p, nil
}

func subject(in any) (string, error) {
	s, ok := in.(string)
	if !ok {
		return "", fmt.Errorf("a string was expected but there is %s", typeName(in))
	}
	return s, nil
}

func fnTest(r *run, in any, args []any) (any, error) {
	s, err := subject(in)
	if err != nil {
		return nil, err
	}
	p, _, err := r.find(args[0], optional(args, 1))
	if err != nil {
		return nil, err
	}
	if err := r.spend(len(s) / 8); err != nil {
		return nil, err
	}
	return p.MatchString(s), nil
}

func optional(args []any, i int) any {
	if i < len(args) {
		return args[i]
	}
	return nil
}

// matches finds the matches of a call, at most one without the flag g.
func (r *run) matches(in any, args []any, all bool) (s string, p *regexp.Regexp, places [][]int, err error) {
	if s, err = subject(in); err != nil {
		return "", nil, nil, err
	}
	p, g, err := r.find(args[0], optional(args, 1))
	if err != nil {
		return "", nil, nil, err
	}
	n := 1
	if g || all {
		n = maxMatches + 1
	}
	if err := r.spend(len(s) / 8); err != nil {
		return "", nil, nil, err
	}
	if places = p.FindAllStringSubmatchIndex(s, n); len(places) > maxMatches {
		return "", nil, nil, r.stop(errTooManyMatches)
	}
	return s, p, places, r.produce(len(places) * (memberBytes*4 + 2*elementBytes*(1+p.NumSubexp())))
}

// fnMatch gives jq's match objects as an array, with places counted in
// characters.
func fnMatch(r *run, in any, args []any) (any, error) {
	s, p, places, err := r.matches(in, args, false)
	if err != nil {
		return nil, err
	}
	c := charCounter{s: s}
	names := p.SubexpNames()
	out := make([]any, len(places))
	for i, at := range places {
		m := c.match(at[0], at[1])
		captures := make([]any, 0, len(names)-1)
		for j := 1; j < len(names); j++ {
			capture := c.match(at[2*j], at[2*j+1])
			capture["name"] = nil
			if names[j] != "" {
				capture["name"] = names[j]
			}
			captures = append(captures, capture)
		}
		m["captures"] = captures
		out[i] = m
	}
	return out, nil
}

// charCounter turns byte offsets into character offsets, going on from the
// last one.
type charCounter struct {
	s           string
	byteAt, rAt int
}

func (c *charCounter) chars(offset int) int {
	if offset < c.byteAt {
		return c.rAt - utf8.RuneCountInString(c.s[offset:c.byteAt])
	}
	c.rAt += utf8.RuneCountInString(c.s[c.byteAt:offset])
	c.byteAt = offset
	return c.rAt
}

func (c *charCounter) match(start, end int) map[string]any {
	if start < 0 {
		return map[string]any{"offset": -1, "length": 0, "string": nil}
	}
	return map[string]any{
		"offset": c.chars(start),
		"length": utf8.RuneCountInString(c.s[start:end]),
		"string": c.s[start:end],
	}
}

// fnCapture gives, for each match, an object of its named groups.
func fnCapture(r *run, in any, args []any) (any, error) {
	s, p, places, err := r.matches(in, args, false)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(places))
	for i, at := range places {
		out[i] = namedGroups(s, p.SubexpNames(), at)
	}
	return out, nil
}

func namedGroups(s string, names []string, at []int) map[string]any {
	m := make(map[string]any, len(names))
	for j := 1; j < len(names); j++ {
		switch {
		case names[j] == "":
		case at[2*j] < 0:
			m[names[j]] = nil
		default:
			m[names[j]] = s[at[2*j]:at[2*j+1]]
		}
	}
	return m
}

// fnScan gives all matches: the text of each, or the array of its groups.
func fnScan(r *run, in any, args []any) (any, error) {
	s, p, places, err := r.matches(in, args, true)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(places))
	for i, at := range places {
		if p.NumSubexp() == 0 {
			out[i] = s[at[0]:at[1]]
			continue
		}
		groups := make([]any, p.NumSubexp())
		for j := range groups {
			if at[2*j+2] >= 0 {
				groups[j] = s[at[2*j+2]:at[2*j+3]]
			}
		}
		out[i] = groups
	}
	return out, nil
}

// fnSplits gives the array of what stands between the matches.
func fnSplits(r *run, in any, args []any) (any, error) {
	s, _, places, err := r.matches(in, args, true)
	if err != nil {
		return nil, err
	}
	out := make([]any, 0, len(places)+1)
	next := 0
	for _, at := range places {
		out = append(out, s[next:at[0]])
		next = at[1]
	}
	return append(out, s[next:]), nil
}

// subFind makes the first half of sub and gsub: the matches as the objects that
// the replacement is computed from, and their places for fnSubJoin.
func subFind(all bool) callFunc {
	return func(r *run, in any, args []any) (any, error) {
		s, p, places, err := r.matches(in, args, all)
		if err != nil {
			return nil, err
		}
		out := make([]any, len(places))
		for i, at := range places {
			out[i] = []any{at[0], at[1], namedGroups(s, p.SubexpNames(), at)}
		}
		return out, nil
	}
}

// fnSubJoin is the second half: args are the matches and, for each, the array
// of its replacements. As in jq, the first replacements of all matches make
// the first result, the second ones the second.
func fnSubJoin(r *run, in any, args []any) (any, error) {
	s, _ := in.(string)
	matches, _ := args[0].([]any)
	replacements, _ := args[1].([]any)
	var results []*strings.Builder
	next := 0
	for i, m := range matches {
		at, _ := m.([]any)
		start, end := at[0].(int), at[1].(int)
		for j, t := range replacements[i].([]any) {
			text, ok := t.(string)
			if !ok {
				return nil, fmt.Errorf("a replacement must be a string but is %s", typeName(t))
			}
			if j == len(results) {
				results = append(results, &strings.Builder{})
			}
			if results[j].Len()+len(text)+start-next > r.limits.text {
				return nil, r.stop(r.limits.errText())
			}
			results[j].WriteString(s[next:start])
			results[j].WriteString(text)
		}
		next = end
	}
	if len(results) == 0 {
		return []any{s}, nil
	}
	out := make([]any, len(results))
	for j, b := range results {
		if err := r.text(b.Len() + len(s) - next); err != nil {
			return nil, err
		}
		b.WriteString(s[next:])
		out[j] = b.String()
	}
	return out, nil
}
