package main

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"syncd/connectors"
	"syncd/daemon"
	"syncd/jobs"
)

func TestAFeedHandsEventsOverWhenTheyAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &feed{every: 10 * time.Millisecond, total: 25, size: 100}
		page, err := f.Pull(t.Context(), connectors.PullRequest{Limit: 10})
		if err != nil || len(page.Events) != 1 || !page.More {
			t.Fatalf("the first page has %d events, more %v, error %v", len(page.Events), page.More, err)
		}
		time.Sleep(75 * time.Millisecond) // seven more
		for _, want := range []int{7, 1} {
			page, err = f.Pull(t.Context(), connectors.PullRequest{Cursor: page.Next, Limit: 10})
			if err != nil || len(page.Events) != want {
				t.Fatalf("a page has %d events, want %d; error %v", len(page.Events), want, err)
			}
		}
		time.Sleep(time.Second)
		page, _ = f.Pull(t.Context(), connectors.PullRequest{Cursor: page.Next, Limit: 10})
		if len(page.Events) != 10 {
			t.Fatalf("a page has %d events, want its limit of 10", len(page.Events))
		}
		if page, err = f.Pull(t.Context(), connectors.PullRequest{Cursor: json.RawMessage("25"), Limit: 10}); err != nil || page.More || len(page.Events) > 0 {
			t.Fatalf("after the end: %+v, %v", page, err)
		}
	})
}

func TestAStreamTellsHowLongEachEventWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream("orders", 100, 2, 100)
		var _ daemon.Observer = s
		s.feed.begun = time.Now()
		time.Sleep(20 * time.Millisecond)
		s.Admitted(&jobs.Flow{Name: "other"}, jobs.Admitted{Events: 1})
		s.Admitted(&jobs.Flow{Name: "orders"}, jobs.Admitted{Events: 2})
		time.Sleep(5 * time.Millisecond)
		ws := []connectors.Write{{Key: "SHOP-00000000"}, {Key: "SHOP-00000001"}}
		tab := &table{batch: 2, wrote: s.wrote}
		tab.Upsert(context.Background(), ws)
		time.Sleep(time.Second)
		tab.Upsert(context.Background(), ws) // a repeated write is not the first
		there, admitted := s.waits()
		if there[0] != 25 || there[1] != 15 || admitted[0] != 5 || admitted[1] != 5 {
			t.Errorf("from the source %v, from the admission %v; want 25 and 15, 5 and 5", there, admitted)
		}
		if s.over() {
			t.Error("it is over before anything is settled")
		}
		for range 2 {
			s.Settled(&jobs.Flow{Name: "orders"}, jobs.Settled{}, connectors.Outcome{}, 0)
		}
		if !s.over() {
			t.Error("it is not over when all is settled")
		}
	})
}
