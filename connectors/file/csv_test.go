package file

import (
	"encoding/csv"
	"reflect"
	"strings"
	"testing"
	"time"
)

// bodies are the bodies of one round.
func (d *desk) bodies() string {
	d.t.Helper()
	var got []string
	for {
		p := d.pull()
		for _, e := range p.Events {
			if e.Problem != "" {
				got = append(got, "!"+e.Problem)
				continue
			}
			got = append(got, string(e.Body))
		}
		if !p.More {
			return strings.Join(got, "\n")
		}
	}
}

func TestCSVValuesAreTextsAsTheyAreWritten(t *testing.T) {
	d := newDesk(t, csvStream("o.csv"))
	d.write("o.csv", "\ufeffid,sku,qty,note\r\n1,0042,1e3,\r\n2, 7 ,010,\"say \"\"hi\"\", and\r\nbye\"\r\n3,NO,true,5\" pipe\r\n4,\u00e9,null,a\tb\r\n")
	d.want(d.bodies(), `{"id":"1","sku":"0042","qty":"1e3","note":""}
{"id":"2","sku":" 7 ","qty":"010","note":"say \"hi\", and\r\nbye"}
{"id":"3","sku":"NO","qty":"true","note":"5\" pipe"}
{"id":"4","sku":"`+"\u00e9"+`","qty":"null","note":"a\tb"}`)
}

func TestCSVColumnsGetOtherNames(t *testing.T) {
	d := newDesk(t, func(s *Stream) {
		csvStream("o.csv")(s)
		s.ID, s.CSV.Header, s.CSV.Delimiter = "sku", map[string]string{"Artikel-Nr.": "sku", "Preis": "price"}, ";"
	})
	d.write("o.csv", "Artikel-Nr.;Preis;Lager\n007;1,50;B\n")
	d.want(d.bodies(), `{"sku":"007","price":"1,50","Lager":"B"}`)
}

func TestCSVWithoutHeaderLine(t *testing.T) {
	d := newDesk(t, func(s *Stream) {
		csvStream("o.csv")(s)
		s.ID, s.CSV.NoHeader, s.CSV.Delimiter = "sku", []string{"sku", "price"}, "tab"
	})
	d.write("o.csv", "007\t1,50\n008\t2\n")
	d.want(d.bodies(), `{"sku":"007","price":"1,50"}`+"\n"+`{"sku":"008","price":"2"}`)
	d.add("o.csv", "009\t3\n")
	d.restart(nil)
	d.want(d.bodies(), `{"sku":"009","price":"3"}`)
}

func TestCSVIsReadOnAfterARestart(t *testing.T) {
	d := newDesk(t, csvStream("o.csv"))
	d.limit = 1
	d.write("o.csv", "\ufeffid,x\n1,a\n2,b\n3,c\n")
	d.pull()
	d.restart(nil)
	d.want(d.bodies(), `{"id":"2","x":"b"}`+"\n"+`{"id":"3","x":"c"}`)
	d.add("o.csv", "4,d,e\n")
	d.want(d.bodies(), "!o.csv, line 5: 3 values for 2 columns")
}

func TestBrokenCSVRecordsSpoilNoOthers(t *testing.T) {
	d := newDesk(t, csvStream("o.csv"))
	d.write("o.csv", "id,x\n1,a\n2\n3,b,c\n,d\n\n\"4\"x,e\n5,caf\xe9\n6,\"two\nlines\"\n7,f\n")
	d.want(d.bodies(), `{"id":"1","x":"a"}
!o.csv, line 3: 1 values for 2 columns
!o.csv, line 4: 3 values for 2 columns
!o.csv, line 5: no id: the field "id" is empty
!o.csv, line 7: something follows the end of a quoted value; a quote inside one is written twice
!o.csv, line 8: not UTF-8; write the file in UTF-8
{"id":"6","x":"two\nlines"}
{"id":"7","x":"f"}`)
}

func TestQuoteWithoutEndIsGivenUpWhenTheFileRests(t *testing.T) {
	d := newDesk(t, csvStream("o.csv"))
	d.write("o.csv", "id,x\n1,a\n2,\"b\n3,c\n4,d\n")
	d.want(d.round(), "1")
	d.now = d.now.Add(30 * time.Second)
	d.want(d.round(), "") // it may still be written
	d.now = d.now.Add(40 * time.Second)
	d.want(d.round(), "!o.csv, line 3: a quoted value does not end | 3 | 4")
	d.want(d.round(), "")
}

func TestFileThatCannotBeATableIsOneDeadLetter(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"no id column":   {"nr,Preis\n1,a\n2,b\n", `o.csv: there is no column "id" among its 2; look at delimiter, header and no_header`},
		"mapped column":  {"id,x\n1,a\n", `o.csv: there is no column "Preis", which csv.header names, among its 2`},
		"same name":      {"id,Preis,id\n1,a,2\n", `o.csv: columns 1 and 3 have the same name; give each its own`},
		"renamed to one": {"id,Preis,price\n1,a,2\n", `o.csv: columns 2 and 3 have the same name; give each its own`},
		"no name":        {"id,Preis,\n1,a,2\n", `o.csv: column 3 has no name`},
		"UTF-16":         {"\xff\xfei\x00d\x00\n\x00", `o.csv: written in UTF-16; write it in UTF-8`},
		"Latin-1 header": {"id,Preis,Gr\xf6\xdfe\n1,2,3\n", `o.csv: its header line: not UTF-8; write the file in UTF-8`},
		"endless header": {"id,Preis," + strings.Repeat("x", 2<<20) + "\n1,2,3\n", `o.csv: its header line is longer than 1024 KiB, or a quote in it does not end`},
		"quoted wrongly": {"\"id\"x,Preis\n1,2\n", `o.csv: its header line: something follows the end of a quoted value; a quote inside one is written twice`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(s *Stream) {
				csvStream("*.csv")(s)
				s.CSV.Header = map[string]string{"Preis": "price"}
			})
			d.write("o.csv", c.content)
			d.write("p.csv", "id,Preis\n9,1\n")
			d.want(d.round(), "!"+c.want+" | 9")
			d.want(d.round(), "")
			d.replace("o.csv", "id,Preis\n10,1\n")
			d.want(d.round(), "10")
		})
	}
}

// The standard library is the judge of what it accepts: we read the same values.
func FuzzCSVAgreesWithTheStandardLibrary(f *testing.F) {
	for _, text := range []string{"a,b\n", "\"a\",\"b\"\r\n", "\"a\"\"b\",\n", ",,\n", "\"x\ny\",z\n", "a\"b,c\n", "\"a\"b\n", "\"open\n", "a,\"\"\n", "\r\n", "\n", "a\r,b\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := csvEnd([]byte(text), ',')
		if n < 0 || n > len(text) || n > 0 && text[n-1] != '\n' {
			t.Fatalf("csvEnd(%q) = %d", text, n)
		}
		if n == 0 {
			return
		}
		r := csv.NewReader(strings.NewReader(text[:n]))
		want, err := r.Read()
		got, gotErr := csvSplit(trimEnd([]byte(text[:n])), ',', nil)
		// It turns \r\n inside quotes into \n, skips empty lines and refuses stray quotes; we do none of that.
		if err != nil || strings.ContainsRune(text[:n-1], '\r') {
			return
		}
		if gotErr != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("csvSplit(%q) = %q, %v; want %q", text[:n], got, gotErr, want)
		}
	})
}
