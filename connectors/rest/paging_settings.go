package rest

import (
	"errors"
	"strings"

	"syncd/internal/field"
)

// pagingSettings say how a listing is split into pages.
type pagingSettings struct {
	None      bool
	Size      int
	SizeParam string
	Full      bool
	Rescan    string
	Total     path
	TotalHead string
	More      path
	Cursor    cursorSettings
	NextURL   nextURLSettings
	Page      pageSettings
	Offset    offsetSettings
	Keyset    keysetSettings
	Link      bool

	given     []kind
	sizeGiven bool
}

func (s *pagingSettings) Fields(f *field.Set) {
	f.Int(&s.Size, "size", "Records per page: what is asked for with size_param or {limit}, else what the server is known to give.", field.Default("100"), field.Range("1", "10000"))
	f.String(&s.SizeParam, "size_param", "The parameter that carries the size.", field.Example("limit"))
	f.Bool(&s.Full, "full_pages", "The API promises that a page with fewer records than asked for is the last. Saves a request per reading; wrong for servers that leave out what the reader may not see, or that silently give fewer than they are asked for.", field.Advanced())
	f.String(&s.Rescan, "rescan", "Whether a listing of several pages is read until a pass brings nothing new, because records can move across the border of pages while they are read. auto: yes for page, offset, link_header and next_url where there is `since`; no for cursor, and for listings that are read whole every time.", field.Default("auto"), field.OneOf("auto", "yes", "no"), field.Advanced())
	f.Var(&s.Total, "total", "path", "Where the answer says how many records the whole listing has.", field.Advanced())
	f.String(&s.TotalHead, "total_header", "The header that says how many records the whole listing has.", field.Example("X-Total-Count"), field.Advanced())
	f.Var(&s.More, "more", "path", "Where the answer says whether more pages follow.", field.Example("meta.has_more"), field.Advanced())
	f.Struct(&s.Cursor, "cursor", "The answer holds a cursor for the next page.")
	f.Bool(&s.Link, "link_header", "The answer's Link header holds the address of the next page (rel=\"next\").", field.Default("false"))
	f.Struct(&s.NextURL, "next_url", "The answer's body holds the address of the next page.")
	f.Struct(&s.Page, "page", "Pages have numbers.")
	f.Struct(&s.Offset, "offset", "Pages begin after a number of records.")
	f.Struct(&s.Keyset, "keyset", "The listing is sorted by the field of `version`, ascending, and is asked for anew from the last stamp seen. The safest way where an API can sort so.")
}

// FieldText takes the word none.
func (s *pagingSettings) FieldText(text string) error {
	if text != "none" {
		return errors.New("not a way of paging; write none, or one of cursor, link_header, next_url, page, offset and keyset as a mapping")
	}
	s.None = true
	return nil
}

func (s *pagingSettings) Validate(r *field.Report) {
	s.given, s.sizeGiven = nil, r.Given("size")
	for _, k := range []kind{pageCursor, pageURL, pageNumber, pageOffset, pageKeyset} {
		if r.Given(string(k)) {
			s.given = append(s.given, k)
		}
	}
	if s.Link {
		s.given = append(s.given, pageLink)
	}
	var names []string
	for _, k := range s.given {
		names = append(names, string(k))
	}
	switch {
	case s.None:
	case len(s.given) > 1:
		r.Errorf("two ways of paging (%s); give one", strings.Join(names, ", "))
	}
	if s.kind() == pageCursor && !s.Cursor.Next.given() {
		r.At("cursor", "next").Errorf("missing; say where the answer holds the next cursor")
	}
	if s.kind() == pageURL && !s.NextURL.Path.given() {
		r.At("next_url", "path").Errorf("missing; say where the answer holds the address of the next page")
	}
	if k := s.Keyset; s.kind() == pageKeyset && k.PageParam == "" && k.OffsetParam == "" && s.SizeParam == "" {
		r.At("keyset").Errorf("records that share a stamp may fill more than a page; give page_param or offset_param, or size_param beside keyset")
	}
	if s.Keyset.PageParam != "" && s.Keyset.OffsetParam != "" {
		r.At("keyset").Errorf("page_param and offset_param exclude each other; give one")
	}
}

func (s *pagingSettings) kind() kind {
	if len(s.given) == 0 {
		return pageNone
	}
	return s.given[0]
}

func (s *pagingSettings) rescan(since bool) bool {
	if s.Rescan != "auto" {
		return s.Rescan == "yes"
	}
	switch s.kind() {
	case pageNumber, pageOffset, pageLink, pageURL:
		return since
	}
	return false
}

type cursorSettings struct {
	Next  path
	Param string
	End   []string
}

func (s *cursorSettings) Fields(f *field.Set) {
	f.Var(&s.Next, "next", "path", "Where the answer holds the cursor of the next page; absent, null, false or empty at the end. 0 is a cursor like any other, unless end names it.", field.Example("meta.next_cursor"))
	f.String(&s.Param, "param", "The parameter that carries it; in its stead {cursor} may stand in list.query or list.body.", field.Example("cursor"))
	f.Strings(&s.End, "end", "Cursors that say that there is no next page, for APIs that write 0 or -1 there.", field.Example("0"), field.Advanced())
}

type nextURLSettings struct{ Path path }

func (s *nextURLSettings) Fields(f *field.Set) {
	f.Var(&s.Path, "path", "path", "Where the answer holds the address; absent, null, false or empty at the end.", field.Example("links.next"))
}

type pageSettings struct {
	Param string
	Start int
}

func (s *pageSettings) Fields(f *field.Set) {
	f.String(&s.Param, "param", "The parameter that carries the number; in its stead {page} may stand in list.query or list.body.", field.Example("page"))
	f.Int(&s.Start, "start", "Number of the first page.", field.Default("1"), field.Range("0", "1"))
}

type offsetSettings struct{ Param string }

func (s *offsetSettings) Fields(f *field.Set) {
	f.String(&s.Param, "param", "The parameter that carries the number of records to pass over; in its stead {offset} may stand in list.query or list.body.", field.Example("offset"))
}

type keysetSettings struct {
	PageParam   string
	OffsetParam string
	Start       int
	MaxSize     int
}

func (s *keysetSettings) Fields(f *field.Set) {
	f.String(&s.PageParam, "page_param", "The parameter of a page number, to page through records that share one stamp.", field.Example("page"))
	f.String(&s.OffsetParam, "offset_param", "The parameter of an offset, to page through records that share one stamp.")
	f.Int(&s.Start, "start", "Number of the first page.", field.Default("1"), field.Range("0", "1"), field.Advanced())
	f.Int(&s.MaxSize, "max_size", "Without page_param and offset_param: how far the size is raised to hold the records of one stamp.", field.Default("1000"), field.Range("1", "100000"), field.Advanced())
}
