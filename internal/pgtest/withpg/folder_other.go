//go:build !linux

package main

import "os"

// folder is where the server's files are kept.
func folder() string { return os.TempDir() }
