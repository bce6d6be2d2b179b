package stored

import (
	"encoding/json"
	"fmt"

	"syncd/jobs"
)

type lane struct {
	Client string `json:"client"`
	Shard  int    `json:"shard,omitempty"`
}

// Lanes returns lanes as a JSON array.
func Lanes(ls []jobs.LaneID) (string, error) {
	list := make([]lane, len(ls))
	for i, l := range ls {
		list[i] = lane{ID(l.Client), l.Shard}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("store a list of lanes: %w", err)
	}
	return string(b), nil
}

// ParseLanes returns the lanes of a stored list; nil for an empty one.
func ParseLanes(text string) ([]jobs.LaneID, error) {
	var list []lane
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read a stored list of lanes: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	var in ReadIDs
	ls := make([]jobs.LaneID, len(list))
	for i, l := range list {
		ls[i] = jobs.LaneID{Client: in.ID(l.Client), Shard: l.Shard}
	}
	return ls, in.Err
}
