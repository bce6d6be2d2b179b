package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/ratelimit"
)

func TestPagesLeadThroughAFileAndEnd(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.limit = 3
	d.write("orders.jsonl", lines(1, 8))
	for i, want := range []string{ids(1, 3), ids(4, 6), ids(7, 8)} {
		p := d.pull()
		var got []string
		for _, e := range p.Events {
			got = append(got, brief(e))
		}
		d.want(strings.Join(got, " | "), want)
		if p.More != (i < 2) {
			t.Errorf("page %d: more = %v", i, p.More)
		}
	}
	d.want(d.round(), "")
}

func TestGrowthIsReadOnFromWhereItStopped(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.write("orders.jsonl", lines(1, 2))
	d.want(d.round(), ids(1, 2))
	d.add("orders.jsonl", lines(3, 4))
	d.want(d.round(), ids(3, 4))
	d.restart(nil)
	d.want(d.round(), "")
	d.add("orders.jsonl", lines(5, 5)+"{broken\n")
	d.want(d.round(), "5 | !orders.jsonl, line 6: not a JSON object: expected a key at byte 1")
}

func TestEveryPageIsFoundAgainAfterARestart(t *testing.T) {
	d := newDesk(t, func(s *Stream) { s.Path = "*.jsonl" })
	d.limit = 2
	d.write("a.jsonl", lines(1, 3))
	d.write("b.jsonl", lines(4, 4))
	d.write("c.jsonl", "")
	d.write("d.jsonl", lines(5, 9))
	var got []string
	for more := true; more; d.restart(nil) {
		p := d.pull()
		for _, e := range p.Events {
			got = append(got, brief(e))
		}
		more = p.More
	}
	d.want(strings.Join(got, " | "), ids(1, 9))
	d.want(d.round(), "")
}

func TestSamePageIsReadAgainWhenItWasNotStored(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.limit = 2
	d.write("orders.jsonl", lines(1, 6))
	d.pull()
	before := d.cursor
	first := d.pull()
	d.cursor = before
	again := d.pull()
	if len(again.Events) != 2 || again.Events[0].SourceID != first.Events[0].SourceID || string(again.Next) != string(first.Next) {
		t.Errorf("first %v, again %v", first.Events, again.Events)
	}
	d.want(d.round(), ids(5, 6))
}

func TestFilesAreReadInTheOrderOfTheirNames(t *testing.T) {
	d := newDesk(t, func(s *Stream) { s.Path = "in/orders-*.jsonl" })
	d.write("in/orders-2.jsonl", lines(3, 4))
	d.write("in/orders-1.jsonl", lines(1, 2))
	d.write("in/.orders-0.jsonl", lines(98, 98))
	d.write("in/other.jsonl", lines(99, 99))
	d.want(d.round(), ids(1, 4))
	d.write("in/orders-0.jsonl", lines(5, 5)) // later, although its name comes first
	d.add("in/orders-1.jsonl", lines(6, 6))
	d.want(d.round(), ids(5, 6))
}

func TestReplacedFileIsReadFromItsBeginning(t *testing.T) {
	long := lines(1, 2000) // longer than the beginning that is remembered
	for name, change := range map[string]func(d *desk){
		"moved into place":             func(d *desk) { d.replace("orders.jsonl", long+lines(2001, 2001)) },
		"written anew in place":        func(d *desk) { d.write("orders.jsonl", "{\"id\":0}\n"+long) },
		"shorter":                      func(d *desk) { d.write("orders.jsonl", lines(1, 1)) },
		"cut in half":                  func(d *desk) { d.write("orders.jsonl", lines(1, 1000)) },
		"same length, moved":           func(d *desk) { d.replace("orders.jsonl", long) },
		"same length, in place":        func(d *desk) { d.write("orders.jsonl", strings.Replace(long, "{\"id\":1999}", "{\"id\":7777}", 1)) },
		"emptied":                      func(d *desk) { d.write("orders.jsonl", "") },
		"gone and back in between":     func(d *desk) { d.gone("orders.jsonl"); d.write("orders.jsonl", long) },
		"emptied and grown beyond it":  func(d *desk) { d.write("orders.jsonl", ""); d.round(); d.add("orders.jsonl", lines(5000, 9000)) },
		"in place, same first records": func(d *desk) { d.write("orders.jsonl", lines(1, 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(*Stream) {})
			d.limit = 1000
			d.write("orders.jsonl", long)
			d.want(d.round(), ids(1, 2000))
			change(d)
			content, err := os.ReadFile(filepath.Join(d.dir, "orders.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.SplitSeq(strings.TrimSpace(string(content)), "\n") {
				if line != "" {
					want = append(want, strings.Trim(line, `{"id:}`))
				}
			}
			d.want(d.round(), strings.Join(want, " | "))
			d.want(d.round(), "")
		})
	}
}

func (d *desk) gone(name string) {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
		d.t.Fatal(err)
	}
}

func TestFileReplacedBetweenTwoPagesIsReadAgain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			d := newDesk(t, func(*Stream) {})
			d.limit = 2
			d.write("orders.jsonl", lines(1, 4))
			d.pull()
			d.replace("orders.jsonl", lines(11, 16))
			if restart {
				d.restart(nil)
			}
			got := d.round() + " | " + d.round()
			for i := 11; i <= 16; i++ {
				if !strings.Contains(got, fmt.Sprint(i)) {
					t.Errorf("%d is missing from %s", i, got)
				}
			}
		})
	}
}

func TestFileCutWhileItIsReadIsReadAgain(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.limit = 100_000
	d.write("orders.jsonl", lines(1, 200_000)) // several slabs
	d.pull()
	d.write("orders.jsonl", lines(500_001, 500_003))
	got := d.round() + " | " + d.round()
	if !strings.HasSuffix(got, ids(500_001, 500_003)) {
		t.Errorf("got …%s", got[max(0, len(got)-100):])
	}
}

func TestLastLineWaitsUntilItIsWhole(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.write("orders.jsonl", "{\"id\":1}\n{\"id\":2")
	d.want(d.round(), "1")
	d.want(d.round(), "")
	d.add("orders.jsonl", "3")
	d.want(d.round(), "")
	d.add("orders.jsonl", "}")
	d.want(d.round(), "23") // a whole object cannot become another one
	d.add("orders.jsonl", "\n{\"id\":3}\n")
	d.want(d.round(), "3")
}

func TestLastCSVLineWaitsForItsLineEnd(t *testing.T) {
	d := newDesk(t, csvStream("o.csv"))
	d.write("o.csv", "id,price\n1,10.00\n2,12")
	d.want(d.round(), "1")
	d.add("o.csv", ".50")
	d.want(d.round(), "")
	d.add("o.csv", "\n")
	p := d.pull()
	if len(p.Events) != 1 || string(p.Events[0].Body) != `{"id":"2","price":"12.50"}` {
		t.Errorf("got %+v", p.Events)
	}
}

func TestLastCSVLineThatLooksLikeJSONWaits(t *testing.T) {
	d := newDesk(t, csvStream("o.csv"))
	d.write("o.csv", "id\n1\n2")
	d.want(d.round(), "1")
	d.add("o.csv", "3\n")
	d.want(d.round(), "23")
}

func TestLineThatNeverEndsIsMentionedOnce(t *testing.T) {
	d := newDesk(t, csvStream("o.csv"))
	d.write("o.csv", "id,price\n1,10.00\n2,12.50")
	d.round()
	if len(d.notes) != 0 {
		t.Errorf("noted too early: %q", d.notes)
	}
	d.now = d.now.Add(2 * time.Minute)
	for range 3 {
		d.want(d.round(), "")
	}
	if len(d.notes) != 1 || d.notes[0] != "file o.csv ends within a line, which waits for its line end; set complete: true if such files are finished" {
		t.Errorf("notes %q", d.notes)
	}
}

func TestLastLineOfACompleteFileIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		set           func(*Stream)
		content, want string
	}{
		"CSV":        {csvStream("o"), "id,price\r\n1,10.00\r\n2,12.50", "1 | 2"},
		"JSON":       {func(s *Stream) { s.Path = "o" }, "{\"id\":1}\n{\"id\":2}", "1 | 2"},
		"half JSON":  {func(s *Stream) { s.Path = "o" }, "{\"id\":1}\n{\"id\":2", "1 | !o, line 2: not a JSON object: expected a comma or the end of the object at byte 7"},
		"header":     {csvStream("o"), "id,price", ""},
		"open quote": {csvStream("o"), "id,x\n1,\"a\n2,b\n3,c", "?open_quote: o, line 2, column 3: a quote opens a value here which does not end; nothing from this record on is read until the file is mended: take the quote out, or double it inside a quoted value"},
		"empty":      {csvStream("o"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(s *Stream) { c.set(s); s.Complete = true })
			d.write("o", c.content)
			d.want(d.round(), c.want)
			if !strings.HasPrefix(c.want, "?") { // a file that cannot be read goes on failing
				c.want = ""
			}
			d.want(d.round(), c.want)
		})
	}
}

func TestStartReadsOnlyWhatChangedSince(t *testing.T) {
	d := newDesk(t, func(s *Stream) { s.Path, s.ChangedAt = "*.jsonl", "at" })
	d.write("a-old.jsonl", lines(1, 3)+`{"id":4`)
	d.now = d.now.Add(time.Hour)
	d.start = connectors.Start{From: d.now}
	d.write("b-new.jsonl", "{\"id\":5}\n{\"id\":6,\"at\":\"2026-11-29T10:59:00Z\"}\n{\"id\":7,\"at\":\"2026-11-29T11:59:00Z\"}\n")
	d.want(d.round(), "5 | 7")
	d.start = connectors.Start{}
	d.add("a-old.jsonl", "44}\n{\"id\":8,\"at\":\"2026-11-29T10:59:00Z\"}\n{\"id\":9}\n{oops\n")
	d.want(d.round(), "444 | 9 | !a-old.jsonl, byte 84: not a JSON object: expected a key at byte 1")
}

func TestPauseLetsNothingBeRead(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.write("orders.jsonl", lines(1, 1))
	d.gate.shut = &ratelimit.PausedError{Client: "c", Pause: ratelimit.Pause{Until: day.Add(time.Hour), Reason: "manual"}}
	_, err := d.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: d.start, Limit: 1})
	var e *connectors.Error
	if !errors.As(err, &e) || e.Class != connectors.Paused {
		t.Errorf("err = %v", err)
	}
}

func TestEndedContextStopsThePage(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.in.Pull(ctx, connectors.PullRequest{Stream: "s", Start: d.start, Limit: 1})
	var e *connectors.Error
	if !errors.As(err, &e) || e.Class != connectors.Transient || !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestNothingOutsideTheFolderIsRead(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret.jsonl"), []byte(lines(1, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"absolute link": filepath.Join(outside, "secret.jsonl"), "climbing link": "../" + filepath.Base(outside) + "/secret.jsonl"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(s *Stream) { s.Path = "*.jsonl" })
			d.write("good.jsonl", lines(5, 5))
			if err := os.Symlink(target, filepath.Join(d.dir, "evil.jsonl")); err != nil {
				t.Fatal(err)
			}
			d.want(d.round(), "5")
			if len(d.notes) != 1 || !strings.Contains(d.notes[0], "evil.jsonl is passed over") {
				t.Errorf("notes %q", d.notes)
			}
		})
	}
	t.Run("link put in place after the look", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink(filepath.Join(outside, "secret.jsonl"), filepath.Join(dir, "evil.jsonl")); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = root.Close() }()
		if f, err := open(root, "evil.jsonl"); err == nil {
			_ = f.Close()
			t.Error("opened")
		}
	})
	t.Run("link inside", func(t *testing.T) {
		d := newDesk(t, func(s *Stream) { s.Path = "current.jsonl" })
		d.write("2026.jsonl", lines(5, 6))
		if err := os.Symlink("2026.jsonl", filepath.Join(d.dir, "current.jsonl")); err != nil {
			t.Fatal(err)
		}
		d.want(d.round(), ids(5, 6))
	})
	t.Run("named pipe", func(t *testing.T) {
		d := newDesk(t, func(s *Stream) { s.Path = "*.jsonl" })
		if err := syscall.Mkfifo(filepath.Join(d.dir, "pipe.jsonl"), 0o644); err != nil {
			t.Fatal(err)
		}
		d.want(d.round(), "")
	})
}

func TestMissingFileFailsVisiblyAndMissingMatchesDoNot(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	_, err := d.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: d.start, Limit: 1})
	if err == nil || err.Error() != "read stream s: transient (not_found): look at orders.jsonl: no such file or directory" {
		t.Errorf("err = %v", err)
	}
	d = newDesk(t, func(s *Stream) { s.Path = "*.jsonl" })
	d.want(d.round(), "")
}

func TestCursorStaysSmallWithManyFiles(t *testing.T) {
	d := newDesk(t, func(s *Stream) { s.Path = "orders-*.jsonl" })
	d.limit = 1000
	for i := range 3000 {
		d.write(fmt.Sprintf("orders-%05d.jsonl", i), lines(i, i))
	}
	if got := strings.Count(d.round(), "|") + 1; got != 3000 {
		t.Errorf("%d records", got)
	}
	d.restart(nil)
	d.want(d.round(), "")
	d.write("orders-00000.jsonl", lines(7, 8)) // one that was long done
	d.want(d.round(), ids(7, 8))
	for i := 1; i < 2990; i++ {
		d.gone(fmt.Sprintf("orders-%05d.jsonl", i))
	}
	d.want(d.round(), "")
	if m, err := readCursor(d.cursor); err != nil || len(m.states)+len(m.done) != 11 {
		t.Errorf("%d files are remembered, 11 are there (%v)", len(m.states)+len(m.done), err)
	}
}

func TestTooManyFilesAreRefused(t *testing.T) {
	d := newDesk(t, func(s *Stream) { s.Path = "*.jsonl" })
	for i := range maxFiles + 1 {
		d.write(fmt.Sprintf("%d.jsonl", i), "")
	}
	_, err := d.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: d.start, Limit: 1})
	if want := "read stream s: invalid (too_many_files): 4001 files match *.jsonl and at most 4000 can be looked after; move away those that are done, or split the stream by narrower patterns"; err == nil || err.Error() != want {
		t.Errorf("err = %v", err)
	}
}

func TestForeignCursorIsRefused(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.write("orders.jsonl", lines(1, 1))
	for name, cursor := range map[string]string{"other shape": `[1]`, "later version": `{"v":2}`, "bad list": `{"v":1,"done":"x"}`} {
		t.Run(name, func(t *testing.T) {
			_, err := d.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Cursor: []byte(cursor), Limit: 1})
			var e *connectors.Error
			if !errors.As(err, &e) || e.Class != connectors.Invalid || e.Code != "cursor" {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestPageIsBoundedInBytes(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.limit = 1000
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "{\"id\":%d,\"x\":\"%s\"}\n", i, strings.Repeat("x", 1<<20))
	}
	d.write("orders.jsonl", b.String())
	p := d.pull()
	if len(p.Events) != 8 || !p.More {
		t.Errorf("%d events, more %v", len(p.Events), p.More)
	}
	if got := strings.Count(d.round(), "|") + 1; got != 22 {
		t.Errorf("%d records follow", got)
	}
}

func TestLineThatIsTooLongIsPassedOver(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.write("orders.jsonl", "{\"id\":1}\n{\"id\":2,\"x\":\""+strings.Repeat("x", 17<<20))
	d.want(d.round(), "1 | !orders.jsonl, line 2: longer than 16 MiB")
	d.add("orders.jsonl", strings.Repeat("x", 3<<20))
	d.restart(nil)
	d.want(d.round(), "")
	d.add("orders.jsonl", "\"}\n{\"id\":3}\n{oops\n")
	d.want(d.round(), "3 | !orders.jsonl, line 4: not a JSON object: expected a key at byte 1")
	d.replace("orders.jsonl", "{\"id\":4,\"x\":\""+strings.Repeat("x", 15<<20)+"\"}\n")
	d.want(d.round(), "4")
}

func TestTwoFlowsReadOneStreamIndependently(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.limit = 2
	d.write("orders.jsonl", lines(1, 6))
	a, b := d.pull().Next, d.cursor
	d.cursor = a
	gotA := d.round()
	d.cursor = b
	d.want(gotA, ids(3, 6))
	d.want(d.round(), ids(3, 6))
}

func TestNothingStaysOpen(t *testing.T) {
	d := newDesk(t, func(s *Stream) { s.Path = "*.jsonl" })
	d.limit = 1
	for i := range 40 {
		d.write(fmt.Sprintf("%02d.jsonl", i), lines(1, 3))
	}
	before := openFiles(t)
	for range 40 {
		d.cursor = nil
		for range 2 {
			d.pull()
		}
	}
	if n := openFiles(t) - before; n > 2*maxKept {
		t.Errorf("%d files are open", n)
	}
	if err := d.in.Close(); err != nil {
		t.Fatal(err)
	}
	if n := openFiles(t) - before; n > 0 {
		t.Errorf("%d files are open after Close", n)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestObservedIsTheStartOfTheRequest(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.write("orders.jsonl", lines(1, 1))
	if p := d.pull(); !p.Observed.Equal(d.now) || !p.ServerTime.IsZero() {
		t.Errorf("observed %v, server %v", p.Observed, p.ServerTime)
	}
}

func TestStreamSaysWhatIDsAndVersionsAreMadeOf(t *testing.T) {
	for want, s := range map[string]*Stream{
		"id; the order of reading": {ID: "id", VersionAs: versionTime},
		"id; at, a time":           {ID: "id", Version: "at", VersionAs: versionTime},
		"id; at, a number":         {ID: "id", Version: "at", VersionAs: versionNumber},
		"no; rev, a number":        {ID: "no", Version: "rev", VersionAs: versionNumber},
	} {
		i := (&Settings{Files: map[string]*Stream{"s": s}}).Streams()[0]
		if got := i.IDs + "; " + i.Versions; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStreamInfo(t *testing.T) {
	s := &Settings{Files: map[string]*Stream{
		"b": {Path: "b-*.csv", Format: formatCSV, ID: "id", Version: "at", VersionAs: versionTime},
		"a": {Path: "a.jsonl", Format: formatJSONL, ID: "id", Deleted: Deleted{Field: "d"}},
	}}
	got := s.Streams()
	if len(got) != 2 || got[0].Name != "a" || got[0].VersionIsTime || !got[0].Tombstones || !got[1].VersionIsTime || got[1].Tombstones || got[0].CanFetch || !slices.ContainsFunc(got, func(i connectors.StreamInfo) bool { return i.Log }) {
		t.Errorf("got %+v", got)
	}
}
