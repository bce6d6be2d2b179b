package rest

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"syncd/connectors"
)

func FuzzLinkHeader(f *testing.F) {
	f.Add(`</a>; rel="prev", </b?x=1,2>; title="a, \"b"; rel=next`)
	f.Add(`<`)
	f.Add(`<a>;"`)
	f.Fuzz(func(t *testing.T, h string) {
		link, err := nextLink([]string{h, h})
		if err == nil && !strings.Contains(h, link) {
			t.Errorf("the link %q does not stand in %q", link, h)
		}
	})
}

func FuzzStamp(f *testing.F) {
	f.Add("2026-11-29T10:00:00Z")
	f.Add("1795946400.5")
	f.Add("-1")
	f.Add("1e999999999")
	var formats []stampFormat
	for _, name := range []string{rfc3339, rfc2822, epochS, epochMS, dateOnly, integer, "2006-01-02 15:04:05"} {
		zone := ""
		if !isNamedFormat(name) {
			zone = "Europe/Berlin"
		}
		s, err := newStampFormat(name, zone)
		if err != nil {
			f.Fatal(err)
		}
		formats = append(formats, s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range formats {
			stamp, found, err := s.read(quote(text))
			if err != nil || !found || stamp > 200_000_000_000_000_000 {
				continue
			}
			// What was read can be asked for, and is then in the answer.
			back, err := s.parse(s.write(stamp, true))
			if err != nil || back > stamp {
				t.Errorf("%s: %q is %d, its bound %q is %d, %v", s.name, text, stamp, s.write(stamp, true), back, err)
			}
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add(`{"v":1,"unit":"us","low":17,"scan":{"since":5,"page":-3,"size":-1,"ids":"AA","sum":"zz","pass":300,"at":9223372036854775807}}`)
	f.Add(`{"v":1}`)
	f.Add(`null`)
	sets := map[kind]*streamSettings{}
	for k, text := range map[kind]string{
		pageCursor: "{cursor: {next: next, param: c}}", pageNumber: "{size_param: l, total: total, page: {param: p}}",
		pageOffset: "{offset: {param: o}}", pageKeyset: "{size_param: l, keyset: {page_param: p}}", pageLink: "{link_header: true}",
	} {
		sets[k] = settings(f, "url: http://shop.example\n"+streamText("    paging: "+text+"\n")).Stream["records"]
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		for k, set := range sets {
			st := &stream{set: set, plan: set.plan()}
			pos, err := st.plan.readPosition(connectors.PullRequest{Cursor: json.RawMessage(cursor), Start: connectors.Start{All: true}})
			if err != nil {
				continue
			}
			st.plan.begin(&pos, 10)
			if _, err := st.request(&pos); err != nil {
				t.Errorf("%s: %v", k, err)
			}
			l := listing{total: 3, recs: []record{{id: "1", stamp: 5}}}
			if _, _, err := st.plan.step(&pos, l, &st.seen); err != nil {
				continue
			}
			if next, err := pos.encode(); err == nil && !json.Valid(next) {
				t.Errorf("%s: the cursor %q is not JSON", k, next)
			}
		}
	})
}

func FuzzPath(f *testing.F) {
	f.Add(`a.b\.c.0`, `{"a":{"b.c":[1]}}`)
	f.Add(`.`, `[]`)
	f.Fuzz(func(t *testing.T, text, doc string) {
		var p path
		v, err := parse([]byte(doc))
		if p.Set(text) != nil || err != nil || !utf8.ValidString(text) {
			return
		}
		if got, found, err := p.in(v); err == nil && found && !json.Valid(got) {
			t.Errorf("%q in %q is %q", text, doc, got)
		}
		if got, err := p.put(v, raw(`"x"`)); err == nil {
			if back, found, err := p.in(got); err != nil || !found || string(back) != `"x"` {
				t.Errorf("%q put into %q gives %q, and there %q, %v, %v", text, doc, got, back, found, err)
			}
		}
	})
}
