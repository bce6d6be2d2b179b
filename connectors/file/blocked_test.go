package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

const noID = `there is no column "id" among its 1; look at delimiter, header and no_header`

func TestFilesThatCannotBeReadAreNamedTogetherAndHoldUpNoOthers(t *testing.T) {
	d := newDesk(t, csvStream("*.csv"))
	for i := range 6 {
		d.write(fmt.Sprintf("bad%d.csv", i), "nr\n1\n")
	}
	d.write("good.csv", "id\n1\n")
	const want = "?columns: bad0.csv: " + noID + "; also held up: bad1.csv, bad2.csv, bad3.csv, 2 more"
	d.want(d.round(), "1 | "+want)
	d.add("good.csv", "2\n")
	d.want(d.round(), "2 | "+want)
	d.want(d.round(), want)
}

// So many cannot all keep their places in a cursor. None may be taken for read for that.
func TestManyFilesThatCannotBeReadStayNamedAndTheCursorSmall(t *testing.T) {
	d := newDesk(t, csvStream("*.csv"))
	for i := range 3 * maxBlocked {
		d.write(fmt.Sprintf("%03d-%s.csv", i, strings.Repeat("x", 200)), "nr\n1\n")
	}
	for range 3 {
		if r := d.round(); !strings.HasSuffix(r, fmt.Sprintf(", %d more; files after these are not looked at, since there are so many", maxBlocked-1-maxNamed)) {
			t.Fatalf("got %s", r)
		}
		d.restart(nil)
	}
	for i := range 3 * maxBlocked {
		d.replace(fmt.Sprintf("%03d-%s.csv", i, strings.Repeat("x", 200)), fmt.Sprintf("id\n%d\n", i))
	}
	d.want(d.round(), ids(0, 3*maxBlocked-1))
}

func TestFileThatCannotBeReadIsReadAgainWithAnotherConfiguration(t *testing.T) {
	d := newDesk(t, csvStream("o.csv"))
	d.write("o.csv", "nr;x\n1;a\n")
	d.want(d.round(), "?columns: o.csv: "+noID)
	st := &Stream{}
	*st = *d.in.settings.Files["s"]
	st.ID, st.CSV.Delimiter = "nr", ";"
	d.restart(st)
	d.want(d.round(), "1")
	d.want(d.round(), "")
}

// What a file holds up is found at its place by each flow that reads it.
func TestEachCursorFailsOnlyWhereItComesToTheMistake(t *testing.T) {
	d := newDesk(t, func(s *Stream) { csvStream("o.csv")(s); s.Complete = true })
	d.write("o.csv", "id,x\n1,a\n2,\"b\n")
	if r := d.round(); !strings.HasPrefix(r, "1 | ?open_quote: o.csv, line 3, column 3:") {
		t.Errorf("got %s", r)
	}
	d.cursor = nil
	if r := d.round(); !strings.HasPrefix(r, "1 | ?open_quote: o.csv, line 3, column 3:") {
		t.Errorf("from the beginning: got %s", r)
	}
}

func TestStartIsKeptByACursorAlsoWhenNothingCanBeRead(t *testing.T) {
	d := newDesk(t, csvStream("*.csv"))
	d.start = connectors.Start{From: d.now}
	d.write("old.csv", "id\n1\n")
	if err := os.Chtimes(filepath.Join(d.dir, "old.csv"), d.now.Add(-time.Hour), d.now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	d.write("new.csv", "nr\n1\n")
	for range 2 { // the second flow comes to a file that is known to be blocked
		d.cursor = nil
		d.want(d.round(), "?columns: new.csv: "+noID)
		if d.cursor == nil {
			t.Error("no cursor was given")
		}
	}
	d.add("old.csv", "2\n")
	d.want(d.round(), "2 | ?columns: new.csv: "+noID)
}
