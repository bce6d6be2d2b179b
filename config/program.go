package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"syncd/internal/field"
	"syncd/mapping"
)

// program reads and compiles the flow's jq programs, so that a mistake in one is shown at its own line.
func (c checker) program(f *Flow, r *field.Report) {
	if r.Given("key") && !r.Failed("key") {
		// Compile stops at the first mistake, so each program is compiled beside one without.
		compile(mapping.Source{Map: ".", Key: f.Key.Value, Vars: f.Vars}, f.Key, r.At("key"))
	}
	if r.Given("group") && !r.Failed("group") {
		compile(mapping.Source{Map: ".", Key: ".", Group: f.Group.Value, Vars: f.Vars}, f.Group, r.At("group"))
	}
	switch {
	case r.Given("map_file") && !r.Failed("map_file"):
		c.mapFile(f, r.At("map_file"))
		c.refs(f, r.At("map_file"))
	case r.Given("map") && !r.Failed("map"):
		compile(mapping.Source{Map: f.Map.Value, Key: ".", Vars: f.Vars}, f.Map, r.At("map"))
		c.refs(f, r.At("map"))
	}
}

func (c checker) mapFile(f *Flow, r *field.Report) {
	name := f.MapFile
	if !filepath.IsAbs(name) {
		name = filepath.Join(c.Dir, name)
	}
	text, err := readFile(name)
	switch {
	case err != nil:
		r.Errorf("%v", err)
	case !utf8.ValidString(text):
		r.Errorf("the file %s is not UTF-8; save it as UTF-8", name)
	default:
		f.Map = field.NewText(text, field.Pos{File: name, Line: 1, Col: 1})
		compile(mapping.Source{Map: text, Key: ".", Vars: f.Vars}, f.Map, r)
	}
}

// compile reports what is wrong with the program text of src.
func compile(src mapping.Source, text field.Text, r *field.Report) {
	_, err := mapping.Compile(src)
	var ce *mapping.CompileError
	switch {
	case err == nil:
	case !errors.As(err, &ce):
		r.Errorf("%v", err)
	case ce.Hint == "":
		r.AtPos(text.At(ce.Line, ce.Col)).Errorf("%s", ce.Msg)
	default:
		r.AtPos(text.At(ce.Line, ce.Col)).Errorf("%s; %s", ce.Msg, ce.Hint)
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
