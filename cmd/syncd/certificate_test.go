package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTargetWhoseCertificateIsNotValidIsShownAsDownAndItsJobsWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reached := make(chan string, 100)
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.URL.Path }))
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	t.Cleanup(tls.Close)
	w.configure("ERP", tls.URL)
	ids := strings.Fields("A B C D E F")
	for _, id := range ids {
		w.shop.put(id, "first")
	}
	p := w.run()
	p.await("breaker changed", "client=erp", "state=open", "certificate signed by unknown authority")
	if r := w.call("status"); !strings.Contains(r.out, "certificate signed by unknown authority") {
		t.Errorf("status says\n%s", r.out)
	}
	for _, id := range ids {
		if j := w.job("orders/" + id); j.State != "ready" || j.Unresolved != nil {
			t.Errorf("%s is %s, in doubt since %v", id, j.State, j.Unresolved)
		}
	}
	if live := w.call("check", "--live"); live.code == 0 || !strings.Contains(live.out+live.errout, "certificate") {
		t.Errorf("check --live ends with %d and says\n%s%s", live.code, live.out, live.errout)
	}
	p.stop()
	if len(reached) > 0 {
		t.Errorf("a request went out although the certificate could not be verified: %s", <-reached)
	}
}
