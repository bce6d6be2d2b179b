package field

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the known name nearest to a misspelt one, at most 3 letters and half of its length away, or "".
func Nearest(name string, known []string) string {
	best, dist := "", min(3, max(1, len([]rune(name))/2))+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < dist && d < len(k) {
			best, dist = k, d
		}
	}
	return best
}

// DidYouMean gives "did you mean x?" for the nearest known name, or else lists the known names if they are few, or "".
func DidYouMean(name string, known []string) string {
	if k := Nearest(name, known); k != "" {
		return fmt.Sprintf("did you mean %s?", k)
	}
	switch {
	case len(known) == 0:
		return ""
	case len(known) <= 16:
		k := slices.Clone(known)
		slices.Sort(k)
		return "known here: " + strings.Join(k, ", ")
	}
	return ""
}

// distance is the number of letters to insert, remove, exchange or swap with their neighbour to turn a into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 64 || len(y) > 64 {
		return 64
	}
	prev2, prev, cur := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		cur[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(y)]
}
