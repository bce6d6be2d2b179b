package upsert

import (
	"fmt"
	"slices"
	"strings"

	"syncd/connectors"
)

// problems lists what keeps the entity from carrying the flow.
func (s *Strategy) problems() []error {
	var ps []error
	add := func(format string, args ...any) {
		ps = append(ps, fmt.Errorf("flow %s, entity %s of client %s: %s", s.flow.Name, s.info.Name, s.flow.Client, fmt.Sprintf(format, args...)))
	}
	if s.flow.SettleTime < 0 {
		add("settle_time %s is negative", s.flow.SettleTime)
	}
	s.checkStrategy(add)
	s.checkChildren(add)
	s.checkPolicies(add)
	return ps
}

func (s *Strategy) checkStrategy(add func(string, ...any)) {
	f := s.flow
	if !s.info.Carries(f.Strategy) {
		add("it cannot carry strategy %s; it can carry %s", f.Strategy, carried(s.info))
		return
	}
	missing := func(what string) {
		add("it says that it carries strategy %s, but it cannot %s; this is a defect of the connector", f.Strategy, what)
	}
	switch f.Strategy {
	case connectors.NaturalKey:
		switch {
		case f.CreateOnly && (s.finder == nil || s.creator == nil):
			add("create_only needs to look records up and to create them, and this entity can only create or update in one step; take create_only out, or another strategy")
		case !f.CreateOnly && s.upserter == nil:
			missing("create or update in one step")
		}
	case connectors.ExternalRef, connectors.Lookup:
		if s.finder == nil {
			missing("look records up by key")
		}
		if s.creator == nil {
			missing("create records")
		}
		if s.updater == nil && !f.CreateOnly {
			missing("update records")
		}
	case connectors.IdempotencyKey:
		s.checkCreates(add, missing)
		if s.composer == nil {
			missing("say beforehand what a create sends")
		}
		switch i := s.info.Idempotency; {
		case i == nil:
			missing("say what the target does with idempotency keys")
		case i.Problem() != "":
			add("%s", i.Problem())
		}
	case connectors.AtMostOnce:
		s.checkCreates(add, missing)
	default:
		add("strategy %s is not known; the strategies are %s", f.Strategy, listed(connectors.Strategies()))
	}
}

// checkCreates asks for what a strategy needs that creates records and changes them
// through their links.
func (s *Strategy) checkCreates(add func(string, ...any), missing func(string)) {
	if s.creator == nil {
		missing("create records")
	}
	if s.updater == nil && !s.flow.CreateOnly {
		add("it cannot update records; say create_only: true, or describe how it updates them")
	}
}

func listed(ss []connectors.Strategy) string {
	texts := make([]string, len(ss))
	for i, s := range ss {
		texts[i] = string(s)
	}
	n := len(texts) - 1
	return strings.Join(texts[:n], ", ") + " and " + texts[n]
}

// carried lists the entity's strategies for people, with the field each works by.
func carried(i connectors.EntityInfo) string {
	if len(i.Strategies) == 0 {
		return "none"
	}
	out := make([]string, len(i.Strategies))
	for n, st := range i.Strategies {
		out[n] = string(st.Strategy)
		if st.Field != "" {
			out[n] += " (by " + st.Field + ")"
		}
	}
	return strings.Join(out, ", ")
}

func (s *Strategy) checkChildren(add func(string, ...any)) {
	var names []string
	for name, mode := range s.info.Children {
		if mode == connectors.Appends {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
	case s.flow.Strategy != connectors.AtMostOnce:
		add("each write adds to %s again, so no strategy that may send a record twice can carry it; %s can", strings.Join(names, ", "), connectors.AtMostOnce)
	case !s.flow.CreateOnly:
		add("each write adds to %s again, so a change of a record would double them; say create_only: true", strings.Join(names, ", "))
	}
}

func (s *Strategy) checkPolicies(add func(string, ...any)) {
	f := s.flow
	switch f.OnExisting {
	case "adopt":
	case "refuse":
		if s.finder == nil {
			add("on_existing: refuse needs to look records up by key, and this entity cannot; take on_existing: adopt")
		}
	default:
		add("on_existing is %q; it must be adopt or refuse", f.OnExisting)
	}
	switch f.OnDelete {
	case "ignore":
	case "archive", "delete":
		switch {
		case !slices.Contains(s.info.Removals, connectors.Removal(f.OnDelete)):
			add("it cannot %s records; on_delete can be %s", f.OnDelete, removals(s.info))
		case s.remover == nil:
			add("it says that it can %s records, but it has no way to; this is a defect of the connector", f.OnDelete)
		case f.CreateOnly:
			add("create_only never changes a record that is there, so on_delete must be ignore")
		case !s.upserts() && s.finder == nil:
			add("on_delete: %s needs to look records up by key, and this entity cannot", f.OnDelete)
		}
	default:
		add("on_delete is %q; it must be ignore, archive or delete", f.OnDelete)
	}
	if f.OnRename == "rename" {
		switch {
		case f.CreateOnly:
			add("create_only never changes a record that is there, so on_rename cannot be rename")
		case !s.info.Renames || s.updater == nil || s.finder == nil:
			add("it cannot change the key of a record; on_rename can be recreate or refuse")
		}
	}
}

func removals(i connectors.EntityInfo) string {
	out := []string{"ignore"}
	for _, r := range i.Removals {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}
