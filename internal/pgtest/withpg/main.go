// Command withpg runs another command beside a private PostgreSQL server, whose address it passes in
// the environment variable PGTEST_SERVER, and ends with that command's exit code. The server is gone when withpg is,
// however it ends.
//
//	withpg go test ./...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"syncd/internal/pgtest"
	"syncd/internal/pgtest/pgserver"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpg:", err)
	}
	os.Exit(code)
}

// run returns the command's exit code, or 1 when there is an error of our own to tell.
func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("usage: withpg COMMAND [ARGUMENT...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := pgserver.NewUnder(ctx, folder())
	if err != nil {
		return 1, err
	}
	defer func() {
		if closing := server.Close(); closing != nil && err == nil {
			code, err = 1, closing
		}
	}()
	return wait(args, server.DSN("postgres"))
}

// wait runs the command to its end. Ctrl-C reaches the command by itself, and we stay until it has answered it; a
// request to terminate is ours alone and is passed on.
func wait(args []string, dsn string) (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), pgtest.Env+"="+dsn)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start %s: %w", args[0], err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s)
			}
		case err := <-done:
			return exitCode(args[0], err)
		}
	}
}

// exitCode follows the shell's habit for a command that a signal ended: 128 and the signal's number.
func exitCode(name string, err error) (int, error) {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &ended):
		return 1, fmt.Errorf("run %s: %w", name, err)
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return ended.ExitCode(), nil
}
