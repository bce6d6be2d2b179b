package sandbox

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
)

// Audit compares what the ERP holds with what the shop has.
type Audit struct {
	// Expected is how many records the shop has, Found how many of them the ERP holds.
	Expected int `json:"expected"`
	Found    int `json:"found"`
	// Doubled counts records that are in the ERP more than once, Lost those that
	// are not, Stale those that stand there in an older state, and Foreign records
	// of the ERP that the shop does not have.
	Doubled int `json:"doubled"`
	Lost    int `json:"lost"`
	Stale   int `json:"stale"`
	Foreign int `json:"foreign"`
	// WentBack counts writes of an older state over a newer one, also where a later one mended it.
	WentBack int `json:"went_back"`
	// Writes is how many writes had an effect in the ERP.
	Writes int `json:"writes"`
	// Examples name some records that are not right.
	Examples []string `json:"examples,omitempty"`
}

// OK reports whether nothing was lost, doubled or left in an old state.
func (a Audit) OK() bool {
	return a.Doubled == 0 && a.Lost == 0 && a.Stale == 0 && a.Foreign == 0 && a.WentBack == 0
}

// Compare audits an ERP against a shop.
func Compare(s *Shop, e *ERP) Audit {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	held := map[string][]*erpRecord{}
	for _, x := range e.records {
		held[x.kind+"/"+x.ref] = append(held[x.kind+"/"+x.ref], x)
	}
	a := Audit{Writes: e.wrote, WentBack: e.stale}
	wrong := func(what, ref string) {
		if len(a.Examples) < 10 {
			a.Examples = append(a.Examples, what+" "+ref)
		}
	}
	for _, r := range s.records {
		a.Expected++
		ref := refOf(r.kind, r.id)
		xs := held[r.kind+"/"+ref]
		delete(held, r.kind+"/"+ref)
		switch {
		case len(xs) == 0:
			a.Lost++
			wrong("lost", ref)
			continue
		case len(xs) > 1:
			a.Doubled++
			wrong("doubled", ref)
		}
		a.Found++
		if !r.stands(xs[0], e) {
			a.Stale++
			wrong("stale", ref)
		}
	}
	for k := range held {
		a.Foreign++
		wrong("foreign", k)
	}
	sort.Strings(a.Examples)
	return a
}

// refOf is the reference under which a record of the shop is known in the ERP.
func refOf(kind string, id int64) string {
	if kind == "customers" {
		return "C-" + strconv.FormatInt(id, 10)
	}
	return "SO-" + strconv.FormatInt(id, 10)
}

// stands reports whether the ERP's record is the shop's newest state.
func (r *shopRecord) stands(x *erpRecord, e *ERP) bool {
	if version(x.body) != r.updated.UnixMicro() {
		return false
	}
	if r.kind == "customers" {
		return x.body["name"] == r.body["name"]
	}
	cents, _ := r.body["total_cents"].(int64)
	total := fmt.Sprintf("%d.%02d", cents/100, cents%100)
	if x.body["total"] != total || x.body["state"] != r.body["state"] || x.body["note"] != r.body["note"] {
		return false
	}
	want := refOf("customers", r.body["customer_id"].(int64))
	link, _ := x.body["customer"].(json.Number)
	for _, c := range e.records {
		if c.kind == "customers" && c.ref == want {
			return strconv.FormatInt(c.id, 10) == link.String()
		}
	}
	return false
}
