package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a process; it is only used up when a test fails.
const patience = 3 * time.Minute

// process is a syncd that runs beside the test.
type process struct {
	t   testing.TB
	cmd *exec.Cmd

	mu    sync.Mutex
	lines []string
	seen  int // lines that await has passed
	news  chan struct{}
	ended chan struct{}
	err   error
}

// start runs syncd in a folder. It is killed when the test ends, if it is still there.
func start(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	return startAs(t, dir, env, "syncd", args...)
}

func startAs(t testing.TB, dir string, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), news: make(chan struct{}, 1), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if strings.Contains(p.log(), "WARNING: DATA RACE") { // told by the exit code too, but not of one that was killed
			t.Error("the race detector found something in the process")
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", strings.Join(p.cmd.Args, " "), p.log())
		}
	})
	return p
}

func (p *process) read(out io.Reader) {
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		p.mu.Unlock()
		p.tell()
	}
	p.err = p.cmd.Wait()
	close(p.ended)
}

func (p *process) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// await waits for the next line of the log that holds all the words, and returns it.
func (p *process) await(words ...string) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		if line, ok := p.next(words); ok {
			return line
		}
		select {
		case <-p.news:
		case <-p.ended:
			if line, ok := p.next(words); ok {
				return line
			}
			p.t.Fatalf("syncd ended (%v) without a line with %q", p.err, words)
		case <-late:
			p.t.Fatalf("no line with %q", words)
		}
	}
}

func (p *process) next(words []string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.seen < len(p.lines) {
		line := p.lines[p.seen]
		p.seen++
		if all := func() bool {
			for _, w := range words {
				if !strings.Contains(line, w) {
					return false
				}
			}
			return true
		}; all() {
			return line, true
		}
	}
	return "", false
}

// log is all that was written so far.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// wait waits for the end and returns the exit code, -1 for an end by a signal.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatal("syncd did not end")
		return 0
	}
}

// stop ends the process gracefully and wants exit code 0.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.t.Fatalf("exit code %d after a graceful stop, want 0", code)
	}
}

// result is what a command that ends by itself left.
type result struct {
	code        int
	out, errout string
}

// call runs syncd to its end.
func call(t testing.TB, dir string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "syncd", args...)
	var out, errout strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &out, &errout
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errout.String()}
}

// until asks again and again until ok says yes, after pauses that grow, so that tests that
// wait leave the processor to those that work.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	pause := 10 * time.Millisecond
	late := time.After(patience)
	for !ok() {
		pause = min(pause*3/2, 200*time.Millisecond)
		select {
		case <-time.After(pause):
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// freeAddress is a loopback address that nobody listens on, nor is given by the system to
// whoever wants any port: a server of another test would answer in the daemon's place.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		a := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", a); err == nil {
			_ = l.Close()
			return a
		}
	}
	t.Fatal("no port is free")
	return ""
}

// get asks the daemon's listen address; status 0 means that nobody answers.
func get(t testing.TB, url string, header ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Sprint(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
