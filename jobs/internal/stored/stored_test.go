package stored

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"

	"syncd/jobs"
)

func TestAnyIDHasAFormOfItsOwnThatIsText(t *testing.T) {
	t.Parallel()
	forms := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		id := string(rapid.SliceOf(rapid.SampledFrom([]byte{0, 0x1a, '0', '1', 'a', 'f', 'G', 0x7f, 0x80, 0xc3, 0xa9, 0xed, 0xff})).Draw(t, "id"))
		form := ID(id)
		if !utf8.ValidString(form) || strings.Contains(form, "\x00") {
			t.Fatalf("the form %q of %q is no text", form, id)
		}
		if back, err := ParseID(form); err != nil || back != id {
			t.Fatalf("%q came back as %q (%v)", id, back, err)
		}
		if other, ok := forms[form]; ok && other != id {
			t.Fatalf("%q and %q have one form", id, other)
		}
		forms[form] = id
	})
}

func TestAnOrdinaryIDIsItsForm(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "A-1", "gid://shop/Order/55", "Größe 🛒", "a\nb", "\ufffd"} {
		if got := ID(id); got != id {
			t.Errorf("the form of %q is %q", id, got)
		}
	}
}

func TestADamagedIDIsAnError(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"a\x1a", "a\x1a0", "a\x1a0G", "\x1a-1"} {
		if id, err := ParseID(form); err == nil {
			t.Errorf("%q was read as %q", form, id)
		}
	}
}

func TestOneListServesUnchangedAndChangedIDs(t *testing.T) {
	t.Parallel()
	in := []string{"a", "b\x00", "c"}
	if got, want := IDs(in), []string{"a", "b\x1a00", "c"}; !slices.Equal(got, want) || in[1] != "b\x00" {
		t.Errorf("the forms are %q, and the ids now %q", got, in)
	}
	keys, err := ParseKeys(Keys(in))
	if err != nil || !slices.Equal(keys, in) {
		t.Errorf("the keys came back as %q (%v)", keys, err)
	}
}

func TestAStoredBodyThatCannotBeTrustedIsAnError(t *testing.T) {
	t.Parallel()
	var p Packer
	good, err := p.Pack(bytes.Repeat([]byte("0123456789"), 100))
	if err != nil {
		t.Fatal(err)
	}
	// A few bytes that announce more than is allowed.
	bomb := append([]byte{formS2}, s2.Encode(nil, make([]byte, MaxBody+1))...)
	for name, packed := range map[string][]byte{
		"an unknown form": {9, 1, 2}, "cut short": good[:len(good)-1], "no length": {formS2}, "too large": bomb, "garbage": {formS2, 10, 255, 255, 255},
	} {
		body, err := Unpack(packed)
		if err == nil {
			t.Errorf("%s: it was read as %d bytes", name, len(body))
		}
		if name == "too large" && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestBodiesOfABatchDoNotShareBytes(t *testing.T) {
	t.Parallel()
	var p Packer
	var packed [][]byte
	for i := range 400 {
		b, err := p.Pack(bytes.Repeat([]byte{byte(i)}, 10+i*13))
		if err != nil {
			t.Fatal(err)
		}
		packed = append(packed, b)
	}
	for i, b := range packed {
		// Who appends to one must not write into the next.
		_ = append(b, "xxxxxxxx"...)
		body, err := Unpack(packed[i])
		if err != nil || !bytes.Equal(body, bytes.Repeat([]byte{byte(i)}, 10+i*13)) {
			t.Fatalf("body %d came back otherwise (%v)", i, err)
		}
	}
}

func TestRowsComeInTheOrderOfTheirFormsTheLastOfEqualOnes(t *testing.T) {
	t.Parallel()
	row := func(flow, key string, gen int64) jobs.Row {
		return jobs.Row{RowID: jobs.RowID{Flow: flow, Key: key}, Generation: gen}
	}
	in := []jobs.Row{row("b", "1", 1), row("a", "2", 2), row("b", "1", 3), row("a", "10", 4), row("a", "2", 5)}
	got := Rows(in)
	want := []jobs.Row{in[3], in[4], in[2]}
	if !slices.EqualFunc(got, want, func(a, b jobs.Row) bool { return a.RowID == b.RowID && a.Generation == b.Generation }) {
		t.Errorf("they come as %v", got)
	}
	if in[0].Generation != 1 || len(in) != 5 {
		t.Error("the caller's slice was changed")
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{formRaw, '{', '}'})
	f.Add([]byte{formS2, 3, 8, 'a', 'b', 'c'})
	f.Fuzz(func(t *testing.T, packed []byte) {
		body, err := Unpack(packed)
		if err == nil && len(body) > MaxBody {
			t.Errorf("a body of %d bytes", len(body))
		}
	})
}
