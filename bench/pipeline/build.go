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
)

//go:embed profile.go.txt
var profileSource []byte

// build makes the binary as it is released.
func build(ctx context.Context, dir string) (string, error) {
	return goBuild(ctx, filepath.Join(dir, "syncd"))
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
	return goBuild(ctx, filepath.Join(dir, "syncd-profiled"), "-overlay", list)
}

func goBuild(ctx context.Context, to string, more ...string) (string, error) {
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", to}, more...)
	cmd := exec.CommandContext(ctx, "go", append(args, "syncd/cmd/syncd")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build syncd: %w: %s", err, out)
	}
	return to, nil
}
