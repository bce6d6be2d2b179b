package lab

import (
	"math"
	"testing"
)

func TestALimitIsMissedOnTheFarSideOnly(t *testing.T) {
	for _, c := range []struct {
		name  string
		check Check
		want  bool
	}{
		{"at the greatest", AtMost("x", 2, 2, ""), false},
		{"above the greatest", AtMost("x", 2.1, 2, ""), true},
		{"at the least", AtLeast("x", 2, 2, ""), false},
		{"below the least", AtLeast("x", 1.9, 2, ""), true},
		{"nothing was measured", AtMost("x", math.NaN(), 2, ""), true},
	} {
		if c.check.Missed != c.want {
			t.Errorf("%s: missed is %v, want %v", c.name, c.check.Missed, c.want)
		}
		if Missed([]Check{AtMost("y", 1, 2, ""), c.check}) != c.want {
			t.Errorf("%s: missed among others is not %v", c.name, c.want)
		}
	}
}

func TestQuantilesAreValuesThatWereMeasured(t *testing.T) {
	xs := []float64{4, 1, 3, 2}
	for share, want := range map[float64]float64{0: 1, 0.25: 1, 0.5: 2, 0.51: 3, 0.99: 4, 1: 4} {
		if got := Quantile(xs, share); got != want {
			t.Errorf("the quantile %v is %v, want %v", share, got, want)
		}
	}
	if xs[0] != 4 {
		t.Error("the values were put in another order")
	}
}
