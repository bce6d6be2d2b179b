package stored

import (
	"encoding/json"
	"fmt"
	"time"

	"syncd/jobs"
)

// What is rarely there stands in one column of its table, as JSON that names only
// what is: a new thing of this kind needs no migration. The text is "" for nothing.

type flowMore struct {
	Suspended *jobs.Standing `json:"suspended,omitempty"`
	Full      *jobs.Standing `json:"full,omitempty"`
	Restored  *jobs.Restored `json:"restored,omitempty"`
}

type clientMore struct {
	ExpiryHeld *jobs.Standing `json:"expiry_held,omitempty"`
}

// FlowMore returns the stored form of what is rarely there of a flow.
func FlowMore(s *jobs.FlowState) (string, error) {
	return more("flow "+s.Flow, flowMore{standing(s.Suspended), standing(s.Full), restored(s.Restored)})
}

// ReadFlowMore sets what is rarely there of a flow.
func ReadFlowMore(text string, s *jobs.FlowState) error {
	var m flowMore
	err := readMore("flow "+s.Flow, text, &m)
	s.Suspended, s.Full = stood(m.Suspended), stood(m.Full)
	if m.Restored != nil {
		s.Restored = *m.Restored
	}
	return err
}

// ClientMore returns the stored form of what is rarely there of a client.
func ClientMore(client string, expiryHeld jobs.Standing) (string, error) {
	return more("client "+client, clientMore{standing(expiryHeld)})
}

// ReadClientMore sets what is rarely there of a client.
func ReadClientMore(text string, c *jobs.ClientState) error {
	var m clientMore
	err := readMore("client "+c.Client, text, &m)
	c.ExpiryHeld = stood(m.ExpiryHeld)
	return err
}

func more(of string, v any) (string, error) {
	b, err := json.Marshal(v)
	switch {
	case err != nil:
		return "", fmt.Errorf("store what stands of %s: %w", of, err)
	case string(b) == "{}":
		return "", nil
	}
	return string(b), nil
}

func readMore(of, text string, v any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("read what stands of %s: %w", of, err)
	}
	return nil
}

// standing is nil for a state of affairs that is zero.
func standing(s jobs.Standing) *jobs.Standing {
	if s == (jobs.Standing{}) {
		return nil
	}
	s.Code, s.Message = Message(s.Code), Message(s.Message)
	micro(&s.Since, &s.Until)
	return &s
}

// restored is nil where the journal was never put back.
func restored(r jobs.Restored) *jobs.Restored {
	if r == (jobs.Restored{}) {
		return nil
	}
	micro(&r.At, &r.AsOf, &r.Caught)
	return &r
}

// micro brings times to what the journal can hold.
func micro(ts ...*time.Time) {
	for _, t := range ts {
		if !t.IsZero() {
			*t = t.UTC().Truncate(time.Microsecond)
		}
	}
}

func stood(s *jobs.Standing) jobs.Standing {
	if s == nil {
		return jobs.Standing{}
	}
	return *s
}
