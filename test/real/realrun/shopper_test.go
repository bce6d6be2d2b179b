package main

import (
	"errors"
	"sync/atomic"
	"testing"
)

func TestEverythingIsDoneOnceInParallel(t *testing.T) {
	var done [50]atomic.Int32
	if err := inParallel(4, len(done), func(i int) error { done[i].Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range done {
		if n := done[i].Load(); n != 1 {
			t.Errorf("number %d was done %d times", i, n)
		}
	}
}

func TestAFailureEndsTheWorkAndIsTold(t *testing.T) {
	failure := errors.New("no")
	var calls atomic.Int32
	err := inParallel(4, 1000, func(i int) error {
		calls.Add(1)
		if i >= 10 {
			return failure
		}
		return nil
	})
	if !errors.Is(err, failure) {
		t.Errorf("error is %v, want the failure", err)
	}
	if n := calls.Load(); n > 20 {
		t.Errorf("%d calls after the failure at the eleventh", n)
	}
}

func TestNobodyIsInTheShopTwiceAtOnce(t *testing.T) {
	s := newShopper(nil, []string{"1", "2", "3", "4"}, 5, 1, nil)
	inside := map[int]bool{}
	for i := range 5 {
		customer, b := s.enter(2 + i*5) // always the same customer by number
		if inside[customer] {
			t.Fatalf("customer %d is let in twice", customer)
		}
		inside[customer] = true
		if len(b.Variants) == 0 || len(b.Variants) != len(b.Quantities) || b.Quantities[0] < 2 {
			t.Errorf("basket %+v has no line with a piece to spare", b)
		}
	}
	s.leave(3)
	if customer, _ := s.enter(0); customer != 3 {
		t.Errorf("let in %d, want 3, the only one who left", customer)
	}
}
