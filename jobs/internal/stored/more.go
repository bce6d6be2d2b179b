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
}

type clientMore struct {
	ExpiryHeld *jobs.Standing `json:"expiry_held,omitempty"`
}

// FlowMore returns the stored form of what is rarely there of a flow.
func FlowMore(s *jobs.FlowState) (string, error) {
	return more("flow "+s.Flow, flowMore{standing(s.Suspended), standing(s.Full)})
}

// ReadFlowMore sets what is rarely there of a flow.
func ReadFlowMore(text string, s *jobs.FlowState) error {
	var m flowMore
	err := readMore("flow "+s.Flow, text, &m)
	s.Suspended, s.Full = stood(m.Suspended), stood(m.Full)
	return err
}

// ClientMore returns the stored form of what is rarely there of a client.
func ClientMore(c *jobs.ClientState) (string, error) {
	return more("client "+c.Client, clientMore{standing(c.ExpiryHeld)})
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
	for _, t := range []*time.Time{&s.Since, &s.Until} {
		if !t.IsZero() {
			*t = t.UTC().Truncate(time.Microsecond)
		}
	}
	return &s
}

func stood(s *jobs.Standing) jobs.Standing {
	if s == nil {
		return jobs.Standing{}
	}
	return *s
}
