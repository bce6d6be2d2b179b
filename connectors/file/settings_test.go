package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"syncd/connectors"
	"syncd/internal/field"
)

// node makes a configuration tree of maps, lists and texts.
func node(v any) *field.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &field.Node{Kind: field.Mapping}
		for k, x := range v {
			n.Entries = append(n.Entries, field.Entry{Key: k, Value: node(x)})
		}
		return n
	case []any:
		n := &field.Node{Kind: field.Sequence}
		for _, x := range v {
			n.Items = append(n.Items, node(x))
		}
		return n
	}
	return &field.Node{Kind: field.Scalar, Text: v.(string)}
}

func problems(stream map[string]any) string {
	var all []string
	for _, p := range field.Bind(node(map[string]any{"dir": "in", "streams": map[string]any{"s": stream}}), &Settings{}, &field.Resolver{}) {
		all = append(all, strings.TrimPrefix(p.Path, "streams.s.")+": "+p.Msg)
	}
	return strings.Join(all, "\n")
}

func TestMistakesInTheConfigurationAreNamed(t *testing.T) {
	const path = "write a name or pattern inside dir, for example orders-*.jsonl"
	for name, c := range map[string]struct {
		change map[string]any
		want   string
	}{
		"none":            {nil, ""},
		"absolute":        {map[string]any{"path": "/etc/passwd"}, "path: not a path relative to dir; " + path},
		"climbing":        {map[string]any{"path": "../x.jsonl"}, "path: a path with .. leads out of dir; " + path},
		"climbing inside": {map[string]any{"path": "a/../../x"}, "path: a path with .. leads out of dir; " + path},
		"not plain":       {map[string]any{"path": "a//b"}, "path: not a plain path; " + path},
		"open bracket":    {map[string]any{"path": "a[b"}, "path: a pattern that cannot be read, perhaps a [ without its ]; " + path},
		"csv for jsonl":   {map[string]any{"csv": map[string]any{"delimiter": ";"}}, "csv: only for format csv; take it out"},
		"two delimiters":  {map[string]any{"format": "csv", "csv": map[string]any{"delimiter": ";;"}}, `csv.delimiter: not a delimiter; give one plain character such as ";", or tab`},
		"a letter":        {map[string]any{"format": "csv", "csv": map[string]any{"delimiter": "x"}}, "csv.delimiter: a letter, digit or quote cannot stand between values; use for example ;"},
		"both headers": {map[string]any{"format": "csv", "csv": map[string]any{"header": map[string]any{"a": "b"}, "no_header": []any{"a"}}},
			"csv.header: header gives columns of the file other names, no_header says that they have none; use one of them"},
		"column twice":    {map[string]any{"format": "csv", "csv": map[string]any{"no_header": []any{"a", "a"}}}, "csv.no_header: a column without a name, or two of one name; give each column a name of its own"},
		"version_as":      {map[string]any{"version_as": "number"}, "version_as: nothing to apply to without version; name the field, or take this out"},
		"deleted":         {map[string]any{"deleted": map[string]any{"value": "x"}}, "deleted: a value without a field; name the field"},
		"empty path part": {map[string]any{"id": "order..id"}, "id: a path with an empty part; write for example order.id"},
	} {
		t.Run(name, func(t *testing.T) {
			stream := map[string]any{"path": "orders.jsonl", "format": "jsonl", "id": "id"}
			for k, v := range c.change {
				stream[k] = v
			}
			if got := problems(stream); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestClientWithoutStreamsIsRefused(t *testing.T) {
	got := field.Bind(node(map[string]any{"dir": "in"}), &Settings{}, &field.Resolver{})
	if len(got) != 1 || !strings.Contains(got[0].Msg, "no stream; name at least one") {
		t.Errorf("got %v", got)
	}
}

func TestRelativeFolderStartsAtTheConfiguration(t *testing.T) {
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := (&Settings{Dir: "in"}).Open(t.Context(), connectors.Env{BaseDir: base, Gate: &gate{}})
	if err != nil {
		t.Fatal(err)
	}
	if f := in.Check(t.Context(), nil, nil); len(f) != 0 {
		t.Errorf("findings %+v", f)
	}
}

func TestCheckSaysWhatIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		path, format, file, content string
		problem, note               string
	}{
		"well":            {"*.jsonl", formatJSONL, "a.jsonl", lines(1, 3), "", "1 file; the newest is a.jsonl"},
		"not there":       {"a.jsonl", formatJSONL, "b.jsonl", "", "look at a.jsonl: no such file or directory", ""},
		"none matches":    {"a*.jsonl", formatJSONL, "b.jsonl", "", "", "no file matches a*.jsonl yet"},
		"no id":           {"a.jsonl", formatJSONL, "a.jsonl", `{"nr":1}` + "\n", `the first record of the newest file cannot be used: a.jsonl, line 1: no id: the field "id" is not there or null`, ""},
		"no column":       {"a.csv", formatCSV, "a.csv", "nr;x\n", `a.csv: there is no column "id" among its 1; look at delimiter, header and no_header`, ""},
		"a folder":        {"sub", formatCSV, "sub/a.csv", "", "sub is not a regular file", ""},
		"not JSON at all": {"a.jsonl", formatJSONL, "a.jsonl", "hello\n", "the first record of the newest file cannot be used: a.jsonl, line 1: not a JSON object: not an object at byte 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(s *Stream) { s.Path, s.Format = c.path, c.format })
			d.write(c.file, c.content)
			got := d.in.Check(t.Context(), []string{"s"}, nil)
			if len(got) != 1 || got[0].Subject != "s" || got[0].Problem != c.problem || got[0].Note != c.note {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("no folder", func(t *testing.T) {
		d := newDesk(t, func(*Stream) {})
		d.in.dir = filepath.Join(d.dir, "nowhere")
		got := d.in.Check(t.Context(), []string{"s"}, nil)
		if len(got) != 1 || !got[0].Unreachable || !strings.Contains(got[0].Problem, "nowhere cannot be opened: no such file or directory") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("unknown stream", func(t *testing.T) {
		d := newDesk(t, func(*Stream) {})
		if got := d.in.Check(t.Context(), []string{"other"}, nil); len(got) != 1 || got[0].Subject != "other" || got[0].Problem == "" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestFileMayStandBesideItsPattern(t *testing.T) {
	if c := Connector(); c.Name != "file" || c.Doc == "" || c.Settings() == nil || len(c.Settings().Entities()) != 0 {
		t.Errorf("connector %+v", c)
	}
}

func TestCheckNamesEveryFileThatIsPassedOver(t *testing.T) {
	d := newDesk(t, csvStream("*"))
	d.write("o.csv", "id\n1\n")
	for i := range maxPassed + 2 {
		if err := os.WriteFile(filepath.Join(d.dir, fmt.Sprintf("%d\xff", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fs := d.in.Check(t.Context(), []string{"s"}, nil)
	if len(fs) != maxPassed+1 || fs[0].Problem != `file "0\xff" is passed over: its name is not UTF-8 or longer than 512 bytes` || fs[maxPassed].Problem != "and 2 more" {
		t.Errorf("got %+v", fs)
	}
}
