package field

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearestNameIsFound(t *testing.T) {
	known := []string{"max_attempts", "max_delay", "initial_delay", "jitter", "timeout", "a"}
	for _, c := range []struct{ name, want string }{
		{"max_atempts", "max_attempts"},
		{"max-attempts", "max_attempts"},
		{"MAX_DELAY", "max_delay"},
		{"timoeut", "timeout"},
		{"jiter", "jitter"},
		{"maxdelays", "max_delay"},
		{"b", ""},
		{"zzz", ""},
		{"completely_else", ""},
		{"", ""},
		{strings.Repeat("x", 10_000), ""},
	} {
		if got := Nearest(c.name, known); got != c.want {
			t.Errorf("nearest to %.20q is %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDistanceIsAMetricOfSmallEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.StringOfN(rapid.RuneFrom([]rune("abé_")), 0, 12, -1).Draw(t, "a")
		b := rapid.StringOfN(rapid.RuneFrom([]rune("abé_")), 0, 12, -1).Draw(t, "b")
		d := distance(a, b)
		if (d == 0) != (a == b) || d != distance(b, a) {
			t.Fatalf("distance(%q, %q) = %d, back %d", a, b, d, distance(b, a))
		}
		x := []rune(a)
		i := rapid.IntRange(0, len(x)).Draw(t, "i")
		if got := distance(a, string(slices.Insert(slices.Clone(x), i, 'z'))); got != 1 {
			t.Fatalf("one inserted letter is %d away", got)
		}
	})
}

func TestAPlaceInATextOfItsOwnFile(t *testing.T) {
	text := NewText("a\nbé cd\n\nx", Pos{File: "m.jq", Line: 1, Col: 1})
	for _, c := range []struct {
		name           string
		line, col      int
		wantLine, want int
	}{
		{"beginning", 1, 1, 1, 1},
		{"after an accent", 2, 4, 2, 4},
		{"end of a line", 2, 6, 2, 6},
		{"beyond the end of a line", 2, 60, 2, 6},
		{"empty line", 3, 1, 3, 1},
		{"last line", 4, 1, 4, 1},
		{"before the beginning", 0, 0, 1, 1},
		{"beyond the last line", 99, 1, 4, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := text.At(c.line, c.col)
			if got.Col != c.want || got.Line != c.wantLine {
				t.Errorf("at %v, want %d:%d", got, c.wantLine, c.want)
			}
		})
	}
}

func TestPlacesWithoutLinesComeLast(t *testing.T) {
	ps := []Pos{{File: "environment SYNCD_B"}, {File: "a", Line: 2, Col: 1}, {File: "environment SYNCD_A"}, {File: "a", Line: 1, Col: 9}, {File: "a", Line: 1, Col: 2}}
	slices.SortFunc(ps, func(a, b Pos) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	want := "a:1:2 a:1:9 a:2:1 environment SYNCD_A environment SYNCD_B"
	var got []string
	for _, p := range ps {
		got = append(got, p.String())
	}
	if strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestPathsQuoteNamesThatHoldDots(t *testing.T) {
	if got := PathString([]string{"clients", "shop.example.com", "list", "[2]", "", "url"}); got != `clients."shop.example.com".list[2]."".url` {
		t.Error(got)
	}
}

func TestVariablesFindTheirFields(t1 *testing.T) {
	tree := m("kind", t("special"), "named", m("one", m(), "two", m()), "labels", m("Key", t("v"), "a.b", t("v"), "a_b", t("v"), "deep__name", t("v")))
	for _, c := range []struct{ name, variable, want string }{
		{"field", "NAME", "name"},
		{"small letters", "name", "name"},
		{"field of a mapping", "INNER__MODE", "inner.mode"},
		{"field of a known entry", "NAMED__TWO__MIN", "named.two.min"},
		{"field of a new entry", "NAMED__THREE__MIN", "named.three.min"},
		{"field of a variant", "DEPTH", "depth"},
		{"known name in its own letters", "LABELS__KEY", "labels.Key"},
		{"new name", "LABELS__NEW", "labels.new"},
		{"name that itself holds two underscores", "LABELS__DEEP__NAME", "labels.deep__name"},
		{"two names that look alike", "LABELS__A_B", `could mean labels."a.b" or labels.a_b; give the value in the file`},
		{"mapping itself", "INNER", "inner is a mapping; add two underscores and the name of one of its keys"},
		{"entry itself", "NAMED__ONE", "named.one is a mapping; add two underscores and the name of one of its keys"},
		{"list of mappings", "LISTED", "listed cannot be given by the environment; give it in the file"},
		{"any value", "EXTRA", "extra cannot be given by the environment; give it in the file"},
		{"below any value", "EXTRA__A", "extra cannot be given by the environment; give it in the file"},
		{"unknown field", "NAMES", ""},
		{"unknown field of a mapping", "INNER__MODES", ""},
		{"below a scalar", "NAME__X", ""},
		{"empty level", "INNER____MODE", ""},
		{"nothing", "", ""},
	} {
		t1.Run(c.name, func(t1 *testing.T) {
			path, err := Locate(&sample{}, tree, c.variable)
			got := PathString(path)
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t1.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestEveryListedVariableNameFindsAField(t1 *testing.T) {
	tree := m("kind", t("special"), "named", m("one", m()))
	names := EnvNames(&sample{}, tree)
	for _, want := range []string{"NAME", "INNER__MODE", "NAMED__ONE__MAX", "DEPTH"} {
		if !slices.Contains(names, want) {
			t1.Errorf("%s is missing in %v", want, names)
		}
	}
	for _, n := range names {
		if n == "LABELS" {
			continue // stands for its entries
		}
		if path, err := Locate(&sample{}, tree, n); err != nil || path == nil {
			t1.Errorf("%s: %v, %v", n, path, err)
		}
	}
}

func TestReportsKnowWhatWasGivenAndWhatFailed(t1 *testing.T) {
	tree := m("a", m("b", t("1")), "l", l(t("x")))
	r := &Report{at: place{node: tree}, list: newProblems()}
	if !r.Given("a", "b") || r.Given("a", "c") || r.Given("z", "y") || !r.Given("l", "[0]") || r.Given("l", "[1]") {
		t1.Error("given is wrong")
	}
	r.At("a", "b").Errorf("bad")
	if !r.Failed("a", "b") || !r.Failed("a") || !r.Failed() || r.Failed("l") || r.Failed("a", "b", "c") {
		t1.Error("failed is wrong")
	}
}

func TestSizesAndDurationsAreReadInFull(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"0", 0}, {"1ns", 1}, {"1us", 1000}, {"1µs", 1000}, {"1.5ms", 1_500_000}, {"1d", 86_400_000_000_000}, {"1d1h1m1s", 90_061_000_000_000}, {"106751d", 106751 * 86_400_000_000_000},
	} {
		if got, err := ParseDuration(c.text); err != nil || int64(got) != c.want {
			t.Errorf("%s is %d, %v; want %d", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "d", "1", "1.5d", "1h1d", "106752d", "106751d24h", "+1s", "-0", "1S", " 1s", "1s ", "1e3s", "٣s"} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
	for _, c := range []struct {
		text string
		want int64
	}{{"0", 0}, {"1B", 1}, {"1kB", 1000}, {"1 KiB", 1024}, {"8388607TiB", 8388607 << 40}} {
		if got, err := ParseSize(c.text); err != nil || got != c.want {
			t.Errorf("%s is %d, %v; want %d", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "B", "1", "-1B", "1.5MiB", "1kb", "8388608TiB", "1  B", "1B "} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("%q was read as %d", bad, got)
		}
	}
}
