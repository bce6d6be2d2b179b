package stored

import (
	"encoding/json"
	"fmt"
)

// Keys returns keys as a JSON array of their stored forms.
func Keys(keys []string) string {
	if len(keys) == 0 {
		return "[]"
	}
	b, err := json.Marshal(IDs(keys))
	if err != nil {
		// Strings that are UTF-8 have a JSON form.
		panic("store a list of keys: " + err.Error())
	}
	return string(b)
}

// ParseKeys returns the keys of a stored list; nil for an empty one.
func ParseKeys(text string) ([]string, error) {
	var keys []string
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		return nil, fmt.Errorf("read a stored list of keys: %w", err)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	var in ReadIDs
	for i := range keys {
		keys[i] = in.ID(keys[i])
	}
	return keys, in.Err
}
