package rest

import (
	"encoding/json"
	"net/http"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// entitySettings describe one entity.
type entitySettings struct {
	Doc     string
	Put     putSettings
	Create  createSettings
	Lookup  lookupSettings
	Update  updateSettings
	Remove  removeSettings
	Advance advanceSettings
	Unique  bool
	Version string
	AsText  bool
	Unsent  []string
	Settle  time.Duration
	Codes   map[string]string

	version path
	codes   map[string]meaning
}

func (s *entitySettings) Fields(f *field.Set) {
	f.String(&s.Doc, "doc", "A sentence on what the entity holds, for listings.", field.Advanced())
	f.Struct(&s.Put, "put", "One call that creates or updates a record under its key.")
	f.Struct(&s.Create, "create", "The call that creates a record.")
	f.Struct(&s.Lookup, "lookup", "The call that finds records by their key.")
	f.Struct(&s.Update, "update", "The call that changes a record.")
	f.Struct(&s.Remove, "remove", "The calls that archive or delete a record.")
	f.Struct(&s.Advance, "advance", "Steps that bring a document to the state its record asks for.", field.Advanced())
	f.Bool(&s.Unique, "unique", "The server refuses a second record with the same key. Only then can the strategy external_ref be used.", field.Default("false"))
	f.String(&s.Version, "version_field", "A field of the target that holds the source's version, if it has a place for it: it tells later which state stands there.", field.Example("custom.source_version"))
	f.Bool(&s.AsText, "version_as_text", "Send the version as a text instead of a number.", field.Default("false"), field.Advanced())
	f.Strings(&s.Unsent, "unsent", "Fields of the record that are not sent, because they only steer `advance`.", field.Advanced())
	f.Duration(&s.Settle, "settle_time", "How long the server may go on working on a request after we stopped waiting for it, its index lag included. After a write in doubt nothing of that record is sent before this is over.", field.Default("1m"), field.Range("0", "1d"))
	f.StringMap(&s.Codes, "codes", "What this entity's error codes mean, over those of `answers`.", field.Advanced())
}

// Validate checks what no single field can.
func (s *entitySettings) Validate(r *field.Report) {
	s.version = path{}
	if s.Version != "" {
		if err := s.version.Set(s.Version); err != nil {
			r.At("version_field").Errorf("%v", err)
		}
	}
	s.codes = readMeanings(r.At("codes"), s.Codes)
	put, create := r.Given("put"), r.Given("create")
	switch {
	case put && create:
		r.At("create").Errorf("put and create exclude each other; describe one")
	case !put && !create:
		r.Errorf("neither put nor create is described; describe one of them")
	case put:
		s.validatePut(r, "put", s.Put.Path)
	case create:
		require(r.At("create", "path"), s.Create.Path)
		if !s.Create.ID.given() && !r.Failed("create", "id") {
			r.At("create", "id").Errorf("missing; say where the answer holds the new record's id")
		}
		if s.Unique && !r.Given("lookup") {
			r.At("lookup").Errorf("missing; a record that the server refuses as a duplicate has to be looked up")
		}
		if s.Create.KeyField.text == "" && !r.Failed("create", "key_field") {
			r.At("create", "key_field").Errorf("missing; say which field of the target holds the key")
		}
	}
	s.validateLookup(r)
	s.validateRest(r, create)
}

func (s *entitySettings) validatePut(r *field.Report, name, p string) {
	at := r.At(name, "path")
	require(at, p)
	if p != "" && !uses(p, "key") && !s.Put.KeyField.given() {
		at.Errorf("nothing carries the key; put {key} into the path, or give key_field")
	}
	if s.Put.Answer == "record" && !s.Put.ID.given() && !s.Put.KeyField.given() && !r.Failed(name) {
		r.At(name).Errorf("nothing in the answer would name the record; give id or key_field, or answer: none")
	}
}

func (s *entitySettings) validateLookup(r *field.Report) {
	if !r.Given("lookup") {
		return
	}
	l := &s.Lookup
	require(r.At("lookup", "path"), l.Path)
	if !l.ID.given() && !r.Failed("lookup", "id") {
		r.At("lookup", "id").Errorf("missing; say where a record holds its id")
	}
	if !l.KeyField.given() && !r.Failed("lookup", "key_field") {
		r.At("lookup", "key_field").Errorf("missing; say where a record holds the key: a server that ignores the filter must not lead to a wrong match")
	}
	carried := uses(l.Path, "key")
	for _, v := range l.Query {
		carried = carried || uses(v, "key")
	}
	if !carried {
		r.At("lookup").Errorf("nothing carries the key; put {key} into path or query")
	}
}

func (s *entitySettings) validateRest(r *field.Report, linked bool) {
	if r.Given("update") {
		require(r.At("update", "path"), s.Update.Path)
	}
	if r.Given("remove") && s.Remove.Delete == "" && s.Remove.Archive.Path == "" {
		r.At("remove").Errorf("neither delete nor archive is described; describe at least one")
	}
	if r.Given("advance") {
		require(r.At("advance", "read"), s.Advance.Read)
		if len(s.Advance.Steps) == 0 {
			r.At("advance", "steps").Errorf("no steps; describe at least one")
		}
	}
	if linked {
		return
	}
	// A PUT under the key gives no link unless its answer holds the id.
	for name, p := range map[string]string{"remove.delete": s.Remove.Delete, "remove.archive": s.Remove.Archive.Path, "advance.read": s.Advance.Read} {
		if uses(p, "link") && !s.Put.ID.given() {
			r.Errorf("%s uses {link}, which is not known without put.id; use {key}, or give put.id", name)
		}
	}
}

func require(r *field.Report, text string) {
	if text == "" {
		r.Errorf("missing; give a path such as /items")
	}
}

func (s *entitySettings) info(name string) connectors.EntityInfo {
	doc := s.Doc
	i := connectors.EntityInfo{Name: name, SettleTime: s.Settle, MaxBatch: 1, Finds: s.Lookup.Path != ""}
	if s.Put.Path != "" {
		i.Strategies = []connectors.StrategyInfo{{Strategy: connectors.NaturalKey, Field: s.Put.Method + " " + s.Put.Path, KeyField: "the path"}}
		doc = orElse(doc, "Records under "+s.Put.Path+".")
	} else {
		if s.Unique {
			i.Strategies = append(i.Strategies, connectors.StrategyInfo{Strategy: connectors.ExternalRef, Field: s.Create.KeyField.text + ", which the server keeps unique", KeyField: s.Create.KeyField.text})
		}
		carries := func(st connectors.Strategy, by string) {
			i.Strategies = append(i.Strategies, connectors.StrategyInfo{Strategy: st, Field: by, KeyField: s.Create.KeyField.text})
		}
		if s.Create.keyed {
			i.Idempotency = s.Create.Idempotency.promises()
			carries(connectors.IdempotencyKey, "the header "+s.Create.Idempotency.Header)
		}
		if i.Finds {
			carries(connectors.Lookup, s.Create.KeyField.text)
		}
		carries(connectors.AtMostOnce, s.Create.KeyField.text+", for people to find it by")
		doc = orElse(doc, "Records of "+s.Create.Path+".")
	}
	i.Doc = doc
	if s.Remove.Archive.Path != "" {
		i.Removals = append(i.Removals, connectors.Archive)
	}
	if s.Remove.Delete != "" {
		i.Removals = append(i.Removals, connectors.Delete)
	}
	return i
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// answer is what a write's answer looks like.
type answerShape struct {
	Answer   string
	Record   path
	ID       path
	KeyField path
	Wrap     path
}

func (s *answerShape) fields(f *field.Set, idRequired bool) {
	idDoc := "Where the record holds its id in the target."
	if !idRequired {
		idDoc += " Without it the key alone names the record."
	}
	f.Var(&s.Wrap, "wrap", "path", "Where the record goes in the request's body; without it the record is the body.", field.Example("item"))
	f.Var(&s.KeyField, "key_field", "path", "The field of the record that holds the key.", field.Example("external_ref"))
	f.Var(&s.Record, "record", "path", "Where the record stands in the answer.", field.Default("."))
	f.Var(&s.ID, "id", "path", idDoc, field.Example("id"))
}

// putSettings describe a create-or-update.
type putSettings struct {
	Path   string
	Method string
	answerShape
}

func (s *putSettings) Fields(f *field.Set) {
	f.String(&s.Path, "path", "Path of the record, with {key} in it.", field.Example("/items/{key}"))
	f.String(&s.Method, "method", "The method.", field.Default(http.MethodPut), field.OneOf(http.MethodPut, http.MethodPatch, http.MethodPost))
	s.fields(f, false)
	f.String(&s.Answer, "answer", "What a success answers: record, the record itself; none, nothing that is worth reading (a 204, for example).", field.Default("record"), field.OneOf("record", "none"))
}

func (s *putSettings) Validate(r *field.Report) { checkPath(r.At("path"), s.Path, "key") }

// createSettings describe a create.
type createSettings struct {
	Path   string
	Method string
	answerShape
	Idempotency idempotencySettings
	keyed       bool
}

func (s *createSettings) Fields(f *field.Set) {
	f.String(&s.Path, "path", "Path of the collection.", field.Example("/orders"))
	f.String(&s.Method, "method", "The method.", field.Default(http.MethodPost), field.OneOf(http.MethodPost, http.MethodPut), field.Advanced())
	s.fields(f, true)
	f.Struct(&s.Idempotency, "idempotency", "The key by which the server recognises a create that is sent again, for the strategy idempotency_key.")
}

func (s *createSettings) Validate(r *field.Report) {
	checkPath(r.At("path"), s.Path, "key")
	s.keyed = r.Given("idempotency")
}

// lookupSettings describe a search by key.
type lookupSettings struct {
	Path     string
	Query    map[string]string
	Records  path
	ID       path
	KeyField path
	Match    string
	Size     int
	Archived flagSettings
}

func (s *lookupSettings) Fields(f *field.Set) {
	f.String(&s.Path, "path", "Path of the search, or of the record itself with {key} in it.", field.Example("/orders"))
	f.StringMap(&s.Query, "query", "Parameters; values may hold {key}. Make them ask for archived records, too, if the API leaves those out.", field.Example(""))
	f.Var(&s.Records, "records", "path", "Where the found records stand in the answer; `.` for the answer itself, which may be a list or one record.", field.Default("."))
	f.Var(&s.ID, "id", "path", "Where a record holds its id.", field.Example("id"))
	f.Var(&s.KeyField, "key_field", "path", "Where a record holds the key. It is compared exactly.", field.Example("external_ref"))
	f.String(&s.Match, "match", "What the server's filter does: exact, it gives only records with that key; partial, it may also give others, for example those that contain it.", field.Default("exact"), field.OneOf("exact", "partial"))
	f.Int(&s.Size, "size", "With match: partial, how many records the answer holds at most; one that holds as many proves nothing.", field.Default("20"), field.Range("1", "10000"), field.Advanced())
	f.Struct(&s.Archived, "archived", "What marks a record as archived.", field.Advanced())
}

func (s *lookupSettings) Validate(r *field.Report) {
	checkPath(r.At("path"), s.Path, "key")
	checkQuery(r, s.Query)
	for name, v := range s.Query {
		if err := strangers(v, "key"); err != nil {
			r.At("query", name).Errorf("%v", err)
		}
	}
}

// updateSettings describe a change.
type updateSettings struct {
	Path    string
	Method  string
	Wrap    path
	Answer  string
	Record  path
	ID      path
	IfMatch bool
	Read    string
}

func (s *updateSettings) Fields(f *field.Set) {
	f.String(&s.Path, "path", "Path of the record, with {link} (the target's id) or {key} in it.", field.Example("/orders/{link}"))
	f.String(&s.Method, "method", "The method. With PUT a server may empty the fields that are not sent.", field.Default(http.MethodPatch), field.OneOf(http.MethodPatch, http.MethodPut, http.MethodPost))
	f.Var(&s.Wrap, "wrap", "path", "Where the record goes in the request's body; without it the record is the body.")
	f.String(&s.Answer, "answer", "What a success answers: record, the record itself; none, nothing that is worth reading (a 204, for example).", field.Default("record"), field.OneOf("record", "none"))
	f.Var(&s.Record, "record", "path", "Where the record stands in the answer.", field.Default("."))
	f.Var(&s.ID, "id", "path", "Where the record holds its id; it must be the one that was written to.", field.Default("id"))
	f.Bool(&s.IfMatch, "if_match", "Read the record's ETag first and send it back as If-Match, so that nobody's change in between is overwritten.", field.Default("false"), field.Advanced())
	f.String(&s.Read, "read", "Path that gives the ETag; without it the path of the update.", field.Advanced())
}

func (s *updateSettings) Validate(r *field.Report) {
	checkPath(r.At("path"), s.Path, "key", "link")
	checkPath(r.At("read"), s.Read, "key", "link")
	if s.Path != "" && !uses(s.Path, "key") && !uses(s.Path, "link") {
		r.At("path").Errorf("the path holds neither {link} nor {key}")
	}
}

// removeSettings describe how a record is archived or deleted.
type removeSettings struct {
	Archive archiveSettings
	Delete  string
	Answer  string
}

func (s *removeSettings) Fields(f *field.Set) {
	f.Struct(&s.Archive, "archive", "The call that hides a record and keeps it.")
	f.String(&s.Delete, "delete", "Path of the record, with {link} or {key} in it, for the method DELETE.", field.Example("/orders/{link}"))
	f.String(&s.Answer, "answer", "What a success answers: json, a JSON value, or 204 without one; none, nothing that is worth reading, such as 200 with an empty body.", field.Default("json"), field.OneOf("json", "none"), field.Advanced())
}

func (s *removeSettings) Validate(r *field.Report) { checkRecordPath(r.At("delete"), s.Delete) }

type archiveSettings struct {
	Path   string
	Method string
	Body   json.RawMessage
}

func (s *archiveSettings) Fields(f *field.Set) {
	f.String(&s.Path, "path", "Path of the record, with {link} or {key} in it.", field.Example("/orders/{link}"))
	f.String(&s.Method, "method", "The method.", field.Default(http.MethodPatch), field.OneOf(http.MethodPatch, http.MethodPut, http.MethodPost))
	f.JSON(&s.Body, "body", "The body that archives the record, as it is sent.")
}

func (s *archiveSettings) Validate(r *field.Report) { checkRecordPath(r.At("path"), s.Path) }

func checkRecordPath(r *field.Report, p string) {
	checkPath(r, p, "key", "link")
	if p != "" && !uses(p, "key") && !uses(p, "link") {
		r.Errorf("the path holds neither {link} nor {key}")
	}
}

// advanceSettings describe the states of a document.
type advanceSettings struct {
	Read   string
	Record path
	Steps  []*stepSettings
}

func (s *advanceSettings) Fields(f *field.Set) {
	f.String(&s.Read, "read", "Path that gives the document's present state, with {link} or {key} in it.", field.Example("/orders/{link}"))
	f.Var(&s.Record, "record", "path", "Where the document stands in the answer.", field.Default("."))
	field.List(f, &s.Steps, "steps", "The steps, in their order. A step whose `when` the record meets is taken unless the document is past it.")
}

func (s *advanceSettings) Validate(r *field.Report) { checkRecordPath(r.At("read"), s.Read) }

type stepSettings struct {
	When   path
	Equals []string
	Path   string
	Method string
	Body   json.RawMessage
	Done   path
	In     []string
}

func (s *stepSettings) Fields(f *field.Set) {
	f.Var(&s.When, "when", "path", "The field of the desired record that asks for the step.", field.Required(), field.Example("state"))
	f.Strings(&s.Equals, "equals", "The values of that field that ask for it.", field.Required(), field.Example("confirmed,shipped"))
	f.String(&s.Path, "path", "Path of the step, with {link} or {key} in it.", field.Required(), field.Example("/orders/{link}/confirm"))
	f.String(&s.Method, "method", "The method.", field.Default(http.MethodPost), field.OneOf(http.MethodPost, http.MethodPut, http.MethodPatch))
	f.JSON(&s.Body, "body", "The body, as it is sent.")
	f.Var(&s.Done, "done", "path", "The field of the document that shows whether the step was taken.", field.Required(), field.Example("state"))
	f.Strings(&s.In, "in", "The values of that field that show it was taken, those of later steps included.", field.Required(), field.Example("confirmed,shipped"))
}

func (s *stepSettings) Validate(r *field.Report) { checkRecordPath(r.At("path"), s.Path) }
