package field

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxSecretFile bounds a file that a reference names, in bytes.
const maxSecretFile = 64 << 10

// Resolver turns references into values: ${env:NAME}, ${file:/path} and ${credential:name}. Each is read once and remembered, so use
// one Resolver for one load. It is not safe for concurrent use.
type Resolver struct {
	// Env is the environment, as os.Environ gives it.
	Env []string
	// Dir is the folder that relative paths in ${file:…} start from.
	Dir string
	// Lenient puts Unresolved in the place of what cannot be read, for programs that do not use the value.
	Lenient bool

	known   map[string]resolved
	needles []needle // what came from references, and its other forms, longest first: never to be shown
}

type resolved struct {
	value string
	err   error
}

var refText = regexp.MustCompile(`\A(env|file|credential):(.*)\z`)

// expand replaces the references of a text, in one pass: what was put in is never looked at again. found tells whether there
// was any. "$${" stands for "${"; any other dollar sign stays.
func (r *Resolver) expand(text string) (value string, found bool, err error) {
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			b.WriteString(text)
			return b.String(), found, nil
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		b.WriteString(text[:i])
		ref, rest, closed := strings.Cut(text[i+2:], "}")
		if !closed {
			return "", found, errors.New("a reference ${… is not closed by }; write $${ for the text ${")
		}
		v, err := r.resolve(ref)
		if err != nil {
			return "", found, err
		}
		b.WriteString(v)
		found, text = true, rest
	}
}

// reference gives the content of a text that is one reference as a whole.
func (r *Resolver) reference(text string) (ref string, ok bool) {
	if !strings.HasPrefix(text, "${") || strings.IndexByte(text, '}') != len(text)-1 {
		return "", false
	}
	ref = text[2 : len(text)-1]
	return ref, refText.MatchString(ref)
}

// Unresolved stands for a value that a lenient Resolver could not read. It can be
// a secret as well as an address, and leads nowhere.
const Unresolved = "https://unresolved.invalid"

// resolve reads what a reference (without ${ and }) names.
func (r *Resolver) resolve(ref string) (string, error) {
	if k, ok := r.known[ref]; ok {
		return k.value, k.err
	}
	v, err := r.read(ref)
	if err != nil && r.Lenient && refText.MatchString(ref) {
		return Unresolved, nil
	}
	if r.known == nil {
		r.known = map[string]resolved{}
	}
	r.known[ref] = resolved{v, err}
	if err == nil {
		r.Conceal(v)
	}
	return v, err
}

func (r *Resolver) read(ref string) (string, error) {
	m := refText.FindStringSubmatch(ref)
	if m == nil {
		hint := ""
		if envName.MatchString(ref) {
			hint = fmt.Sprintf(" such as ${env:%s}", ref)
		}
		return "", fmt.Errorf("a reference must be ${env:NAME}, ${file:/path} or ${credential:name}; write one of these%s, or $${ for the text ${", hint)
	}
	switch kind, name := m[1], m[2]; kind {
	case "env":
		return r.env(name)
	case "file":
		return r.file(name)
	default:
		return r.credential(name)
	}
}

var (
	envName        = regexp.MustCompile(`\A[A-Za-z_][A-Za-z0-9_]*\z`)
	credentialName = regexp.MustCompile(`\A[A-Za-z0-9_][A-Za-z0-9._-]*\z`)
)

func (r *Resolver) env(name string) (string, error) {
	if !envName.MatchString(name) {
		return "", errors.New("${env:…} needs the name of an environment variable: letters, digits and _")
	}
	v, ok := r.lookup(name)
	if !ok {
		return "", fmt.Errorf("the environment variable %s is not set; set it before syncd starts", name)
	}
	return v, nil
}

func (r *Resolver) lookup(name string) (string, bool) {
	// The last one wins, as in a shell.
	for _, kv := range slices.Backward(r.Env) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

func (r *Resolver) file(name string) (string, error) {
	if name == "" {
		return "", errors.New("${file:…} needs the path of a file")
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.Dir, name)
	}
	return readSecretFile(name, true)
}

func (r *Resolver) credential(name string) (string, error) {
	if !credentialName.MatchString(name) {
		return "", errors.New("${credential:…} needs the name of a systemd credential: letters, digits, dot, _ and -")
	}
	dir, ok := r.lookup("CREDENTIALS_DIRECTORY")
	if !ok || dir == "" {
		return "", fmt.Errorf("there are no systemd credentials (CREDENTIALS_DIRECTORY is not set); add LoadCredential=%s:/path to the unit, or use ${file:/path}", name)
	}
	v, err := readSecretFile(filepath.Join(dir, name), false)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no systemd credential %s; add LoadCredential=%s:/path to the unit", name, name)
	}
	return v, err
}

// readSecretFile reads a file and cuts its last line end. private refuses a file that others than its owner may read.
func readSecretFile(name string, private bool) (string, error) {
	// Asked before opening: opening a pipe would wait for its other end.
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot read the file of a reference: %w", err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("cannot read the file of a reference: %w", err)
	}
	if private && st.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("the file %s can be read by others than its owner (mode %04o); run chmod 600 on it", name, st.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", fmt.Errorf("cannot read the file of a reference: %w", err)
	}
	if len(data) > maxSecretFile {
		return "", fmt.Errorf("the file %s is larger than 64 KiB", name)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}
