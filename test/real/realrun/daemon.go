package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// daemon is the syncd under test. All that this program knows of syncd's command line stands in this file.
type daemon struct {
	binary, config string
	dir            string // its working directory, with its state and log

	cmd   *exec.Cmd
	ended chan error
}

// start runs the daemon in the background. It dies with this program.
func (d *daemon) start() error {
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start syncd: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(d.binary, "run", "--config", d.config)
	cmd.Dir, cmd.Env = d.dir, d.environment()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start syncd: %w", err)
	}
	d.cmd, d.ended = cmd, make(chan error, 1)
	go func(ended chan<- error) { ended <- cmd.Wait() }(d.ended)
	return nil
}

// environment says to syncd where its state goes, as systemd does, and gives the example configuration its passwords and the
// addresses of these systems.
func (d *daemon) environment() []string {
	return append(os.Environ(), "STATE_DIRECTORY="+d.dir,
		"VENDURE_PASSWORD="+os.Getenv("REAL_SHOP_PASSWORD"), "TRYTON_PASSWORD="+os.Getenv("REAL_TRYTON_PASSWORD"),
		"SYNCD_CLIENTS__SHOP__URL="+os.Getenv("REAL_SHOP_URL")+"/admin-api", "SYNCD_CLIENTS__ERP__URL="+os.Getenv("REAL_TRYTON_URL"),
		"SYNCD_LISTEN=off")
}

func (d *daemon) logFile() string { return filepath.Join(d.dir, "syncd.log") }

// alive returns an error with the end of the log if the daemon has ended by itself.
func (d *daemon) alive() error {
	select {
	case err := <-d.ended:
		d.ended <- err
		return fmt.Errorf("syncd ended by itself (%v); the end of its log:\n%s", err, d.lastLines())
	default:
		return nil
	}
}

func (d *daemon) lastLines() string {
	log, err := os.ReadFile(d.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// kill ends the daemon the way a power cut or the kernel does.
func (d *daemon) kill() error {
	if err := d.alive(); err != nil {
		return err
	}
	if err := d.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill syncd: %w", err)
	}
	<-d.ended
	return nil
}

// stop asks the daemon to end and expects that it does so in order.
func (d *daemon) stop() error {
	if err := d.alive(); err != nil {
		return err
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop syncd: %w", err)
	}
	select {
	case err := <-d.ended:
		if err != nil {
			return fmt.Errorf("syncd was asked to stop and ended with %w; the end of its log:\n%s", err, d.lastLines())
		}
		return nil
	case <-time.After(time.Minute):
		return errors.Join(errors.New("syncd was asked to stop and still runs after a minute"), d.cmd.Process.Kill())
	}
}

// mostJobs is the most that one listing may have.
const mostJobs = 10000

// deadLetters lists the jobs that need a person, those in doubt (held) as well.
func (d *daemon) deadLetters(ctx context.Context) ([]deadLetter, error) {
	var all []deadLetter
	for _, state := range []string{"dead", "held"} {
		cmd := exec.CommandContext(ctx, d.binary, "jobs", "list", "--config", d.config, "--state", state,
			"--limit", strconv.Itoa(mostJobs), "--json")
		cmd.Dir, cmd.Env = d.dir, d.environment()
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("syncd jobs list: %w: %s", err, strings.TrimSpace(said.String()))
		}
		letters, err := parseDeadLetters(out.Bytes())
		if err != nil {
			return nil, fmt.Errorf("syncd jobs list --state %s --json: %w", state, err)
		}
		all = append(all, letters...)
	}
	return all, nil
}

func parseDeadLetters(out []byte) ([]deadLetter, error) {
	var list struct {
		Jobs []deadLetter `json:"jobs"`
		More bool         `json:"more"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, err
	}
	if list.More {
		return nil, fmt.Errorf("more than %d jobs", mostJobs)
	}
	for _, d := range list.Jobs {
		if d.Flow == "" || d.Key == "" || d.Class == "" {
			return nil, fmt.Errorf("a job without flow, key or class: %+v", d)
		}
	}
	return list.Jobs, nil
}
