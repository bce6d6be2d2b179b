package lab

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
)

// told is a report.
type told struct {
	missed bool
	broken error
}

func (r told) WriteText(out io.Writer) error {
	_, err := io.WriteString(out, "as text")
	return errors.Join(err, r.broken)
}

func (r told) JSON() any { return map[string]string{"as": "object"} }

func (r told) Missed() bool { return r.missed }

func TestAProgramEndsWithACodeThatTellsHowItWent(t *testing.T) {
	failure := errors.New("it failed")
	for _, c := range []struct {
		name   string
		args   string
		report Report
		err    error
		code   int
		out    string // is in what is written
		says   string // is in the error
	}{
		{"all is held", "", told{}, nil, 0, "as text", ""},
		{"as JSON", "--json", told{}, nil, 0, `"as": "object"`, ""},
		{"a limit is missed", "", told{missed: true}, nil, 1, "as text", ""},
		{"it fails", "", nil, failure, 1, "", "it failed"},
		{"it fails and has measured", "", told{}, failure, 1, "as text", "it failed"},
		{"the report cannot be written", "", told{broken: errors.New("full")}, nil, 1, "", "write the report: full"},
		{"an argument", "more", told{}, nil, 2, "", `no arguments are wanted, but there is "more"`},
		{"a setting that cannot be meant", "--rounds=0", told{}, nil, 2, "", "rounds"},
		{"an unknown flag", "--other", told{}, nil, 2, "", "other"},
		{"help", "--help", told{}, nil, 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Program[int]{
				Name:    "trial",
				Declare: func(f *flag.FlagSet, rounds *int) { f.IntVar(rounds, "rounds", 3, "how often") },
				Check: func(rounds *int) error {
					if *rounds < 1 {
						return errors.New("--rounds must be 1 or more")
					}
					return nil
				},
				Measure: func(_ context.Context, rounds int, _ io.Writer) (Report, error) {
					if rounds != 3 {
						t.Errorf("measured with %d rounds", rounds)
					}
					return c.report, c.err
				},
			}
			var out, errw bytes.Buffer
			code, err := p.Run(t.Context(), strings.Fields(c.args), &out, &errw)
			if code != c.code || !strings.Contains(out.String(), c.out) || c.out == "" && c.code != 1 && out.Len() > 0 {
				t.Errorf("code %d, want %d; written %q", code, c.code, out.String())
			}
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want one that says %q", err, c.says)
			}
			if c.args == "--help" && !strings.Contains(errw.String(), "-rounds") {
				t.Errorf("the help is %q", errw.String())
			}
		})
	}
}
