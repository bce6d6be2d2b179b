package stored

import (
	"encoding/json"
	"fmt"

	"syncd/jobs"
)

// claimedJob is a claim's job as it is stored; the names are short because a
// claim repeats them for each job.
type claimedJob struct {
	Flow       string `json:"f"`
	Key        string `json:"k"`
	Generation int64  `json:"g"`
	Attempt    int64  `json:"a"`
	Hash       []byte `json:"h,omitempty"`
	Gone       bool   `json:"x,omitempty"`
}

// ClaimedJobs returns the stored form of what a claim names.
func ClaimedJobs(js []jobs.ClaimedJob) ([]byte, error) {
	list := make([]claimedJob, len(js))
	for i, j := range js {
		list[i] = claimedJob{ID(j.Flow), ID(j.Key), j.Generation, j.Attempt, j.Hash, j.Gone}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("store what a claim names: %w", err)
	}
	var p Packer
	packed, err := p.Pack(text)
	if err != nil {
		return nil, fmt.Errorf("store what a claim names: %w", err)
	}
	return packed, nil
}

// ParseClaimedJobs returns what a claim names.
func ParseClaimedJobs(packed []byte) ([]jobs.ClaimedJob, error) {
	text, err := Unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("read what a claim names: %w", err)
	}
	var list []claimedJob
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read what a claim names: %w", err)
	}
	js := make([]jobs.ClaimedJob, len(list))
	for i, c := range list {
		var in ReadIDs
		js[i] = jobs.ClaimedJob{RowID: jobs.RowID{Flow: in.ID(c.Flow), Key: in.ID(c.Key)},
			Generation: c.Generation, Attempt: c.Attempt, Hash: c.Hash, Gone: c.Gone}
		if in.Err != nil {
			return nil, fmt.Errorf("read what a claim names: %w", in.Err)
		}
	}
	return js, nil
}

// ReadIDs reads the ids of one row and keeps the first error.
type ReadIDs struct{ Err error }

// ID returns the id of a stored form; "" after an error.
func (r *ReadIDs) ID(s string) string {
	id, err := ParseID(s)
	if err != nil && r.Err == nil {
		r.Err = err
	}
	return id
}
