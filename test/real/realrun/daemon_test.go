package main

import (
	"slices"
	"strings"
	"testing"
)

func TestDeadLettersAreReadFromTheListing(t *testing.T) {
	got, err := parseDeadLetters([]byte(`{"jobs":[{"flow":"orders","key":"8UL1","state":"dead","class":"frozen","attempt":3}],"more":false}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := []deadLetter{{Flow: "orders", Key: "8UL1", Class: "frozen"}}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

func TestAListingThatCannotBeTrustedIsRefused(t *testing.T) {
	for _, c := range []struct{ name, out, want string }{
		{"cut off", `{"jobs":[`, "unexpected end"},
		{"not whole", `{"jobs":[],"more":true}`, "more than 10000 jobs"},
		{"without a class", `{"jobs":[{"flow":"orders","key":"8UL1"}]}`, "a job without flow, key or class"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parseDeadLetters([]byte(c.out)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}
