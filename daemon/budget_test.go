package daemon

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"syncd/connectors"
)

var (
	failed = connectors.Fail(connectors.Transient, "http_500", "no")
	went   = connectors.Outcome{Class: connectors.Applied}
)

func TestAStrugglingTargetGetsFewRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b budget
		for range 35 { // a short trouble is not held up
			if !b.retry() {
				t.Fatal("the first retries are held back")
			}
			b.came(true, failed)
		}
		retries := 0
		for i := range 14000 { // of first tries, half of which fail
			o := went
			if i%2 == 0 {
				o = failed
			}
			b.came(false, o)
			if b.retry() {
				retries++
				b.came(true, failed)
			}
			time.Sleep(time.Millisecond)
		}
		if retries > 14000/14 {
			t.Errorf("%d retries in 14,000 writes", retries)
		}
	})
}

func TestAStrugglingTargetGetsFewRetriesAlsoWhereSomeGoWell(t *testing.T) {
	for _, share := range []float64{0.4, 0.5, 0.6, 0.8} {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			b := budget{full: true}
			write := func(again bool) {
				o := went
				if random.Float64() < share {
					o = failed
				}
				b.came(again, o)
			}
			retries := 0
			const writes = 20000
			for range writes {
				write(false)
				if b.retry() {
					retries++
					write(true)
				}
				time.Sleep(time.Millisecond)
			}
			if retries > writes/13 {
				t.Errorf("%d retries beside %d writes of which %g fail", retries, writes, share)
			}
		})
	}
}

func TestAfterAnOutageRetriesBecomeMoreQuickly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b budget
		for b.left >= retryCost || !b.full {
			b.retry()
			b.came(true, failed)
		}
		begun := time.Now()
		for done := 0; done < 1000; {
			if !b.retry() {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			b.came(true, went)
			done++
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("a thousand retries took %s after an outage", took)
		}
		b.left = 0
		time.Sleep(freeEvery)
		for range 10 {
			b.retry()
			b.came(true, went)
		}
		if b.left < 10*retryCost/2 {
			t.Errorf("after ten that went well %d is left: no more than they took", b.left)
		}
	})
}

func TestWhatIsNotSentCostsNothingOfTheBudget(t *testing.T) {
	var b budget
	for range 1000 {
		if !b.retry() {
			t.Fatal("it was taken")
		}
		b.came(true, connectors.Fail(connectors.Paused, codeLate, "not sent"))
	}
	if s := b.state(); s != 1 {
		t.Errorf("left is %v", s)
	}
}
