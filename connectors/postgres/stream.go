package postgres

import (
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// Stream says how changes are read from a table or view.
type Stream struct {
	Table     string
	Mode      string
	ID        string
	Version   string
	VersionAs string
	ChangedAt string
	Columns   []string
	Deleted   string
	Overlap   time.Duration

	Body  string
	Event string
	XID   string
}

// Modes of a stream.
const (
	modePoll   = "poll"
	modeOutbox = "outbox"
)

// What a version is.
const (
	versionTime   = "time"
	versionNumber = "number"
)

// Fields declares the settings.
func (s *Stream) Fields(f *field.Set) {
	f.String(&s.Table, "table", "The table or view, as schema.table. To read part of a table, or several joined, make a view.", field.Required(), field.Example("shop.orders"))
	f.String(&s.Mode, "mode", "How changes are found.", field.Default(modePoll), field.Choices(
		field.Choice{Name: modePoll, Doc: "rows whose version column has grown"},
		field.Choice{Name: modeOutbox, Doc: "rows of a table of events, which are only ever added"}))
	f.String(&s.ID, "id", "The column with the record's id. In mode poll it is unique and never null.", field.Required(), field.Example("id"))
	f.String(&s.Version, "version", "In mode poll, the column that grows with every change: a timestamp, or a whole number such as one from a sequence. "+
		"In mode outbox, a column that orders the events of a record; without it, the event's number.", field.Example("updated_at"))
	f.String(&s.VersionAs, "version_as", "What the version column of mode poll is.", field.Default(versionTime), field.Choices(
		field.Choice{Name: versionTime, Doc: "a timestamp"},
		field.Choice{Name: versionNumber, Doc: "a whole number"}))
	f.String(&s.ChangedAt, "changed_at", "A timestamp column with the time of the change, where version is a number. Needed to start at a time.", field.Example("created_at"))
	f.Strings(&s.Columns, "columns", "The columns to read. Without it, all.")
	f.String(&s.Deleted, "deleted", "A column that marks a record as gone: true, or any other value than false and null.", field.Example("deleted_at"))
	f.Duration(&s.Overlap, "overlap", "How far back each poll reads again, for stamps that become visible late: those given by other machines' clocks, and, at a standby or without "+
		"the role pg_read_all_stats, those of long transactions. 0 is right only where stamps come from now() and that role is granted.",
		field.Default("5m"), field.Range("0s", "24h"))
	f.String(&s.Event, "event", "Mode outbox: the column with the event's number, from a sequence.", field.Default("id"), field.Group("Outbox"))
	f.String(&s.Body, "body", "Mode outbox: the column with the record as JSON.", field.Example("payload"), field.Group("Outbox"))
	f.String(&s.XID, "xid", "Mode outbox: an xid8 column with the default pg_current_xact_id(). With it, no event is read twice or waited for longer than its transaction.",
		field.Example("xid"), field.Group("Outbox"))
}

// Validate checks the settings of a stream.
func (s *Stream) Validate(r *field.Report) {
	tableSetting(r, "table", s.Table)
	for at, c := range map[string]string{"id": s.ID, "version": s.Version, "changed_at": s.ChangedAt, "deleted": s.Deleted, "event": s.Event, "body": s.Body, "xid": s.XID} {
		if c != "" {
			columnNames(r, at, c)
		}
	}
	columnNames(r, "columns", s.Columns...)
	switch s.Mode {
	case modePoll:
		if s.Version == "" && !r.Failed("version") {
			r.At("version").Errorf("missing; name the column that grows with every change, for example updated_at")
		}
		for _, at := range []string{"body", "event", "xid"} {
			if r.Given(at) {
				r.At(at).Errorf("only for mode outbox; take it out")
			}
		}
		if s.VersionAs == versionTime && s.ChangedAt != "" {
			r.At("changed_at").Errorf("not needed where version is a time; take it out")
		}
	case modeOutbox:
		if r.Given("version_as") {
			r.At("version_as").Errorf("not for mode outbox, where it is always a number; take it out")
		}
		if s.Body == "" && !r.Failed("body") {
			r.At("body").Errorf("missing; name the column with the record as JSON")
		}
		if len(s.Columns) > 0 {
			r.At("columns").Errorf("not for mode outbox, where body is the record; take it out")
		}
		if s.Event == s.ID {
			r.At("event").Errorf("the same as id; event is the event's number, id the record that it is about")
		}
	}
}

func (s *Stream) info(name string) connectors.StreamInfo {
	if s.Mode == modeOutbox {
		return connectors.StreamInfo{Name: name, Doc: fmt.Sprintf("Events of the table %s, in the order in which their transactions began to write.", s.Table),
			Tombstones: s.Deleted != "", Log: true, IDs: s.ID, Versions: s.versions(), Page: 1000}
	}
	return connectors.StreamInfo{Name: name, Doc: fmt.Sprintf("Rows of %s whose column %s has grown.", s.Table, s.Version),
		CanFetch: true, VersionIsTime: s.VersionAs == versionTime, Tombstones: s.Deleted != "",
		IDs: s.ID, Versions: s.versions(), Page: 1000}
}

// versions says what a record's version is made of.
func (s *Stream) versions() string {
	switch {
	case s.Mode == modePoll:
		return s.Version + ", a " + s.VersionAs
	case s.Version != "":
		return s.Version
	}
	return s.Event
}
