package hostile

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

// ledger counts what took effect.
type ledger struct{ effects atomic.Int32 }

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.effects.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.Copy(w, io.MultiReader(strings.NewReader(`{"echo":`), r.Body, strings.NewReader(`}`)))
}

// plainClient follows nothing, repeats nothing and decompresses nothing.
func plainClient(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func post(t *testing.T, c *http.Client, url string) (status int, body string, err error) {
	t.Helper()
	return postWithin(t, c, url, 30*time.Second)
}

func postWithin(t *testing.T, c *http.Client, url string, limit time.Duration) (status int, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/orders?key=1", strings.NewReader("7"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(b), err
}

func TestFaultsDoWhatTheyAnnounce(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Faults() {
		t.Run(f.Name, func(t *testing.T) {
			if seen[f.Name] || f.Doc == "" {
				t.Fatalf("name used twice, or no doc: %+v", f)
			}
			seen[f.Name] = true
			var l ledger
			s := Wrap(&l)
			s.Next(f)
			limit := 30 * time.Second
			if strings.HasPrefix(f.Name, "hang") || strings.HasPrefix(f.Name, "slow") {
				limit = time.Second
			}
			status, _, err := postWithin(t, plainClient(t), s.URL, limit)
			s.Close()
			if status != f.Status && !(f.Garbled && err != nil) { // a reset may overtake the header
				t.Errorf("status %d, announced %d (error %v)", status, f.Status, err)
			}
			if f.Status == 0 && err == nil {
				t.Error("no error where no answer is announced")
			}
			want := int32(0)
			if f.Handles {
				want = 1
			}
			if n := l.effects.Load(); n != want {
				t.Errorf("%d effects, want %d", n, want)
			}
			log := s.Log()
			if len(log) != 1 {
				t.Fatalf("%d requests on the wire", len(log))
			}
			e := log[0]
			if e.Handled != f.Handles || e.Fault != f.Name || e.Method != "POST" || e.Path != "/orders" || e.Query != "key=1" || e.BodySize != 1 ||
				e.BodyHash != "7902699be42c8a8e46fbbb4501726517e86b22c56a189f7625a6da49081b2451" {
				t.Errorf("logged %+v", e)
			}
		})
	}
}

func TestWithoutFaultTheHandlerAnswers(t *testing.T) {
	var l ledger
	s := Wrap(&l)
	defer s.Close()
	status, body, err := post(t, plainClient(t), s.URL)
	if status != http.StatusCreated || body != `{"echo":7}` || err != nil {
		t.Errorf("got %d %q %v", status, body, err)
	}
}

func TestFaultsArePlayedOncePerMatchInOrder(t *testing.T) {
	var l ledger
	s := Wrap(&l)
	defer s.Close()
	isPut := func(r *http.Request) bool { return r.Method == http.MethodPut }
	s.Next(Named("status_404"), isPut)
	s.Next(Named("status_409"))
	s.Next(Named("status_422"))
	s.Always(Named("fail_500"))
	for i, want := range []int{409, 422, 500, 500} {
		if status, _, err := post(t, plainClient(t), s.URL); status != want || err != nil {
			t.Errorf("request %d: %d %v, want %d", i, status, err, want)
		}
	}
	s.Calm()
	if status, _, _ := post(t, plainClient(t), s.URL); status != http.StatusCreated {
		t.Errorf("calm: %d", status)
	}
}

func TestCloseEndsHangs(t *testing.T) {
	for _, name := range []string{"hang_before", "hang_after", "slow_body", "slow_header"} {
		t.Run(name, func(t *testing.T) {
			var l ledger
			arrived := make(chan struct{})
			s := Wrap(&l)
			s.Next(Named(name), func(*http.Request) bool { close(arrived); return true })
			failed := make(chan error, 1)
			go func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, iotest.OneByteReader(strings.NewReader("7")))
				if err != nil {
					failed <- err
					return
				}
				resp, err := plainClient(t).Do(r)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				failed <- err
			}()
			<-arrived
			s.Close() // would wait for ever if the handler did not end
			if err := <-failed; err == nil {
				t.Error("the client got a whole answer")
			}
		})
	}
}

func TestRedirectsLeadToTheOtherServer(t *testing.T) {
	var l ledger
	s := Wrap(&l)
	defer s.Close()
	s.Next(Named("redirect_307"))
	c := plainClient(t)
	c.CheckRedirect = nil
	status, body, err := post(t, c, s.URL)
	if status != 200 || body != `[{"id":1},{"id":2}]` || err != nil {
		t.Errorf("got %d %q %v", status, body, err)
	}
	if log := s.Elsewhere(); len(log) != 1 || log[0].Method != "POST" || log[0].Path != "/orders" {
		t.Errorf("elsewhere: %+v", log)
	}
}
