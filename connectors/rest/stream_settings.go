package rest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// streamSettings describe one stream.
type streamSettings struct {
	Doc     string
	List    listSettings
	Records path
	ID      []string
	Version stampSettings
	Changed stampSettings
	Deleted flagSettings
	Since   sinceSettings
	Overlap time.Duration
	Steps   int64
	Settle  time.Duration
	Paging  pagingSettings
	Fetch   fetchSettings

	ids []path
}

func (s *streamSettings) Fields(f *field.Set) {
	f.String(&s.Doc, "doc", "A sentence on what the stream holds, for listings.", field.Advanced())
	f.Struct(&s.List, "list", "The request that lists records.")
	f.Var(&s.Records, "records", "path", "Where the list of records stands in the answer; `.` for the answer itself.", field.Required(), field.Example("data.items"))
	f.Strings(&s.ID, "id", "Where a record's id stands in the record. Several paths make one id, joined with a colon. The id is kept as text, digit for digit.", field.Required(), field.Example("id"))
	f.Struct(&s.Version, "version", "What orders the states of a record: usually the time of its last change.")
	f.Struct(&s.Changed, "changed_at", "When the record changed, if `version` is not a time.", field.Advanced())
	f.Struct(&s.Deleted, "deleted", "What marks a record as deleted.")
	f.Struct(&s.Since, "since", "How to ask for what changed since a stamp.")
	f.Duration(&s.Overlap, "overlap", "How far each reading goes back behind the last one, for records that become visible late. Several times the longest delay of the API's index.", field.Default("5m"), field.Range("0", "7d"))
	f.Int64(&s.Steps, "overlap_steps", "The same for a version that is a sequence: how many numbers to go back.", field.Default("100"), field.Range("0", "1000000"), field.Advanced())
	f.Duration(&s.Settle, "settle", "Keeps the cursor this far behind the server's clock, for APIs that show changes in the wrong order.", field.Default("0"), field.Range("0", "1d"), field.Advanced())
	f.StructText(&s.Paging, "paging", "How the listing is split into pages; `none` if it is not.")
	f.Struct(&s.Fetch, "fetch", "How one record is read. Lets old orders be refreshed instead of being dropped.")
}

// Validate checks what no single field can.
func (s *streamSettings) Validate(r *field.Report) {
	s.ids = nil
	for _, t := range s.ID {
		var p path
		if err := p.Set(t); err != nil {
			r.At("id").Errorf("%q: %v", t, err)
		}
		s.ids = append(s.ids, p)
	}
	s.validateSince(r)
	s.validatePaging(r)
	if s.Fetch.Path != "" && !uses(s.Fetch.Path, "id") {
		r.At("fetch", "path").Errorf("the path does not hold {id}")
	}
	if len(s.ID) > 1 && s.Fetch.Path != "" {
		r.At("fetch").Errorf("a record with an id of several parts cannot be read by it")
	}
}

func (s *streamSettings) validatePaging(r *field.Report) {
	p := &s.Paging
	switch k := p.kind(); {
	case r.Failed("paging"):
	case !r.Given("paging"):
		r.At("paging").Errorf("missing; say how the listing is split into pages, or none: a listing that is cut short looks like a complete one")
	case k == pageNone && !p.None:
		r.At("paging").Errorf("no way of paging; give one of cursor, link_header, next_url, page, offset and keyset, or write paging: none")
	case k == pageKeyset && (!s.Version.given() || !s.usesSince()):
		r.At("paging", "keyset").Errorf("keyset paging needs `version` and `since`")
	case k == pageCursor && p.Cursor.Param == "" && !s.uses("cursor"):
		r.At("paging", "cursor").Errorf("nothing carries the cursor; give param, or use {cursor} in list.query or list.body")
	case k == pageNumber && p.Page.Param == "" && !s.uses("page"):
		r.At("paging", "page").Errorf("nothing carries the number; give param, or use {page} in list.query or list.body")
	case k == pageOffset && p.Offset.Param == "" && !s.uses("offset"):
		r.At("paging", "offset").Errorf("nothing carries the offset; give param, or use {offset} in list.query or list.body")
	}
}

func (s *streamSettings) validateSince(r *field.Report) {
	if s.Since.Param != "" && !s.Version.given() {
		r.At("since").Errorf("since needs `version`, where the stamps come from")
	}
	if (s.uses("since") || s.uses("until")) && !s.Version.given() {
		r.At("list").Errorf("{since} and {until} need `version`, where the stamps come from")
	}
	if s.Version.given() && s.usesSince() && !r.Failed("since") && !r.Failed("version") {
		if s.Since.format.isTime() != s.Version.format.isTime() {
			r.At("since", "format").Errorf("the version is %s and the bound %s; both must be times, or both a sequence", s.Version.Format, s.Since.Format)
		}
	}
	if s.Changed.given() && !r.Failed("changed_at") && !s.Changed.format.isTime() {
		r.At("changed_at", "format").Errorf("changed_at must be a time")
	}
	if s.Version.given() && !s.Version.format.isTime() && r.Given("overlap") {
		r.At("overlap").Errorf("the version is a sequence; use overlap_steps")
	}
}

// uses tells whether the list request holds a placeholder.
func (s *streamSettings) uses(name string) bool {
	for _, v := range s.List.Query {
		if uses(v, name) {
			return true
		}
	}
	return uses(string(s.List.Body), name)
}

func (s *streamSettings) usesSince() bool { return s.Since.Param != "" || s.uses("since") }

func (s *streamSettings) info(name string) connectors.StreamInfo {
	doc := s.Doc
	if doc == "" {
		doc = "Records of " + s.List.Path + "."
	}
	return connectors.StreamInfo{Name: name, Doc: doc, CanFetch: s.Fetch.Path != "",
		VersionIsTime: s.Version.given() && s.Version.format.isTime(), Tombstones: s.Deleted.Path.given(),
		IDs: strings.Join(s.ID, ", "), Versions: s.versions(), Page: s.Paging.Size}
}

// versions says what a record's version is made of.
func (s *streamSettings) versions() string {
	if !s.Version.given() {
		return "the order of reading"
	}
	return s.Version.Path.text + ", " + s.Version.format.String()
}

// plan makes of the settings what the reading needs.
func (s *streamSettings) plan() *plan {
	p := &plan{
		kind: s.Paging.kind(), first: s.Paging.Page.Start, short: s.Paging.Full,
		hasUntil: s.uses("until"), hasSince: s.usesSince(), inclusive: s.Since.Inclusive, sinceFmt: s.Since.format,
		hasVersion: s.Version.given(), hasChanged: s.Changed.given(), version: s.Version.format,
		overlap: s.Overlap.Microseconds(), settle: s.Settle.Microseconds(),
		rescan: s.Paging.rescan(s.usesSince()),
	}
	p.asksSize = s.Paging.SizeParam != "" || s.uses("limit")
	if p.asksSize || s.Paging.sizeGiven {
		p.size = s.Paging.Size
	}
	if p.hasVersion && !p.version.isTime() {
		p.overlap = s.Steps
	}
	k := s.Paging.Keyset
	if p.kind == pageKeyset {
		p.sub, p.subOffset, p.maxSize = k.PageParam != "" || k.OffsetParam != "", k.OffsetParam != "", max(k.MaxSize, p.size)
		p.first = k.Start
	}
	return p
}

// listSettings describe the request of a listing.
type listSettings struct {
	Path   string
	Method string
	Query  map[string]string
	Body   json.RawMessage
}

var listPlaceholders = []string{"since", "until", "cursor", "page", "offset", "limit"}

func (s *listSettings) Fields(f *field.Set) {
	f.String(&s.Path, "path", "Path of the listing.", field.Required(), field.Example("/orders"))
	f.String(&s.Method, "method", "How it is asked for. POST is for APIs that search with a body.", field.Default(http.MethodGet), field.OneOf(http.MethodGet, http.MethodPost))
	f.StringMap(&s.Query, "query", "Parameters. Values may hold {since}, {until}, {cursor}, {page}, {offset} and {limit}; a parameter whose value is not known at the time is left out.")
	f.JSON(&s.Body, "body", "Body of a POST, with the same placeholders in its texts.")
}

func (s *listSettings) Validate(r *field.Report) {
	checkPath(r.At("path"), s.Path)
	for name, v := range s.Query {
		if err := strangers(v, listPlaceholders...); err != nil {
			r.At("query", name).Errorf("%v", err)
		}
	}
	checkQuery(r, s.Query)
	if s.Body != nil && s.Method != http.MethodPost {
		r.At("body").Errorf("a body needs method: POST")
	}
	if err := strangers(string(s.Body), listPlaceholders...); err != nil {
		r.At("body").Errorf("%v", err)
	}
}

// checkPath refuses a path that would leave the client's address.
func checkPath(r *field.Report, p string, placeholders ...string) {
	if p == "" {
		return
	}
	if !strings.HasPrefix(p, "/") {
		r.Errorf("a path begins with a slash; the address itself stands in url")
	}
	if strings.ContainsAny(p, "?#") {
		r.Errorf("a path holds no query; use `query`")
	}
	if err := strangers(p, placeholders...); err != nil {
		r.Errorf("%v", err)
	}
}

// stampSettings say where a stamp stands and how it is written.
type stampSettings struct {
	Path   path
	Format string
	Zone   string

	format stampFormat
}

func (s *stampSettings) Fields(f *field.Set) {
	f.Var(&s.Path, "path", "path", "Where it stands in the record.", field.Example("updated_at"))
	f.String(&s.Format, "format", "How it is written: "+formatDoc+".", field.Default(rfc3339))
	f.String(&s.Zone, "zone", "The zone of a layout without an offset, for example Europe/Berlin.", field.Advanced())
}

func (s *stampSettings) Validate(r *field.Report) {
	var err error
	if s.format, err = newStampFormat(s.Format, s.Zone); err != nil {
		r.At("format").Errorf("%v", err)
	}
	if r.Given("format") && !s.given() && !r.Failed("path") {
		r.At("path").Errorf("missing; say where the stamp stands in the record")
	}
}

func (s *stampSettings) given() bool { return s.Path.given() }

// flagSettings say what marks a record.
type flagSettings struct {
	Path   path
	Values []string
}

func (s *flagSettings) Fields(f *field.Set) {
	f.Var(&s.Path, "path", "path", "Where the mark stands in the record.", field.Example("deleted_at"))
	f.Strings(&s.Values, "values", "Values that mean yes. Without them any value does but null, false, 0 and an empty one.")
}

func (s *flagSettings) Validate(r *field.Report) {
	if len(s.Values) > 0 && !s.Path.given() && !r.Failed("path") {
		r.At("path").Errorf("missing; say where the mark stands in the record")
	}
}

// marks tells whether a record bears the mark.
func (s *flagSettings) marks(rec raw) (bool, error) {
	if !s.Path.given() {
		return false, nil
	}
	v, found, err := s.Path.in(rec)
	if err != nil || !found {
		return false, err
	}
	if len(s.Values) == 0 {
		return v.truthy(), nil
	}
	return slices.Contains(s.Values, v.word()), nil
}

// sinceSettings say how a lower bound is asked for.
type sinceSettings struct {
	Param     string
	Format    string
	Zone      string
	Inclusive bool
	All       string

	format stampFormat
}

func (s *sinceSettings) Fields(f *field.Set) {
	f.String(&s.Param, "param", "The parameter; in its stead {since} may stand in list.query or list.body.", field.Example("updated_since"))
	f.String(&s.Format, "format", "How the bound is written: "+formatDoc+". Times are sent in UTC unless `zone` says otherwise.", field.Default(rfc3339))
	f.String(&s.Zone, "zone", "The zone in which the API reads a bound without an offset.", field.Advanced())
	f.Bool(&s.Inclusive, "inclusive", "Whether the answer holds the records that bear the very stamp. If in doubt, false.", field.Default("false"))
	f.String(&s.All, "all", "What to send where everything is wanted; without it the parameter is left out.", field.Advanced())
}

func (s *sinceSettings) Validate(r *field.Report) {
	var err error
	if s.format, err = newStampFormat(s.Format, s.Zone); err != nil {
		r.At("format").Errorf("%v", err)
	}
}

// fetchSettings describe how one record is read.
type fetchSettings struct {
	Path   string
	Query  map[string]string
	Record path
}

func (s *fetchSettings) Fields(f *field.Set) {
	f.String(&s.Path, "path", "Path of one record, with {id} in it.", field.Example("/orders/{id}"))
	f.StringMap(&s.Query, "query", "Parameters.", field.Advanced())
	f.Var(&s.Record, "record", "path", "Where the record stands in the answer.", field.Default("."))
}

func (s *fetchSettings) Validate(r *field.Report) {
	checkPath(r.At("path"), s.Path, "id")
	checkQuery(r, s.Query)
}
