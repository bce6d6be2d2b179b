package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// Options says what to load a configuration from.
type Options struct {
	// Path of the YAML file. Also with Data: problems are shown under this name, and relative paths start from its folder.
	Path string
	// Data is the content of the file, if it is not to be read; nil reads Path.
	Data []byte
	// Lenient accepts references that cannot be read: for a command that looks at
	// the journal and calls no client. Config.Unresolved tells whether the
	// journal itself needs one of them.
	Lenient bool
	// Env is the environment, as os.Environ gives it: for settings (SYNCD_…), for references, and for what systemd tells.
	Env []string
	// OwnEnv names the SYNCD_ variables that are the command line's own and no settings, such as SYNCD_CONFIG.
	OwnEnv []string
	// Connectors is the registry.
	Connectors []connectors.Connector
	// Now is the time that a start must not lie after; the zero time means time.Now.
	Now time.Time
}

// maxProblems bounds how many problems are told at once.
const maxProblems = 100

// Errors is every problem of a configuration.
type Errors struct {
	// Problems, at least one, are sorted by their position; those from the environment come last.
	Problems []field.Problem
}

// Error gives a line for each problem.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxProblems {
			fmt.Fprintf(&b, "and %d more", len(e.Problems)-i)
			break
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// Load reads and checks a configuration. Its error is of type *Errors and holds every problem at once, except that nothing can be told
// about what stands in a file that is not YAML.
func Load(o Options) (*Config, error) {
	file, problems := readTree(o)
	if file == nil {
		return nil, &Errors{Problems: inOrder(problems)}
	}
	tree, more, err := overlay(o, file)
	if err != nil {
		return nil, &Errors{Problems: []field.Problem{{Pos: file.Pos, Msg: "laying the environment over the file: " + err.Error()}}}
	}
	problems = append(problems, more...)

	dir := filepath.Dir(o.Path)
	resolver := &field.Resolver{Env: o.Env, Dir: dir, Lenient: o.Lenient}
	c := &Config{Path: o.Path, Dir: dir, connectors: o.Connectors, now: o.Now, redact: resolver.Redact}
	if c.now.IsZero() {
		c.now = time.Now()
	}
	problems = append(problems, field.Bind(tree, c, resolver)...)
	if len(problems) > 0 {
		return nil, &Errors{Problems: inOrder(problems)}
	}
	c.StateDirGiven = c.StateDir != ""
	if !c.StateDirGiven {
		c.StateDir = c.stateDir(o.Env)
	}
	return c, nil
}

// readTree reads the file into a tree whose top is a mapping.
func readTree(o Options) (*field.Node, []field.Problem) {
	data := o.Data
	if data == nil {
		text, err := readFile(o.Path)
		if err != nil {
			// The place names the file already.
			msg := strings.TrimPrefix(strings.TrimPrefix(err.Error(), o.Path+" is "), "the file "+o.Path+" is ")
			return nil, []field.Problem{{Pos: field.Pos{File: o.Path}, Msg: msg}}
		}
		data = []byte(text)
	}
	root, problems := parseTree(o.Path, data)
	if root != nil && root.Kind != field.Mapping {
		pos := field.Pos{File: o.Path, Line: 1, Col: 1}
		problems = append(problems, field.Problem{Pos: pos, Msg: "the file must be a mapping with keys such as journal, clients and flows"})
		return nil, problems
	}
	return root, problems
}

// inOrder sorts problems by their position and drops repeated ones, which an alias can bring.
func inOrder(ps []field.Problem) []field.Problem {
	slices.SortStableFunc(ps, func(a, b field.Problem) int {
		switch {
		case a.Pos.Before(b.Pos):
			return -1
		case b.Pos.Before(a.Pos):
			return 1
		}
		return cmp.Compare(a.Path, b.Path)
	})
	return slices.Compact(ps)
}

// stateDir is the folder that systemd gives, or else that of an embedded journal, which
// can be written, or else the working folder.
func (c *Config) stateDir(env []string) string {
	for _, kv := range slices.Backward(env) {
		if dirs, ok := strings.CutPrefix(kv, "STATE_DIRECTORY="); ok && dirs != "" {
			dir, _, _ := strings.Cut(dirs, ":")
			return dir
		}
	}
	if c.Journal.Engine() == "sqlite" {
		return filepath.Dir(c.Journal.SQLite.Path)
	}
	return "."
}
