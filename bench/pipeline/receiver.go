package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"syncd/bench/internal/lab"
)

// receive is the argument with which this program is the HTTP server that orders
// are put to, in a process of its own so that its cost stands apart.
const receive = "receive"

// shelf keeps of every order that was put the sum of its record.
type shelf struct {
	mu    sync.Mutex
	sums  []uint64 // by the number of the order, 0 where there is none
	there int
	odd   string // what was asked for that should not have been
}

// receiveMain serves until it is killed.
func receiveMain() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "pipeline:", err)
		os.Exit(1)
	}
	fmt.Println("http://" + l.Addr().String())
	go func() { // it ends with the process that started it
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: &shelf{}}
	fmt.Fprintln(os.Stderr, "pipeline:", server.Serve(l))
	os.Exit(1)
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch id, isOrder := strings.CutPrefix(r.URL.Path, "/orders/"); {
	case isOrder && r.Method == http.MethodPut:
		s.put(w, r, id)
	case r.URL.Path == "/there":
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprint(w, s.there)
	case r.URL.Path == "/sums":
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.odd != "" {
			http.Error(w, s.odd, http.StatusConflict)
			return
		}
		_ = binary.Write(w, binary.LittleEndian, s.sums) // the other side may have gone away
	default:
		s.complain(w, r.Method+" "+r.URL.Path)
	}
}

func (s *shelf) put(w http.ResponseWriter, r *http.Request, id string) {
	body, err := io.ReadAll(r.Body)
	n, bad := strconv.Atoi(id)
	if n -= firstID; err != nil || bad != nil || n < 0 || n > 1e8 {
		s.complain(w, "PUT "+r.URL.Path)
		return
	}
	sum := sumOf(body)
	s.mu.Lock()
	for n >= len(s.sums) {
		s.sums = append(s.sums, make([]uint64, 1<<16)...)
	}
	again := s.sums[n] != 0
	s.sums[n] = sum
	if !again {
		s.there++
	}
	s.mu.Unlock()
	if again {
		s.complain(w, "a second PUT "+r.URL.Path)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *shelf) complain(w http.ResponseWriter, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.odd = what
	http.Error(w, what, http.StatusTeapot)
}

// receiver is the target over HTTP: a server in another process.
type receiver struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
}

// newReceiver starts a server that has nothing.
func newReceiver(ctx context.Context) (*receiver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the HTTP server: %w", err)
	}
	r := &receiver{cmd: exec.CommandContext(ctx, self, receive)}
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		r.stdin, err = r.cmd.StdinPipe()
	}
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the HTTP server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the HTTP server: %w", err), r.close())
	}
	r.url = strings.TrimSpace(line)
	return r, nil
}

func (r *receiver) setting() string { return fmt.Sprintf(receiverText, r.url) }

// receiverText is a client that has 64 requests in flight.
const receiverText = `    connector: rest
    url: %q
    concurrency: 64
    entities:
      order: {put: {path: "/orders/{key}", answer: none}}
`

func (r *receiver) cpu() (time.Duration, error) {
	s, err := lab.ReadStat(r.cmd.Process.Pid)
	return s.CPU, err
}

func (r *receiver) arrived(ctx context.Context, f file) (bool, error) {
	b, err := r.get(ctx, "/there")
	if err != nil {
		return false, err
	}
	n, err := strconv.Atoi(string(b))
	return n >= f.events, err
}

// verify finds the first order that is not there exactly as the file has it.
func (r *receiver) verify(ctx context.Context, f file) error {
	b, err := r.get(ctx, "/sums")
	if err != nil {
		return err
	}
	for i := range max(len(b)/8, len(f.sums)) {
		var got, want uint64
		if i < len(b)/8 {
			got = binary.LittleEndian.Uint64(b[8*i:])
		}
		if i < len(f.sums) {
			want = f.sums[i]
		}
		if got != want {
			return fmt.Errorf("order %d arrived other than the file has it, or not at all, or is not in it", firstID+i)
		}
	}
	return nil
}

func (r *receiver) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the HTTP server: %w", err)
	}
	b, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("ask the HTTP server: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the HTTP server was asked for what it should not have been: %s", b)
	}
	return b, nil
}

func (r *receiver) close() error {
	err := r.stdin.Close()
	if e := r.cmd.Wait(); e != nil {
		err = errors.Join(err, fmt.Errorf("the HTTP server: %w", e))
	}
	return err
}
