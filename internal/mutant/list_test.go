package mutant

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestEachMutantSaysWhatItBreaksAndWhatNotices(t *testing.T) {
	var broken []string
	seen := map[string]bool{}
	for _, m := range All() {
		if seen[m.Name] || m.What == "" || len(m.Breaks) == 0 || m.Package == "" || m.Test == "" || m.Says == "" && m.Package != simulation {
			t.Errorf("mutant %+v", m)
		}
		seen[m.Name] = true
		broken = append(broken, m.Breaks...)
	}
	for n := 1; n <= 13; n++ {
		if i := fmt.Sprint("I", n); !slices.Contains(broken, i) {
			t.Errorf("no mutant breaks %s", i)
		}
	}
}

func TestTheCodeAsksForEachMutantOfTheListAndNoOther(t *testing.T) {
	asked := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata" || d.Name() == "mutant"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := c.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "On" || fmt.Sprint(s.X) != "mutant" {
				return true
			}
			l, ok := c.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: the name of a mutant is to be written out", path)
				return true
			}
			name, _ := strconv.Unquote(l.Value) // it was parsed
			asked[name] = true
			if !slices.ContainsFunc(All(), func(m Mutant) bool { return m.Name == name }) {
				t.Errorf("%s: there is no mutant %s in the list", path, name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range All() {
		if !asked[m.Name] {
			t.Errorf("no code asks for %s", m.Name)
		}
	}
}
