package mapping

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A decoder is used for one event after another, also after one that it could not read.
func TestADecoderThatIsUsedAgainMixesNothingUp(t *testing.T) {
	var d decoder
	bodies := []string{
		`{"id":1,"lines":[{"sku":"A","tags":["x","y"]},{"sku":"B"}],"note":"first"}`,
		`{"id":2,"lines":[{"sku":"C","tags":["z"`, // ends within everything
		`{"id":3,"note":"\ud800"}`,                // replaced
		`[]`,
		`{"id":4,"lines":[{"sku":"D"},{},[]],"note":null}`,
	}
	kept := make([]any, len(bodies))
	for i, body := range bodies {
		v, _, err := d.decode([]byte(body), nil)
		if (err != nil) != (i == 1) {
			t.Fatalf("body %d: %v", i, err)
		}
		kept[i] = v
		if d.s != "" || len(d.items)+len(d.names) > 0 || d.replaced {
			t.Errorf("body %d is kept: %+v", i, d)
		}
		for _, name := range d.names[:cap(d.names)] {
			if name != "" {
				t.Errorf("body %d is kept in memory by its member %q", i, name)
			}
		}
	}
	for i, body := range bodies {
		want, _, err := decode([]byte(body))
		if err != nil {
			continue
		}
		if diff := cmp.Diff(want, kept[i]); diff != "" {
			t.Errorf("body %d changed after it was read (-want +got):\n%s", i, diff)
		}
	}
}
