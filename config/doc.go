// Package config reads what syncd is told to do: one YAML file, with values from the environment laid over it, into a typed and checked
// Config. It reports every mistake at once, each with its place and what to do, and never a secret. Only the command line and the
// daemon read it; they hand each other package its own settings.
package config

//go:generate go run ./gen
