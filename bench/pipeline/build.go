package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"syncd/bench/internal/lab"
)

//go:embed profile.go.txt
var profileSource []byte

// build makes the binary as it is released.
func build(ctx context.Context, dir string) (string, error) {
	to := filepath.Join(dir, "syncd")
	return to, lab.Build(ctx, to)
}

// buildProfiled makes a binary that writes profiles of itself. What it takes for
// that is laid over the sources for this build alone: no released binary has it.
func buildProfiled(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources: %w", err)
	}
	source := filepath.Join(dir, "profile.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(strings.TrimSpace(string(root)), "cmd", "syncd", "profile_bench.go"): source}})
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	list := filepath.Join(dir, "overlay.json")
	for name, b := range map[string][]byte{source: profileSource, list: overlay} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return "", fmt.Errorf("write the overlay: %w", err)
		}
	}
	to := filepath.Join(dir, "syncd-profiled")
	return to, lab.Build(ctx, to, "-overlay", list)
}

// writeProfiles has a profiled daemon write what it has.
func writeProfiles(ctx context.Context, d *lab.Daemon, dir string) error {
	if err := d.Signal(syscall.SIGUSR1); err != nil {
		return d.Failed(err)
	}
	heap := filepath.Join(dir, fmt.Sprintf("heap-%d.pprof", d.PID()))
	return d.Until(ctx, 10*time.Millisecond, func() (bool, error) {
		_, err := os.Stat(heap)
		return err == nil, nil
	})
}
