package file

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/jsonscan"
)

// maxID bounds the id of a record, in bytes.
const maxID = 1024

// looked are the fields of a record that the connector looks at itself, in the order of fields.raw.
const (
	lookID = iota
	lookVersion
	lookChanged
	lookDeleted
	looks
)

// fields are the values of the looked-at fields of one record. A nil value stands for a field that is not there, or null.
type fields struct {
	raw  [looks][]byte // JSON values
	seen [looks]bool
}

// branch is a part of the paths of looked-at fields.
type branch struct {
	slots []int
	below map[string]*branch
}

// paths makes the tree of a stream's looked-at fields.
func (s *Stream) paths() *branch {
	root := &branch{}
	for slot, name := range s.looked() {
		if name == "" {
			continue
		}
		b := root
		for part := range strings.SplitSeq(name, ".") {
			if b.below[part] == nil {
				if b.below == nil {
					b.below = map[string]*branch{}
				}
				b.below[part] = &branch{}
			}
			b = b.below[part]
		}
		b.slots = append(b.slots, slot)
	}
	return root
}

func (s *Stream) looked() [looks]string {
	return [looks]string{lookID: s.ID, lookVersion: s.Version, lookChanged: s.ChangedAt, lookDeleted: s.Deleted.Field}
}

// pick checks one JSON line and finds its looked-at fields.
func (b *branch) pick(line []byte, f *fields) error {
	return jsonscan.Object(line, func(key, value []byte) error {
		n := b.below[string(key)]
		if n == nil {
			return nil
		}
		for _, slot := range n.slots {
			// Readers disagree on which of two equal keys counts, so such a record has no certain identity.
			if f.seen[slot] {
				return errors.New("the field " + strconv.Quote(string(key)) + " is there twice")
			}
			f.seen[slot] = true
			if jsonscan.Kind(value) != 'n' {
				f.raw[slot] = value
			}
		}
		if n.below != nil && jsonscan.Kind(value) == '{' {
			return n.pick(value, f)
		}
		return nil
	})
}

// event makes the event of one record.
func (s *Stream) event(f *fields, body []byte) connectors.Event {
	id, err := s.sourceID(f.raw[lookID])
	if err != nil {
		return connectors.Event{Body: body, Problem: err.Error()}
	}
	e := connectors.Event{SourceID: id, Body: body, Gone: s.gone(f.raw[lookDeleted])}
	if err := s.stamp(f, &e); err != nil {
		e.Problem = err.Error()
	}
	return e
}

func (s *Stream) sourceID(raw []byte) (string, error) {
	switch jsonscan.Kind(raw) {
	case '"', '0':
	case 0:
		return "", fmt.Errorf("no id: the field %q is not there or null", s.ID)
	default:
		return "", fmt.Errorf("no id: the field %q is neither a text nor a number", s.ID)
	}
	id, _ := jsonscan.Scalar(raw)
	switch {
	case id == "":
		return "", fmt.Errorf("no id: the field %q is empty", s.ID)
	case len(id) > maxID:
		return "", fmt.Errorf("no id: the field %q is longer than %d bytes", s.ID, maxID)
	}
	if problem := connectors.IDProblem(id); problem != "" {
		return "", fmt.Errorf("no id: the field %q %s", s.ID, problem)
	}
	return id, nil
}

// stamp fills the event's version and time.
func (s *Stream) stamp(f *fields, e *connectors.Event) error {
	version, err := text(f.raw[lookVersion], s.Version)
	switch {
	case err != nil:
		return err
	case version == "":
	case s.VersionAs == versionNumber:
		n, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return fmt.Errorf("the field %q is not a whole number of 64 bits", s.Version)
		}
		e.Version, e.Versioned = n, true
	default:
		if e.ChangedAt, err = parseStamp(version); err != nil {
			return fmt.Errorf("the field %q is %w; if it is a number, set version_as: number", s.Version, err)
		}
		e.Version, e.Versioned = e.ChangedAt.UnixMicro(), true
	}
	changed, err := text(f.raw[lookChanged], s.ChangedAt)
	if err != nil || changed == "" {
		return err
	}
	var at time.Time
	if at, err = parseStamp(changed); err != nil {
		return fmt.Errorf("the field %q is %w", s.ChangedAt, err)
	}
	e.ChangedAt = at
	return nil
}

func text(raw []byte, name string) (string, error) {
	if raw == nil {
		return "", nil
	}
	t, ok := jsonscan.Scalar(raw)
	if !ok {
		return "", fmt.Errorf("the field %q is neither a text nor a number", name)
	}
	return t, nil
}

func (s *Stream) gone(raw []byte) bool {
	v, ok := jsonscan.Scalar(raw)
	if !ok {
		return false
	}
	if s.Deleted.Value != "" {
		return v == s.Deleted.Value
	}
	return v != "" && v != "0" && v != "false"
}
