package sqlite

import (
	"strings"
	"testing"
)

// What goes through a table continues in its key, and what is asked again and again
// costs no more than what it finds.
func TestNoStatementReadsMoreThanItAnswers(t *testing.T) {
	t.Parallel()
	e := openInternal(t)
	for _, c := range []struct{ name, sql, through string }{
		{"PruneAttempts", pruneAttempts, "SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)\nLIST SUBQUERY 1\nSEARCH attempts USING INTEGER PRIMARY KEY (rowid>?)"},
		{"PruneAttempts, rows", pruneAttempts, "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (flow=? AND key=?)"},
		{"PruneAttempts, last", oldAttempts, "SEARCH attempts USING INTEGER PRIMARY KEY (rowid>?)"},
		{"CountReady", countReady, "SCAN jobs USING COVERING INDEX jobs_due"},
		{"Reshard away from shards", misplaced[0], "SEARCH jobs USING INDEX jobs_due (client=? AND shard>?)"},
		{"Reshard", misplaced[1], "SEARCH jobs USING INDEX jobs_due (client=? AND shard<?)"},
		{"ListSources", listSources, "SEARCH s USING PRIMARY KEY (flow=? AND id>?)"},
		{"ListContenders", listContenders, "SEARCH c USING INDEX sqlite_autoindex_contenders_1 (flow=? AND (key,source_id)>(?,?))"},
		{"ListLinks", listLinks, "SEARCH l USING PRIMARY KEY (client=? AND (entity,key)>(?,?))"},
		{"ListGroups", listGroups, "SEARCH g USING PRIMARY KEY (flow=? AND name>?)"},
		{"ListPins", listPins, "SEARCH p USING INDEX sqlite_autoindex_idempotency_keys_1 ((flow,key,operation)>(?,?,?))"},
		{"ListAttempts", listAttempts, "SEARCH attempts USING INTEGER PRIMARY KEY (rowid>?)"},
		{"ListRequests", listRequests, "SEARCH requests USING INTEGER PRIMARY KEY (rowid>?)"},
		{"LinkClients", linkClients, "SEARCH links USING PRIMARY KEY (client>?)"},
		{"open Runs", openRuns, "USING INDEX runs_open"},
	} {
		plan := explain(t, e, c.sql)
		if !strings.Contains(plan, c.through) || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN links") {
			t.Errorf("%s is done so:\n%s\nwant it through %s", c.name, plan, c.through)
		}
	}
}
