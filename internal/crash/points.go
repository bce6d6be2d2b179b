package crash

// Point is a moment at which the process may die.
type Point struct {
	Name string
	// What tells what has happened by then, and what has not.
	What string
	// Start says that it is passed only while a daemon starts.
	Start bool
	// Rare says that it is passed only when something goes wrong beside the crash.
	Rare bool
}

// Stages of a commit. A kind of transaction and a stage make a point: claim.committing.
const (
	// Committing is everything of a transaction done but its COMMIT.
	Committing = "committing"
	// InFlight is the COMMIT on its way: a little after Committing, whatever that hits.
	InFlight = "commit"
	// Committed is the COMMIT confirmed, and nothing that follows from it done.
	Committed = "committed"
)

// transactions are the kinds of the journal's transactions that a daemon makes, by the verbs of jobs.Journal.
var transactions = []struct {
	kind  string
	verbs []string
	what  string
	start bool
	rare  bool
}{
	{"bind", []string{"Bind"}, "what a flow's records are tied to", true, false},
	{"recover", []string{"Recover"}, "writes that an ended daemon left on the wire are in doubt", true, false},
	{"page", []string{"BeginPage"}, "a page is about to be mapped", false, false},
	{"admit", []string{"Admit"}, "a page's records are jobs, and the cursor has moved", false, false},
	{"claim", []string{"Claim"}, "jobs are about to be sent", false, false},
	{"link", []string{"PutLink"}, "what the target calls a record", false, false},
	{"settle", []string{"Settle"}, "what came of writes", false, false},
	{"reading", []string{"ReadWell", "ReadFailed"}, "how reading a source goes", false, true},
	{"pause", []string{"SavePause"}, "a client is paused", false, true},
	{"reshard", []string{"Reshard"}, "a client's jobs are split among its lanes", true, false},
	{"join", []string{"Join"}, "a daemon shows itself to the others", true, false},
	{"take", []string{"Take"}, "a daemon takes a lane", true, false},
	{"renew", []string{"Renew"}, "a daemon renews its leases", false, false},
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
			ps = append(ps, Point{Name: t.kind + "." + s.stage, What: s.what + t.what, Start: t.start, Rare: t.rare})
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
