package file

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// Connector returns the entry of this package in the registry.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name:     "file",
		Doc:      "Reads JSON lines and CSV files from a folder. Source only.",
		Settings: func() connectors.Settings { return &Settings{} },
	}
}

// Settings are the fields of a client that reads files.
type Settings struct {
	// Dir is the folder that holds the files; relative to the configuration's folder.
	Dir string
	// Files are the streams, by name.
	Files map[string]*Stream
}

// Fields declares the settings.
func (s *Settings) Fields(f *field.Set) {
	f.String(&s.Dir, "dir", "The folder with the files, relative to the folder of this configuration. Nothing outside it is ever read, "+
		"also not through links.", field.Required(), field.Example("/var/spool/shop"))
	field.Map(f, &s.Files, "streams", "The streams of this client: each is one file, or all files that match a pattern.",
		field.Names(`[a-z0-9][a-z0-9_-]{0,62}`, "a name of small letters, digits, _ and -"))
}

// Validate checks the settings as a whole.
func (s *Settings) Validate(r *field.Report) {
	if len(s.Files) == 0 && !r.Failed("streams") {
		r.At("streams").Errorf("no stream; name at least one, for example streams: {orders: {path: orders.jsonl, format: jsonl, id: id}}")
	}
}

// Stream says which files to read and how to read a record.
type Stream struct {
	Path     string
	Format   string
	Complete bool

	ID        string
	Version   string
	VersionAs string
	ChangedAt string
	Deleted   Deleted
	CSV       CSV
}

// Formats of files.
const (
	formatJSONL = "jsonl"
	formatCSV   = "csv"
)

// What a version is.
const (
	versionTime   = "time"
	versionNumber = "number"
)

// Fields declares the settings of a stream.
func (s *Stream) Fields(f *field.Set) {
	f.String(&s.Path, "path", "A file in dir, or a pattern with * ? and [ ] for several. Files are read in the order of their names; "+
		"names that begin with a dot match only a pattern that does.", field.Required(), field.Example("orders-*.jsonl"))
	f.String(&s.Format, "format", "How the files are written.", field.Required(), field.Choices(
		field.Choice{Name: formatJSONL, Doc: "one JSON object per line"},
		field.Choice{Name: formatCSV, Doc: "comma-separated values with a header line; all values are texts"}))
	f.Bool(&s.Complete, "complete", "Files are put in place when they are finished (written under another name and moved). Then a last line without a line end is read, too. "+
		"Otherwise it waits for its line end, except for a complete JSON object.", field.Default("false"))
	f.String(&s.ID, "id", "The field with the record's id, a text or a number; in JSON lines a path such as order.id.", field.Required(), field.Example("id"))
	f.String(&s.Version, "version", "The field that orders the states of a record. Without it they are in the order of reading.", field.Example("updated_at"))
	f.String(&s.VersionAs, "version_as", "What the version is.", field.Default(versionTime), field.Choices(
		field.Choice{Name: versionTime, Doc: "an RFC 3339 time with its offset, such as 2026-11-29T10:00:00Z"},
		field.Choice{Name: versionNumber, Doc: "a whole number"}))
	f.String(&s.ChangedAt, "changed_at", "The field with the RFC 3339 time of the change. Not needed where version is a time.", field.Example("updated_at"))
	f.Struct(&s.Deleted, "deleted", "How a record says that it no longer exists.")
	f.Struct(&s.CSV, "csv", "Particulars of CSV files.")
}

// Validate checks one stream.
func (s *Stream) Validate(r *field.Report) {
	if msg := badPath(s.Path); msg != "" && !r.Failed("path") {
		r.At("path").Errorf("%s", msg)
	}
	if s.Version == "" && r.Given("version_as") {
		r.At("version_as").Errorf("nothing to apply to without version; name the field, or take this out")
	}
	if s.Format == formatJSONL && r.Given("csv") {
		r.At("csv").Errorf("only for format csv; take it out")
	}
	if s.Deleted.Field == "" && s.Deleted.Value != "" {
		r.At("deleted").Errorf("a value without a field; name the field")
	}
	if s.Format == formatJSONL {
		for _, name := range []string{"id", "version", "changed_at"} {
			if v := map[string]string{"id": s.ID, "version": s.Version, "changed_at": s.ChangedAt}[name]; v != "" && slices.Contains(strings.Split(v, "."), "") {
				r.At(name).Errorf("a path with an empty part; write for example order.id")
			}
		}
	}
}

// versions says what a record's version is made of.
func (s *Stream) versions() string {
	if s.Version == "" {
		return "the order of reading"
	}
	return s.Version + ", a " + s.VersionAs
}

func badPath(p string) string {
	const hint = "write a name or pattern inside dir, for example orders-*.jsonl"
	switch {
	case strings.HasPrefix(p, "/") || strings.Contains(p, `\`) || strings.ContainsRune(p, 0):
		return "not a path relative to dir; " + hint
	case slices.Contains(strings.Split(p, "/"), ".."):
		return "a path with .. leads out of dir; " + hint
	case p != path.Clean(p) || p == ".":
		return "not a plain path; " + hint
	}
	if _, err := path.Match(p, ""); err != nil {
		return "a pattern that cannot be read, perhaps a [ without its ]; " + hint
	}
	return ""
}

// Deleted says how a record tells that it is gone.
type Deleted struct{ Field, Value string }

// Fields declares the settings.
func (d *Deleted) Fields(f *field.Set) {
	f.String(&d.Field, "field", "The field to look at.", field.Example("status"))
	f.String(&d.Value, "value", "What it holds in a record that is gone. Without it, any text but the empty one, any number but 0, and true mean gone.", field.Example("deleted"))
}

// CSV holds the particulars of CSV files.
type CSV struct {
	Header    map[string]string
	Delimiter string
	NoHeader  []string
}

// Fields declares the settings.
func (c *CSV) Fields(f *field.Set) {
	f.StringMap(&c.Header, "header", "Names for columns: the column's name in the file, and that of the record's field. Columns not listed keep theirs.")
	f.String(&c.Delimiter, "delimiter", `What stands between two values: one character, or "tab".`, field.Default(","), field.Example(";"))
	f.Strings(&c.NoHeader, "no_header", "The files have no header line; these are the columns in order.")
}

// Validate checks the settings of CSV files.
func (c *CSV) Validate(r *field.Report) {
	if _, err := c.delimiter(); err != nil && !r.Failed("delimiter") {
		r.At("delimiter").Errorf("%v", err)
	}
	seen := map[string]bool{}
	for _, name := range c.NoHeader {
		if seen[name] || name == "" {
			r.At("no_header").Errorf("a column without a name, or two of one name; give each column a name of its own")
			break
		}
		seen[name] = true
	}
	if len(c.NoHeader) > 0 && len(c.Header) > 0 {
		r.At("header").Errorf("header gives columns of the file other names, no_header says that they have none; use one of them")
	}
}

func (c *CSV) delimiter() (byte, error) {
	switch d := c.Delimiter; {
	case d == "tab" || d == "\t":
		return '\t', nil
	case len(d) != 1 || d[0] < 0x20 || d[0] > 0x7e:
		return 0, fmt.Errorf(`not a delimiter; give one plain character such as ";", or tab`)
	case d == `"` || d >= "0" && d <= "9" || d >= "A" && d <= "Z" || d >= "a" && d <= "z":
		return 0, fmt.Errorf("a letter, digit or quote cannot stand between values; use for example ;")
	default:
		return d[0], nil
	}
}

// page is how many records a page holds: lines are small and cheap to read.
const page = 1000

// Streams lists the configured streams.
func (s *Settings) Streams() []connectors.StreamInfo {
	var infos []connectors.StreamInfo
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		st := s.Files[name]
		infos = append(infos, connectors.StreamInfo{
			Name: name,
			Doc: fmt.Sprintf("The records of %s, read in the order of the files' names and their lines; a file that grows is read on, one that is replaced is read again.",
				st.Path),
			VersionIsTime: st.Version != "" && st.VersionAs == versionTime,
			Tombstones:    st.Deleted.Field != "",
			Log:           true,
			IDs:           st.ID,
			Versions:      st.versions(),
			Page:          page,
		})
	}
	return infos
}

// Entities is empty: files are only read.
func (s *Settings) Entities() []connectors.EntityInfo { return nil }

// parseStamp reads a time with its offset.
func parseStamp(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("not an RFC 3339 time with its offset, such as 2026-11-29T10:00:00Z")
	}
	return t.UTC(), nil
}
