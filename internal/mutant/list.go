package mutant

// Mutant is one mistake.
type Mutant struct {
	Name string
	// What is wrong with it.
	What string
	// Breaks are the promises that it breaks, by their names in docs/reliability.md.
	Breaks []string
	// Package and Test are what must notice it, and Says a part of what it says then: "" for one of Breaks.
	Package, Test, Says string
}

const (
	simulation = "test/simulation"
	histories  = "TestPromisesHoldInEveryHistory"
	rules      = "TestTheJournalKeepsItsRules/"
)

// All lists all mutants.
func All() []Mutant {
	return []Mutant{
		{Name: "key-with-attempt", What: "the idempotency key of a create is made anew for each attempt", Breaks: []string{"I1"},
			Package: simulation, Test: histories},
		{Name: "written-twice", What: "a record is written under its new key while another lane writes it under the old one", Breaks: []string{"I1"},
			Package: "jobs/memory", Test: rules + "a_record_that_another_lane_is_writing_under_its_old_key_is_written_under_the_new_one_only_after_that", Says: "claimed"},
		{Name: "write-rewound", What: "the HTTP transport may send a write again by itself, since it carries a key", Breaks: []string{"I1"},
			Package: "connectors/httpx", Test: "TestWriteThatFailsOnAUsedConnectionIsOnTheWireOnce", Says: "requests on the wire"},
		{Name: "one-look-believed", What: "a record whose create is in doubt is taken for absent after one look", Breaks: []string{"I1"},
			Package: "upsert", Test: "TestLookUpReadsTwiceBeforeItCreatesAgain", Says: "should be transient (absent_once)"},
		{Name: "cursor-first", What: "the cursor is moved before the page is in the journal", Breaks: []string{"I2"},
			Package: simulation, Test: histories},
		{Name: "cursor-alone", What: "the cursor is moved in a transaction of its own, whatever became of the page's", Breaks: []string{"I2"},
			Package: simulation, Test: histories},
		{Name: "no-overlap", What: "a reading begins exactly where the last one ended", Breaks: []string{"I2"},
			Package: "connectors/rest", Test: "TestRecordThatTurnsUpWithTheNewestStampIsReadWhateverIsSaidOfTheFilter", Says: "strict true, inclusive true: map[]"},
		{Name: "redirect-is-success", What: "a redirect as the answer to a write is taken for success", Breaks: []string{"I2"},
			Package: "connectors/httpx", Test: "TestRedirectErrorNamesTheURLToConfigure", Says: "got error <nil>, want redirect"},
		{Name: "half-is-all", What: "a record that became again what it was is taken for written although a reference was left out", Breaks: []string{"I2"},
			Package: "jobs/memory", Test: rules + "a_record_that_became_again_what_it_was_is_written_once_more_where_an_optional_reference_was_left_out", Says: "row A is done"},
		{Name: "answer-awaited", What: "a job that waits for its record to be read anew is not opened by a page that has it", Breaks: []string{"I2"},
			Package: "jobs/memory", Test: rules + "a_job_whose_record_is_read_again_while_its_source_is_asked_for_it_waits_for_no_answer", Says: "row A is ready (\"refresh\"), want ready"},
		{Name: "link-of-the-removed", What: "an upsert that may have created a record anew leaves it the id that it had before", Breaks: []string{"I2"},
			Package: "upsert", Test: "TestUpsertThatMayHaveCreatedTheRecordAnewLearnsItsID", Says: "link"},
		{Name: "old-key-forgotten", What: "a record whose link leads nowhere is not looked for under the key that it had before", Breaks: []string{"I1", "I2"},
			Package: "upsert", Test: "TestRecordThatWasRemovedAndCreatedAnewChangesItsKeyAllTheSame", Says: "the target holds"},
		{Name: "split-unseen", What: "rows are admitted into shards that are not those of the client", Breaks: []string{"I2"},
			Package: "jobs/memory", Test: rules + "nothing_is_admitted_into_shards_that_are_not_those_of_the_client", Says: "admitted before the split"},
		{Name: "void-link-kept", What: "a redelivery leaves the links to records that the backup does not have", Breaks: []string{"I1", "I2"},
			Package: "jobs/memory", Test: rules + "a_redelivery_writes_once_more_what_was_written_since_the_backup,_and_nothing_older", Says: "NEW stands is true"},
		{Name: "void-key-renewed", What: "a redelivery creates under a new key what the backup may have, although it cannot be looked for", Breaks: []string{"I1"},
			Package: "jobs/memory", Test: rules + "a_record_that_was_created_since_the_backup_under_a_key,_and_cannot_be_looked_for,_waits_for_a_person", Says: "row NEW is ready"},
		{Name: "word-void", What: "a redelivery forgets the id that a person has given for a record meanwhile", Breaks: []string{"I2"},
			Package: "jobs/memory", Test: rules + "what_a_person_says_of_a_record_while_it_is_redelivered_stands,_and_ids_of_before_do_not", Says: "link of SAID"},
		{Name: "void-is-absent", What: "a redelivery takes the backup for one that has none of the records whose ids are void", Breaks: []string{"I1", "I2"},
			Package: "jobs/memory", Test: rules + "a_record_that_is_gone_before_it_was_redelivered_is_looked_for,_since_the_backup_may_have_it", Says: "claimed 0 jobs"},
		{Name: "link-seen-anew", What: "a redelivery takes the link of a record that has another key since for one of since the backup", Breaks: []string{"I1", "I2"},
			Package: "jobs/memory", Test: rules + "the_link_of_a_record_that_has_another_key_since_the_backup_is_not_void", Says: "link of"},
		{Name: "written-meanwhile", What: "records are written, by ids that are void, while a redelivery goes on", Breaks: []string{"I1", "I2", "I3"},
			Package: "jobs/memory", Test: rules + "while_a_flow_is_redelivered_nothing_is_written_to_its_client", Says: "claimed"},
		{Name: "under-way-passed", What: "a redelivery does not wait for the outcome of what is being written", Breaks: []string{"I1", "I2"},
			Package: "jobs/memory", Test: rules + "what_is_being_written_when_a_redelivery_begins_is_taken_back,_however_late_that_is_told", Says: "done while it is under way is 1"},
		{Name: "no-version-guard", What: "an older event is admitted like a newer one", Breaks: []string{"I3"},
			Package: simulation, Test: histories},
		{Name: "no-settle-time", What: "a record is written again while an earlier write may still be at work", Breaks: []string{"I1", "I3", "I4"},
			Package: simulation, Test: histories},
		{Name: "order-falls", What: "a key that passes to another record is ordered as that one was", Breaks: []string{"I2", "I3"},
			Package: "jobs/memory", Test: rules + "a_key_that_passes_to_a_record_that_was_read_earlier_keeps_its_order", Says: "is ordered at"},
		{Name: "late-link", What: "a daemon that has lost its lease stores the link of a key that is another record's by now", Breaks: []string{"I2", "I3"},
			Package: "jobs/memory", Test: rules + "an_ended_daemon_that_goes_on_gives_a_key_that_has_changed_hands_no_link", Says: "the link is stored"},
		{Name: "same-stamp", What: "a late write is taken for refused by its stamp although it has that of a newer one, and other references", Breaks: []string{"I2", "I3"},
			Package: "upsert", Test: "TestUpsertInDoubt", Says: "should be transient (settling)"},
		{Name: "link-of-another", What: "a record that moves on takes along the link of the one that moves to its key", Breaks: []string{"I2", "I3"},
			Package: "jobs/memory", Test: rules + "records_that_move_on_one_after_the_other_while_a_write_is_under_way_keep_their_links", Says: "link of"},
		{Name: "overtaken", What: "an event is written although one that comes before it is not", Breaks: []string{"I3"},
			Package: simulation, Test: histories},
		{Name: "answer-of-before", What: "an answer that was read before the source began anew is admitted after it", Breaks: []string{"I2", "I3"},
			Package: "jobs/memory", Test: rules + "an_answer_that_was_read_before_the_source_began_anew_is_not_admitted_after_it", Says: "admitted: <nil>"},
		{Name: "unknown-is-failed", What: "a write whose answer was not read is taken for one that failed", Breaks: []string{"I4"},
			Package: simulation, Test: histories},
		{Name: "lost-is-unsent", What: "writes that an ended daemon left on the wire are taken for unsent", Breaks: []string{"I4"},
			Package: simulation, Test: histories},
		{Name: "claims-outlive-shards", What: "what was under way in a shard is forgotten when the client is split anew", Breaks: []string{"I1", "I4", "I9"},
			Package: "jobs/memory", Test: rules + "what_an_ended_daemon_left_under_way_in_a_shard_is_in_doubt_when_the_client_is_split_anew", Says: "in doubt false"},
		{Name: "doubt-stays-behind", What: "a write in doubt under the key that a record had is forgotten when it gets another one", Breaks: []string{"I1", "I2", "I3", "I4"},
			Package: "jobs/memory", Test: rules + "a_create_of_unknown_outcome_under_the_old_key_puts_the_new_key_in_doubt", Says: "claimed"},
		{Name: "skipped-in-doubt", What: "a state that was applied before is skipped although a write is in doubt", Breaks: []string{"I2", "I4"},
			Package: simulation, Test: histories},
		{Name: "other-bytes", What: "the newest state is sent under the key of an older one that is in doubt", Breaks: []string{"I5"},
			Package: simulation, Test: histories},
		{Name: "done-without-lease", What: "an outcome is stored without a look at the lease", Breaks: []string{"I6"},
			Package: simulation, Test: histories},
		{Name: "no-deadline", What: "a daemon trusts its lease for as long as nobody tells it otherwise", Breaks: []string{"I6"},
			Package: simulation, Test: histories},
		{Name: "lease-revived", What: "a lease that had lapsed is trusted again once it was renewed", Breaks: []string{"I6", "I9"},
			Package: simulation, Test: histories},
		{Name: "pause-overlooked", What: "a client is called although it is paused", Breaks: []string{"I7"},
			Package: simulation, Test: histories},
		{Name: "pause-revived", What: "a lane of a split client stores a person's pause again after its end", Breaks: []string{"I2"},
			Package: "ratelimit", Test: "TestGatesOfOneClientHeedEachOther", Says: "want a pause of 1m0s"},
		{Name: "pauses-at-once", What: "a pause that is stored at the moment of another is taken for that one", Breaks: []string{"I7"},
			Package: "jobs/memory", Test: rules + "pauses_that_are_stored_at_one_moment_are_told_apart", Says: "is taken for one from before"},
		{Name: "throttling-counts", What: "a call that the target throttled costs an attempt", Breaks: []string{"I8"},
			Package: simulation, Test: histories},
		{Name: "failures-alone-count", What: "an attempt is counted when it has failed, not when it was lost", Breaks: []string{"I6", "I9"},
			Package: simulation, Test: histories},
		{Name: "never-given-up", What: "a job is tried for ever", Breaks: []string{"I9"},
			Package: "jobs", Test: "TestAJobIsGivenUpAfterItsAttemptsAndNotBeforeRetryFor", Says: "given up false"},
		{Name: "all-probe", What: "all jobs of a suspended flow are tried, not one at a time", Breaks: []string{"I9"},
			Package: simulation, Test: histories},
		{Name: "too-old-sent", What: "a job past max_age is sent", Breaks: []string{"I9"},
			Package: simulation, Test: histories},
		{Name: "probe-never-ends", What: "a probe whose end is never told keeps the breaker half-open", Breaks: []string{"I10"},
			Package: "breaker", Test: "TestProbeThatIsNeverEndedCountsAsFailed", Says: "breaker is half-open, want open"},
		{Name: "one-record-is-an-outage", What: "the failures of one record open the breaker for all", Breaks: []string{"I10"},
			Package: "breaker", Test: "TestWhatIsNoOutageKeepsItClosed", Says: "breaker is open, want closed"},
		{Name: "rebound", What: "a flow whose key was changed goes on with the records of the old one", Breaks: []string{"I11"},
			Package: "jobs/memory", Test: rules + "a_flow_that_has_rows_is_refused_when_what_ties_its_records_is_another", Says: "want one change"},
		{Name: "secret-shown", What: "a secret is shown when it is printed", Breaks: []string{"I12"},
			Package: "internal/field", Test: "TestASecretNeverShowsItself", Says: "the secret shows"},
		{Name: "synchronous-normal", What: "SQLite is not asked to flush each commit", Breaks: []string{"I13"},
			Package: "jobs/sqlite", Test: "TestEveryConnectionIsDurable", Says: "synchronous is 1"},
	}
}
