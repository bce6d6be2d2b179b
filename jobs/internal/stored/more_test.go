package stored

import (
	"strings"
	"testing"
	"time"

	"syncd/jobs"
)

func TestWhatIsNotThereTakesNoRoom(t *testing.T) {
	t.Parallel()
	flow, err := FlowMore(&jobs.FlowState{Flow: "orders", Epoch: 3})
	if err != nil || flow != "" {
		t.Errorf("of a flow is kept %q (%v)", flow, err)
	}
	client, err := ClientMore("erp", jobs.Standing{})
	if err != nil || client != "" {
		t.Errorf("of a client is kept %q (%v)", client, err)
	}
	// What a journal of an older version has there.
	s := jobs.FlowState{Flow: "orders", Full: jobs.Standing{Code: "backlog"}}
	if err := ReadFlowMore("", &s); err != nil || s.Full != (jobs.Standing{}) {
		t.Errorf("it is read as %+v (%v)", s, err)
	}
}

func TestWhatIsRarelyThereHasNamesThatStay(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.UTC)
	want := jobs.FlowState{Flow: "orders", Suspended: jobs.Standing{Since: at, Code: "refused", Message: "a field is missing"}, Full: jobs.Standing{Since: at, Code: "disk"}}
	text, err := FlowMore(&want)
	if form := `{"suspended":{"since":"2026-11-29T12:00:00.123456Z","code":"refused","message":"a field is missing"},"full":{"since":"2026-11-29T12:00:00.123456Z","code":"disk","message":""}}`; err != nil || text != form {
		t.Errorf("the form is\n%s (%v), want\n%s", text, err, form)
	}
	got := jobs.FlowState{Flow: "orders"}
	if err := ReadFlowMore(text, &got); err != nil || got.Suspended != want.Suspended || got.Full != want.Full {
		t.Errorf("it came back as %+v (%v)", got, err)
	}
	var c jobs.ClientState
	if err := ReadClientMore(`{"expiry_held":{"since":"2026-11-29T12:00:00Z","code":"mass_expiry","message":"m"},"of a later version":1}`, &c); err != nil || c.ExpiryHeld.Code != "mass_expiry" {
		t.Errorf("a client came back as %+v (%v)", c, err)
	}
}

func TestDamageToWhatIsRarelyThereIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	if err := ReadFlowMore(`{"full":`, &jobs.FlowState{Flow: "orders"}); err == nil || !strings.Contains(err.Error(), "flow orders") {
		t.Errorf("the error is %v", err)
	}
	if err := ReadClientMore(`[]`, &jobs.ClientState{Client: "erp"}); err == nil || !strings.Contains(err.Error(), "client erp") {
		t.Errorf("the error is %v", err)
	}
	for _, text := range []string{``, `{}`, `[{"client":"a\u001a0"}]`} {
		if ls, err := ParseLanes(text); err == nil {
			t.Errorf("%q was read as the lanes %v", text, ls)
		}
	}
}
