package rest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance"
)

// bugged are connectors with one known mistake, and the case of the suite that
// must notice it.
var bugged = []struct {
	name string
	// caught is the path of the case, with underscores for blanks.
	caught string
	source func(t *testing.T) conformance.SourceModel
	target func(t *testing.T) conformance.TargetModel
}{
	{name: "no overlap", caught: "an_older_record_appears_late", source: sourceWith("page", keysetPages+"\n    overlap: 0s", nil)},
	{name: "strict filter taken for an inclusive one", caught: "more_records_with_one_stamp_than_a_page_holds", source: strictSource},
	{name: "numbered pages read once", caught: "a_record_changes_while_the_listing_is_read", source: sourceWith("page", `
    list: {path: /records}
    since: {param: since}
    overlap: 30s
    paging: {size_param: limit, rescan: no, page: {param: page}}`, nil)},
	{name: "the first page is all", caught: "everything_arrives", source: sourceWith("cursor", cursorPages, func(p *connectors.Page) { p.More = false })},
	{name: "a restart begins after what was never read", caught: "a_reading_goes_on_from_every_cursor_after_a_restart", source: sourceWith("cursor", cursorPages, func(p *connectors.Page) {
		if len(p.Events) > 1 {
			p.Events = p.Events[:1]
		}
	})},
	{name: "ids through a float", caught: "ids_keep_their_digits", source: sourceWith("cursor", cursorPages, func(p *connectors.Page) {
		for i, e := range p.Events {
			f, _ := strconv.ParseFloat(e.SourceID, 64)
			p.Events[i].SourceID = strconv.FormatFloat(f, 'f', -1, 64)
		}
	})},
	{name: "a record without an id is passed over", caught: "a_record_without_an_id_is_kept_apart", source: sourceWith("cursor", cursorPages, func(p *connectors.Page) {
		var kept []connectors.Event
		for _, e := range p.Events {
			if e.SourceID != "" {
				kept = append(kept, e)
			}
		}
		p.Events = kept
	})},
	{name: "a deletion is passed over", caught: "a_record_is_deleted", source: sourceWith("cursor", cursorPages, func(p *connectors.Page) {
		var kept []connectors.Event
		for _, e := range p.Events {
			if !e.Gone {
				kept = append(kept, e)
			}
		}
		p.Events = kept
	})},
	{name: "the cursor from our own clock", caught: "our_clock_does_not_matter", source: sourceWith("cursor", cursorPages, func(p *connectors.Page) {
		if !p.More {
			p.Next = json.RawMessage(`{"v":1,"unit":"us","low":` + strconv.FormatInt(p.Observed.UnixMicro(), 10) + `}`)
		}
	})},
	{name: "the cursor after a lie about the time", caught: "a_stamp_in_the_future_hides_nothing", source: sourceWith("cursor", cursorPages, func(p *connectors.Page) {
		if p.More {
			return
		}
		low := int64(0)
		for _, e := range p.Events {
			low = max(low, e.Version)
		}
		if low > 0 {
			p.Next = json.RawMessage(`{"v":1,"unit":"us","low":` + strconv.FormatInt(low, 10) + `}`)
		}
	})},
	{name: "an outcome that is unknown called transient", caught: "faults/hang_after", target: targetWith(func(o connectors.Outcome) connectors.Outcome {
		if o.Class == connectors.Unknown {
			o.Class = connectors.Transient
		}
		return o
	}, 1)},
	{name: "a redirect called a success", caught: "faults/redirect_302", target: targetWith(func(o connectors.Outcome) connectors.Outcome {
		if o.Code == "redirect" {
			o.Class = connectors.Applied
		}
		return o
	}, 1)},
	{name: "a garbled answer called a success", caught: "faults/empty", target: targetWith(func(o connectors.Outcome) connectors.Outcome {
		if o.Code == "empty_body" {
			o.Class = connectors.Applied
		}
		return o
	}, 1)},
	{name: "a refusal for quota called invalid", caught: "faults/throttled_bare", target: targetWith(func(o connectors.Outcome) connectors.Outcome {
		if o.Class == connectors.Throttled {
			o.Class = connectors.Invalid
		}
		return o
	}, 1)},
	{name: "a write sent again after a reset", caught: "faults/reset_before", target: targetWith(nil, 2)},
	{name: "a record gone called unchanged", caught: "update_through_a_link_that_leads_nowhere", target: targetWith(func(o connectors.Outcome) connectors.Outcome {
		if o.Class == connectors.Missing {
			o.Class = connectors.Unchanged
		}
		return o
	}, 1)},
	{name: "a duplicate that does not say so", caught: "create_of_a_key_that_is_taken_is_refused_as_a_duplicate", target: targetWith(func(o connectors.Outcome) connectors.Outcome {
		o.MaybeDuplicate = false
		return o
	}, 1)},
}

const cursorPages = `
    list: {path: /records}
    since: {param: since, inclusive: true}
    paging: {size_param: limit, cursor: {next: next, param: cursor}}`

const keysetPages = `
    list: {path: /records}
    since: {param: since, inclusive: true}
    paging: {size: 2, size_param: limit, keyset: {page_param: page}}`

func sourceWith(style, yaml string, spoil func(*connectors.Page)) func(*testing.T) conformance.SourceModel {
	return func(t *testing.T) conformance.SourceModel {
		m := (&shop{style: style}).model(t, common+yaml)
		good := m.Open
		m.Open = func(env connectors.Env) (connectors.Instance, error) {
			i, err := good(env)
			return spoiledInstance{Instance: i, page: spoil}, err
		}
		return m
	}
}

// strictSource asks a filter that leaves the bound out as if it did not.
func strictSource(t *testing.T) conformance.SourceModel {
	return (&shop{style: "keyset", strict: true}).model(t, common+`
    list: {path: /records}
    since: {param: since, inclusive: true}
    overlap: 1s
    paging: {size: 2, size_param: limit, keyset: {page_param: page}}`)
}

func targetWith(spoil func(connectors.Outcome) connectors.Outcome, tries int) func(*testing.T) conformance.TargetModel {
	return func(t *testing.T) conformance.TargetModel {
		m := (&erp{unique: true}).model(t, "    unique: true"+orders)
		good := m.Open
		m.Open = func(env connectors.Env) (connectors.Instance, error) {
			i, err := good(env)
			return spoiledInstance{Instance: i, outcome: spoil, tries: tries}, err
		}
		return m
	}
}

// spoiledInstance is an instance with a mistake.
type spoiledInstance struct {
	connectors.Instance
	page    func(*connectors.Page)
	outcome func(connectors.Outcome) connectors.Outcome
	tries   int
}

func (s spoiledInstance) Source() connectors.Source {
	return spoiledSource{s.Instance.Source(), s.page}
}

type spoiledSource struct {
	connectors.Source
	page func(*connectors.Page)
}

func (s spoiledSource) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	p, err := s.Source.Pull(ctx, req)
	if err == nil && s.page != nil {
		s.page(&p)
	}
	return p, err
}

func (s spoiledInstance) Target() connectors.Target { return spoiledTarget{s.Instance.Target(), s} }

type spoiledTarget struct {
	connectors.Target
	how spoiledInstance
}

func (t spoiledTarget) Entity(name string) (connectors.Entity, error) {
	e, err := t.Target.Entity(name)
	if err != nil {
		return nil, err
	}
	return &spoiledEntity{e, connectors.PrimitivesOf(e).Finder, t.how}, nil
}

type spoiledEntity struct {
	connectors.Entity
	connectors.Finder
	how spoiledInstance
}

func (e *spoiledEntity) spoil(try func() connectors.Outcome) connectors.Outcome {
	o := try()
	for n := 1; n < e.how.tries && o.Class == connectors.Unknown; n++ {
		o = try()
	}
	if e.how.outcome != nil {
		o = e.how.outcome(o)
	}
	return o
}

func (e *spoiledEntity) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	return e.spoil(func() connectors.Outcome { return e.Entity.(connectors.Creator).Create(ctx, w) })
}

func (e *spoiledEntity) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	return e.spoil(func() connectors.Outcome { return e.Entity.(connectors.Updater).Update(ctx, w) })
}

func (e *spoiledEntity) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	return e.spoil(func() connectors.Outcome { return e.Entity.(connectors.Remover).Remove(ctx, w) })
}

const bugVariable = "SYNCD_TEST_BUG"

// TestBugged plays one bug in a process of its own, for the test below.
func TestBugged(t *testing.T) {
	for _, b := range bugged {
		if b.name != os.Getenv(bugVariable) {
			continue
		}
		if b.source != nil {
			conformance.Source(t, func(testing.TB) conformance.SourceModel { return b.source(t) })
		} else {
			conformance.Target(t, func(testing.TB) conformance.TargetModel { return b.target(t) })
		}
	}
}

func TestTheSuiteNoticesBugs(t *testing.T) {
	for _, b := range bugged {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBugged$/^"+strings.ReplaceAll(b.caught, "/", "$/^")+"$", "-test.v")
			cmd.Env = append(os.Environ(), bugVariable+"="+b.name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestBugged/"+b.caught) {
				t.Errorf("the case %s did not notice: %v\n%s", b.caught, err, out)
			}
		})
	}
}
