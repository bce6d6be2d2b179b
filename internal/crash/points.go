package crash

// Point is a moment at which the process may die.
type Point struct {
	Name string
	// What tells what has happened by then, and what has not.
	What string
	When When
}

// When a point is passed.
type When int

const (
	// AtWork: again and again while records change.
	AtWork When = iota
	// AtStart: only while a daemon starts.
	AtStart
	// InTrouble: only when something goes wrong beside the crash.
	InTrouble
	// OnRenewal: about once in a third of a lease.
	OnRenewal
	// ByCommand: by a person's command beside the daemon, or while none runs.
	ByCommand
	// AtEnd: only while a daemon ends well.
	AtEnd
)

// Stages of a commit. A kind of transaction and a stage make a point: claim.committing.
const (
	// Committing is everything of a transaction done but its COMMIT.
	Committing = "committing"
	// InFlight is the COMMIT on its way: a little after Committing, whatever that hits.
	InFlight = "commit"
	// Committed is the COMMIT confirmed, and nothing that follows from it done.
	Committed = "committed"
)

// transactions are the kinds of the journal's transactions, by the verbs of jobs.Journal that make them.
var transactions = []struct {
	kind  string
	verbs []string
	what  string
	when  When
}{
	{"bind", []string{"Bind"}, "what a flow's records are tied to", AtStart},
	{"recover", []string{"Recover"}, "writes that an ended daemon left on the wire are in doubt", AtStart},
	{"page", []string{"BeginPage"}, "a page is about to be mapped", AtWork},
	{"admit", []string{"Admit"}, "a page's records are jobs, and the cursor has moved", AtWork},
	{"claim", []string{"Claim"}, "jobs are about to be sent", AtWork},
	{"link", []string{"PutLink"}, "what the target calls a record", AtWork},
	{"pin", []string{"PutPin"}, "what is sent under an idempotency key", AtWork},
	{"settle", []string{"Settle"}, "what came of writes", AtWork},
	{"reading", []string{"ReadWell", "ReadFailed"}, "how reading a source goes", InTrouble},
	{"pause", []string{"SavePause", "NotePause"}, "a client is paused", InTrouble},
	{"reshard", []string{"Reshard"}, "a client's jobs are split among its lanes", AtStart},
	{"join", []string{"Join"}, "a daemon shows itself to the others", AtStart},
	{"take", []string{"Take"}, "a daemon takes a lane", AtStart},
	{"renew", []string{"Renew"}, "a daemon renews its leases", OnRenewal},
	{"mark", []string{"Mark"}, "a daemon marks how far the journal has come", AtStart},
	{"leave", []string{"Leave"}, "a daemon says that it takes nothing more", AtEnd},
	{"release", []string{"Release"}, "a daemon gives a lane back", AtEnd},
	{"part", []string{"Part"}, "a daemon takes itself off the list", AtEnd},
	{"replay", []string{"Replay", "ReplayStep"}, "jobs are to be written once more", ByCommand},
	{"remap", []string{"Remap", "RemapStep"}, "records are to be read again", ByCommand},
	{"resolve", []string{"Resolve"}, "a person says what became of a write", ByCommand},
	{"reset", []string{"SourceReset"}, "a new epoch of a source begins", ByCommand},
	{"errand", []string{"StartRun"}, "an errand begins", ByCommand},
	{"step", []string{"StepRun"}, "a step of an errand is done", ByCommand},
	{"stop", []string{"StopRun"}, "an errand ends before its time", ByCommand},
	{"discard", []string{"Discard", "DiscardStep"}, "jobs are given up", ByCommand},
	{"erase", []string{"Erase"}, "the content of a record is removed", ByCommand},
	{"wish", []string{"PauseClient", "ResumeClient"}, "a person pauses a client, or ends its pause", ByCommand},
	{"restored", []string{"BeginRestore"}, "the epoch begins that follows a restore of the journal", ByCommand},
}

// moments are the points outside the journal's transactions.
var moments = []Point{
	{Name: "page.read", What: "a page is in memory, nothing of it is noted"},
	{Name: "page.mapped", What: "a page is mapped, nothing of it is admitted"},
	{Name: "job.claimed", What: "a job is claimed, nothing of it is sent"},
	{Name: "job.applied", What: "the outcome of a write is known, and not handed on to be settled"},
	{Name: "job.absent", What: "a look-up did not find the record, and it is about to be created"},
	{Name: "job.created", What: "the target has created a record, its link is not stored"},
	{Name: "write.unsent", What: "an HTTP write is ready, no byte of it is sent"},
	{Name: "write.sent", What: "the last byte of an HTTP write is sent, no answer is read"},
	{Name: "write.answered", What: "the answer to an HTTP write is read whole, nobody was told"},
	{Name: "read.unsent", What: "an HTTP read is ready, no byte of it is sent"},
	{Name: "read.sent", What: "the last byte of an HTTP read is sent, no answer is read"},
	{Name: "read.answered", What: "the answer to an HTTP read is read whole, nobody was told"},
	{Name: "rows.begun", What: "a transaction in the target database is open, nothing is written"},
	{Name: "rows.committing", What: "rows are written in the target database, not committed"},
	{Name: "rows.commit", What: "the COMMIT is on its way to the target database"},
	{Name: "rows.committed", What: "the target database has confirmed the COMMIT"},
}

// Points lists all points.
func Points() []Point {
	ps := append([]Point(nil), moments...)
	for _, t := range transactions {
		for _, s := range []struct{ stage, what string }{
			{Committing, "in the transaction, before COMMIT: "},
			{InFlight, "while COMMIT is on its way: "},
			{Committed, "after COMMIT: "},
		} {
			ps = append(ps, Point{Name: t.kind + "." + s.stage, What: s.what + t.what, When: t.when})
		}
	}
	return ps
}

// kindOf is the kind of a transaction that a verb of jobs.Journal makes; "" for one that no point is named after.
func kindOf(verb string) string {
	for _, t := range transactions {
		for _, v := range t.verbs {
			if v == verb {
				return t.kind
			}
		}
	}
	return ""
}
