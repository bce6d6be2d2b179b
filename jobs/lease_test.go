package jobs

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAHoldThatLapsedIsNotRevived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hold{lost: make(chan struct{}), until: time.Now().Add(time.Second)}
		if !h.trust(time.Now().Add(2 * time.Second)) {
			t.Fatal("a hold that is valid is not renewed")
		}
		over := make(chan struct{})
		go h.Watch(t.Context(), func() { close(over) })
		time.Sleep(2*time.Second - time.Nanosecond)
		synctest.Wait()
		if !h.Valid() {
			t.Fatal("it is over too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		select {
		case <-over:
		default:
			t.Error("nobody was told that it is over")
		}
		if h.trust(time.Now().Add(time.Hour)) || h.Valid() {
			t.Error("a hold is valid again after it was over; what it was for has ended")
		}
	})
}
