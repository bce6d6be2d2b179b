package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"syncd/internal/field"
	"syncd/mapping"
)

// program reads and compiles the flow's jq programs, so that a mistake in one is shown at its own line.
func (c checker) program(f *Flow, r *field.Report) {
	if f.MapFile != "" && !r.Failed("map_file") {
		name := f.MapFile
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.Dir, name)
		}
		text, err := readFile(name)
		if err != nil {
			r.At("map_file").Errorf("%v", err)
			return
		}
		f.Map = field.NewText(text, field.Pos{File: name, Line: 1, Col: 1})
	}
	if f.Map.Empty() || f.Key.Empty() {
		return
	}
	_, err := mapping.Compile(mapping.Source{Map: f.Map.Value, Key: f.Key.Value, Vars: f.Vars})
	if err == nil {
		return
	}
	var ce *mapping.CompileError
	if !errors.As(err, &ce) {
		r.Errorf("%v", err)
		return
	}
	msg := ce.Msg
	if ce.Hint != "" {
		msg += "; " + ce.Hint
	}
	switch {
	case ce.Field == "key":
		r.At("key").AtPos(f.Key.At(ce.Line, ce.Col)).Errorf("%s", msg)
	case ce.Field == "map" && f.MapFile != "":
		r.At("map_file").AtPos(f.Map.At(ce.Line, ce.Col)).Errorf("%s", msg)
	case ce.Field == "map":
		r.At("map").AtPos(f.Map.At(ce.Line, ce.Col)).Errorf("%s", msg)
	default:
		r.At(ce.Field).Errorf("%s", msg)
	}
}

// readFile reads a file of bounded size.
func readFile(name string) (string, error) {
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot read the file: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read the file: %w", err)
	case len(data) > maxFile:
		return "", fmt.Errorf("the file %s is larger than 1 MiB", name)
	}
	return string(data), nil
}
