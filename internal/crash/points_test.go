package crash

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEachPointIsNamedOnceAndSaysWhatItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Points() {
		if seen[p.Name] {
			t.Errorf("point %s is there twice", p.Name)
		}
		seen[p.Name] = true
		if p.What == "" || strings.Count(p.Name, ".") != 1 {
			t.Errorf("point %q says %q", p.Name, p.What)
		}
	}
}

// unnamed are verbs of the journal that no run of some minutes passes, or whose loss the ledgers of test/torture could not tell from what
// was asked for.
var unnamed = []string{"PageGivenUp", "RecoverOwn", "PostponeRequest", "DropRequest", "Probe", "Secret",
	"Moved", "SameFile", "CancelCopy", "AfterHold", "AfterSuspension", "Bury", "ProbeNow", "ResumeExpiry"}

func TestEachVerbThatCommitsHasItsPoints(t *testing.T) {
	writing := committing(t, "../../jobs")
	if len(writing) < 10 {
		t.Fatalf("only %d verbs that commit were found: %v", len(writing), writing)
	}
	for _, v := range writing {
		if kindOf(v) == "" && !slices.Contains(unnamed, v) {
			t.Errorf("jobs.Journal.%s commits, and no crash point is named after it: add it to transactions, or say in unnamed why it needs none", v)
		}
	}
	for _, tr := range transactions {
		for _, v := range tr.verbs {
			if !slices.Contains(writing, v) {
				t.Errorf("the points of %s are named after jobs.Journal.%s, which does not commit", tr.kind, v)
			}
		}
	}
}

// committing lists the exported methods of jobs.Journal that call Update of the engine, directly or through a method.
func committing(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{} // of each method: the methods of Journal that it calls, and "Update"
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Body == nil || receiver(fn) != "Journal" {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok {
					if s, ok := c.Fun.(*ast.SelectorExpr); ok {
						calls[fn.Name.Name] = append(calls[fn.Name.Name], s.Sel.Name)
					}
				}
				return true
			})
		}
	}
	var reaches func(name string, seen map[string]bool) bool
	reaches = func(name string, seen map[string]bool) bool {
		if seen[name] {
			return false
		}
		seen[name] = true
		for _, c := range calls[name] {
			if c == "Update" || calls[c] != nil && reaches(c, seen) {
				return true
			}
		}
		return false
	}
	var out []string
	for name := range calls {
		if ast.IsExported(name) && reaches(name, map[string]bool{}) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func receiver(fn *ast.FuncDecl) string {
	star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return ""
	}
	id, _ := star.X.(*ast.Ident)
	if id == nil {
		return ""
	}
	return id.Name
}
