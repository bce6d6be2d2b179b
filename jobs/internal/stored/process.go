package stored

import (
	"encoding/json"
	"fmt"

	"syncd/jobs"
)

// Process returns the stored form of a process, as JSON.
func Process(p jobs.Process) (string, error) {
	p.Host, p.BootID, p.PIDSpace = Message(p.Host), Message(p.BootID), Message(p.PIDSpace)
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("store a process: %w", err)
	}
	return string(b), nil
}

// ParseProcess returns the process of a stored form.
func ParseProcess(text string) (p jobs.Process, err error) {
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("read a stored process: %w", err)
	}
	return p, nil
}
