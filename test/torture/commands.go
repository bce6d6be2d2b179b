package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"syncd/internal/crash"
)

// inVain are the exit codes of a command that found nothing to do, or a journal that others wrote for too long.
var inVain = []int{1, 4}

// halfDone gives a command beside the daemon, which kills itself at a point, and then gives it again, as a person would.
func halfDone(p *crash.Point) func(context.Context, *session) (time.Duration, error) {
	return func(ctx context.Context, s *session) (time.Duration, error) {
		for begun := time.Now(); time.Since(begun) < recoverTime; {
			args, err := s.asks(ctx, p)
			if err != nil {
				return 0, err
			}
			died, err := s.w.dies(ctx, s.passing(p), args)
			if err != nil {
				return 0, err
			}
			// It was done before it died, and there is nothing more to do.
			if _, err := s.w.syncd(ctx, inVain, args...); err != nil {
				return 0, err
			}
			if died {
				return s.w.serves(ctx, s.w.watch())
			}
			// Perhaps there is nothing yet that the command is about.
			if err := s.w.daemon.sleep(ctx, 300*time.Millisecond); err != nil {
				return 0, err
			}
		}
		return 0, fmt.Errorf("for %s the command was over before it came to %s", recoverTime, p.Name)
	}
}

// asks is a command that passes a point. What it asks for changes nothing in the targets: all is written there as it stands.
func (s *session) asks(ctx context.Context, p *crash.Point) ([]string, error) {
	switch kind, _, _ := strings.Cut(p.Name, "."); kind {
	case "replay":
		return []string{"jobs", "replay", "--flow", "customers", "--state", "done", "--yes"}, nil
	case "remap":
		return []string{"jobs", "replay", "--remap", "--flow", "orders", "--state", "done", "--yes"}, nil
	case "reset":
		return []string{"source-reset", "customers", "--yes"}, nil
	case "errand", "step":
		return []string{"redeliver", "customers", "--since", "1h", "--yes"}, nil
	case "resolve":
		return s.held(ctx)
	case "discard":
		return refused, nil
	case "erase":
		return s.forget(ctx)
	case "wish":
		return []string{"pause", "warehouse", "--for", "1s"}, nil
	case "stop":
		return s.begun(ctx)
	}
	return nil, fmt.Errorf("no command is known that passes %s", p.Name)
}

// refused gives up what the ERP never accepts, which has to be asked for until there is some.
var refused = []string{"jobs", "discard", "--flow", "refunds", "--reason", "never accepted", "--yes"}

// forget is the command that removes the content of a record that was written.
func (s *session) forget(ctx context.Context) ([]string, error) {
	js, err := s.w.list(ctx, "--flow", "customers", "--state", "done")
	if err != nil {
		return nil, err
	}
	key := "none" // yet
	if len(js) > 0 {
		key = js[s.rnd.IntN(len(js))].Key
	}
	return []string{"erase", "customers/" + key, "--reason", "asked to", "--yes"}, nil
}

// begun has an errand be left open, and is the command that ends it.
func (s *session) begun(ctx context.Context) ([]string, error) {
	for begun := time.Now(); time.Since(begun) < recoverTime; {
		if _, err := s.w.dies(ctx, "step."+crash.Committing, []string{"redeliver", "stock", "--since", "1h", "--yes"}); err != nil {
			return nil, err
		}
		out, err := s.w.syncd(ctx, nil, "runs", "--open", "--json")
		if err != nil {
			return nil, err
		}
		var open struct{ Runs []struct{ ID int64 } }
		if err := json.Unmarshal(out, &open); err != nil {
			return nil, fmt.Errorf("syncd runs: %w: %s", err, out)
		}
		if len(open.Runs) > 0 {
			return []string{"runs", "--stop", strconv.FormatInt(open.Runs[0].ID, 10)}, nil
		}
		if err := s.w.daemon.sleep(ctx, 300*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no errand was left open for %s", recoverTime)
}

// held has a create be held whose answer was lost, and is the command that ends that.
func (s *session) held(ctx context.Context) ([]string, error) {
	s.w.erp.be(hangAfter) // so that it is certain that it was done
	defer s.w.erp.be(asUsual)
	for begun := time.Now(); time.Since(begun) < recoverTime; {
		if err := s.w.daemon.sleep(ctx, 300*time.Millisecond); err != nil {
			return nil, err
		}
		js, err := s.w.list(ctx, "--state", "held")
		if err != nil {
			return nil, err
		}
		for _, j := range js {
			word, err := s.w.word(ctx, j)
			if err != nil || len(word) > 1 {
				return append([]string{"resolve", j.Flow + "/" + j.Key, "--reason", "seen in the ledger"}, word...), err
			}
		}
	}
	return nil, fmt.Errorf("no write was held for %s", recoverTime)
}

// resolve says of each held job what the ERP shows, when nothing is at work there any more.
func (w *world) resolve(ctx context.Context) error {
	js, err := w.list(ctx, "--state", "held")
	if err != nil || len(js) == 0 {
		return err
	}
	if err := w.erp.attended(ctx); err != nil {
		return err
	}
	for _, j := range js {
		word, err := w.word(ctx, j)
		if err != nil {
			return err
		}
		// Something came of it meanwhile, or it comes to it the next time.
		if _, err := w.syncd(ctx, inVain, append([]string{"resolve", j.Flow + "/" + j.Key, "--reason", "seen in the ledger"}, word...)...); err != nil {
			return err
		}
	}
	return nil
}

// word is what the ERP shows of a write in doubt: whether the record of a create is there. An update through a link can be sent again whatever
// became of it.
func (w *world) word(ctx context.Context, j job) ([]string, error) {
	link, version, err := w.known(ctx, j)
	if err != nil {
		return nil, err
	}
	if id, stands := w.erp.holds(j.Flow, j.Key); id != 0 && link == "" {
		word := []string{"--applied", "--link", strconv.FormatInt(id, 10)}
		if w.wasPutBack && stands < version {
			word = append(word, "--older")
		}
		return word, nil
	}
	return []string{"--resend"}, nil
}

// dies gives a command that is to kill itself at a point, and reports whether it did.
func (w *world) dies(ctx context.Context, point string, args []string) (bool, error) {
	cmd := w.command(ctx, args...)
	cmd.Env = append(cmd.Env, "TORTURE_CRASH="+point)
	out, err := cmd.CombinedOutput()
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		s, ok := ee.Sys().(syscall.WaitStatus)
		if ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
			return true, nil
		}
		if slices.Contains(inVain, ee.ExitCode()) {
			return false, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("syncd %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return false, nil
}
