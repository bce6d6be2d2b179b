package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/jobs"
)

// lanesOf makes lanes of a text such as "a b c#1".
func lanesOf(text string) (out []jobs.LaneID) {
	for _, w := range strings.Fields(text) {
		name, shard, _ := strings.Cut(w, "#")
		l := jobs.LaneID{Client: name}
		if shard != "" {
			l.Shard = int(shard[0] - '0')
		}
		out = append(out, l)
	}
	return out
}

func TestLanesAreSharedOutEvenly(t *testing.T) {
	const all = "a b c d"
	for name, c := range map[string]struct {
		lanes   string            // what "me" is configured for; "" for all
		others  map[string]string // their lanes; "" for all
		leaving string
		leases  map[string]string // by lane: who has it; "!" before one that has lapsed
		since   map[string]time.Duration
		idle    time.Duration
		alone   bool
		take    string
		give    string
	}{
		"the only daemon takes all":                                   {take: "a b c d"},
		"of two daemons each takes its half":                          {others: map[string]string{"x": ""}, take: "a b"},
		"three share four":                                            {others: map[string]string{"x": "", "y": ""}, take: "a b"},
		"what the others have is left to them":                        {others: map[string]string{"x": ""}, leases: map[string]string{"a": "x", "b": "x"}, take: "c d"},
		"what has lapsed is taken":                                    {leases: map[string]string{"a": "!x", "b": "!x", "c": "!x", "d": "!x"}, take: "a b c d"},
		"what nobody takes is taken in the end":                       {others: map[string]string{"x": ""}, leases: map[string]string{"a": "me", "b": "me"}, idle: leftOver, take: "c d"},
		"what no other can run is taken at once":                      {others: map[string]string{"x": "a b"}, leases: map[string]string{"a": "me", "b": "me"}, take: "c d"},
		"a newcomer is given the lane that was taken last":            {others: map[string]string{"x": ""}, leases: map[string]string{"a": "me", "b": "me", "c": "me", "d": "me"}, since: map[string]time.Duration{"b": 20 * time.Second}, give: "b"},
		"one lane is given at a time, the next when the other has it": {lanes: "a b c d e", others: map[string]string{"x": "a b c d e"}, leases: map[string]string{"a": "me", "b": "me", "c": "me", "d": "me"}},
		"a lane is kept for a while":                                  {others: map[string]string{"x": ""}, leases: map[string]string{"a": "me", "b": "me", "c": "me", "d": "me"}, since: map[string]time.Duration{"a": 1, "b": 1, "c": 1, "d": 1}},
		"a difference of one lane is even":                            {others: map[string]string{"x": ""}, leases: map[string]string{"a": "me", "b": "me", "c": "x"}, take: "", idle: 0},
		"nothing is given to a daemon that leaves":                    {others: map[string]string{"x": ""}, leaving: "x", leases: map[string]string{"a": "me", "b": "me", "c": "me", "d": "me"}},
		"nothing is given to a daemon that could not run it":          {others: map[string]string{"x": "q"}, leases: map[string]string{"a": "me", "b": "me", "c": "me", "d": "me"}},
		"what a daemon that leaves gives back is taken by those":      {others: map[string]string{"x": ""}, leaving: "x", leases: map[string]string{"a": "me", "b": "me", "c": "x"}, take: "d"},
		"a journal for one daemon knows no other owner":               {alone: true, others: map[string]string{"x": ""}, leases: map[string]string{"a": "x", "b": "x"}, idle: leftOver, take: "a b c d"},
	} {
		t.Run(name, func(t *testing.T) {
			def := func(s string) []jobs.LaneID {
				if s == "" {
					s = all
				}
				return lanesOf(s)
			}
			me := jobs.Daemon{Owner: "me", Lanes: def(c.lanes)}
			s := &sharing{me: me, endless: c.alone, held: map[jobs.LaneID]time.Duration{}, refused: map[jobs.LaneID]bool{}, idle: map[jobs.LaneID]time.Duration{}}
			s.survey.Daemons = append(s.survey.Daemons, me)
			for owner, lanes := range c.others {
				s.survey.Daemons = append(s.survey.Daemons, jobs.Daemon{Owner: owner, Lanes: def(lanes), Leaving: owner == c.leaving})
			}
			for lane, owner := range c.leases {
				l := lanesOf(lane)[0]
				name, lapsed := strings.CutPrefix(owner, "!")
				s.survey.Leases = append(s.survey.Leases, jobs.Lease{LaneID: l, Owner: name, Token: "t-" + name, Lapsed: lapsed})
				if name == "me" {
					s.held[l] = time.Hour
					if d, ok := c.since[lane]; ok {
						s.held[l] = d
					}
				}
			}
			for _, l := range me.Lanes {
				s.idle[l] = c.idle
			}
			take, give := s.decide()
			var got []jobs.LaneID
			for _, o := range take {
				got = append(got, o.LaneID)
			}
			slices.SortFunc(got, compareLanes)
			if !slices.Equal(got, lanesOf(c.take)) {
				t.Errorf("takes %v, want %s", got, c.take)
			}
			if !slices.Equal(give, lanesOf(c.give)) {
				t.Errorf("gives %v, want %s", give, c.give)
			}
		})
	}
}

func TestTheTokenSeenGoesWithTheOffer(t *testing.T) {
	s := &sharing{me: jobs.Daemon{Owner: "me", Lanes: lanesOf("a")}, held: map[jobs.LaneID]time.Duration{}}
	s.survey.Leases = []jobs.Lease{{LaneID: lanesOf("a")[0], Owner: "x", Token: "old", Lapsed: true}}
	take, _ := s.decide()
	if len(take) != 1 || take[0].Token != "old" {
		t.Errorf("offered %v, want lane a with the token that its lease has", take)
	}
}

// TestDaemonsThatDecideForThemselvesSettle plays daemons that look and decide in turn.
func TestDaemonsThatDecideForThemselvesSettle(t *testing.T) {
	lanes := lanesOf("a b c d e f g h#0 h#1 h#2")
	type member struct{ held map[jobs.LaneID]time.Duration }
	members := map[string]*member{}
	owner := map[jobs.LaneID]string{}
	idle := map[jobs.LaneID]time.Duration{}
	round := func() (moves int) {
		var s jobs.Survey
		for _, n := range []string{"x", "y", "z"} {
			if members[n] != nil {
				s.Daemons = append(s.Daemons, jobs.Daemon{Owner: n, Lanes: lanes})
			}
		}
		for l, o := range owner {
			s.Leases = append(s.Leases, jobs.Lease{LaneID: l, Owner: o, Token: "t"})
		}
		for _, m := range s.Daemons {
			sh := &sharing{me: m, survey: s, held: members[m.Owner].held, idle: idle}
			take, give := sh.decide()
			for _, o := range take {
				if owner[o.LaneID] == "" { // the lease is given once
					owner[o.LaneID] = m.Owner
					members[m.Owner].held[o.LaneID] = 0
					moves++
				}
			}
			for _, l := range give {
				delete(owner, l)
				delete(members[m.Owner].held, l)
				moves++
			}
		}
		for _, l := range lanes {
			if owner[l] == "" {
				idle[l] += time.Second
			} else {
				idle[l] = 0
			}
		}
		for _, m := range members {
			for l := range m.held {
				m.held[l] += time.Second
			}
		}
		return moves
	}
	settle := func(n int) {
		t.Helper()
		quiet := 0
		for i := 0; quiet < 60; i++ {
			if i > 600 {
				t.Fatalf("lanes still wander with %d daemons", n)
			}
			if round() == 0 {
				quiet++
			} else {
				quiet = 0
			}
		}
		if len(owner) != len(lanes) {
			t.Fatalf("%d of %d lanes are run", len(owner), len(lanes))
		}
		for name, m := range members {
			if len(m.held) < len(lanes)/n || len(m.held) > (len(lanes)+n-1)/n {
				t.Errorf("of %d daemons, %s has %d of %d lanes", n, name, len(m.held), len(lanes))
			}
		}
	}
	for i, n := range []string{"x", "y", "z"} {
		members[n] = &member{held: map[jobs.LaneID]time.Duration{}}
		settle(i + 1)
	}
	for l := range members["x"].held {
		delete(owner, l)
	}
	delete(members, "x")
	settle(2)
}
