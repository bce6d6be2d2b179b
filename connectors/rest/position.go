package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"syncd/connectors"
)

// position is how far a stream has been read: the cursor of the contract. All
// of it comes from what the source sent; our own clock is in it only to
// measure how long a reading has taken.
type position struct {
	V int `json:"v"`
	// Unit of From and Low: "us" or "seq". A cursor made with another unit is refused.
	Unit string `json:"unit,omitempty"`
	// From is the earliest change wanted, 0 for everything.
	From int64 `json:"from,omitempty"`
	// Low is the stamp up to which all has been read.
	Low int64 `json:"low,omitempty"`
	// Most is the greatest number of records that a page has had, for keyset paging
	// that cannot page through the records of one stamp.
	Most int `json:"most,omitempty"`
	// Scan is the reading under way; nil between two readings.
	Scan *scan `json:"scan,omitempty"`
}

// scan is one reading of the listing, from its first page to its end; with
// page numbers it may need several passes.
type scan struct {
	Since int64 `json:"since,omitempty"` // the lower bound asked for; 0 for none
	Until int64 `json:"until,omitempty"` // the frozen upper bound; 0 for none
	Date  int64 `json:"date,omitempty"`  // the server's Date on the first answer, µs; 0 when it told none
	Began int64 `json:"began,omitempty"` // our clock at the first request, µs
	Max   int64 `json:"max,omitempty"`   // the greatest stamp seen
	Max1  int64 `json:"max1,omitempty"`  // the greatest stamp on the first page

	Page   int    `json:"page,omitempty"`
	Offset int    `json:"offset,omitempty"`
	Token  string `json:"token,omitempty"`  // the server's cursor or link to the next page
	At     int64  `json:"at,omitempty"`     // keyset: the last stamp seen, as exactly as a bound can say it
	Sub    int    `json:"sub,omitempty"`    // keyset: page or offset among the records of one stamp
	Before *bound `json:"before,omitempty"` // keyset: what was asked for the page that led to At
	Top    int64  `json:"top,omitempty"`    // keyset: the greatest stamp of that page, to the microsecond
	Stuck  string `json:"stuck,omitempty"`  // keyset: digest of the records of the stamp at which the reading is stuck
	Past   int64  `json:"past,omitempty"`   // keyset: how far it has been read past them
	Last   string `json:"last,omitempty"`   // keyset: digest of the page there
	Size   int    `json:"size,omitempty"`   // the records asked for per page, the same through the reading
	Base   int    `json:"base,omitempty"`   // keyset: the size before it was raised
	Pages  int    `json:"pages,omitempty"`  // pages with records in this pass
	Empty  int    `json:"empty,omitempty"`  // empty pages in a row
	Prev   string `json:"prev,omitempty"`   // digest of the ids of the page before
	Mark   string `json:"mark,omitempty"`   // a token passed earlier, to notice a circle
	Steps  int    `json:"steps,omitempty"`  // pages since the first

	Pass  int    `json:"pass,omitempty"`
	Count int    `json:"count,omitempty"` // records in this pass
	Sum   string `json:"sum,omitempty"`   // digest of the (id, stamp) pairs of this pass, in any order
	Fresh int    `json:"fresh,omitempty"` // records in this pass that none before had
	Was   string `json:"was,omitempty"`   // Sum of the pass before
	IDs   string `json:"ids,omitempty"`   // short hashes of the ids of this pass, while they are few
	Tries int    `json:"tries,omitempty"` // how often this reading began anew
	Hold  int64  `json:"hold,omitempty"`  // Low may not pass it; 0 for no such limit, -1 for not at all
}

// bound is what a page of a keyset reading was asked by.
type bound struct {
	At  int64 `json:"at,omitempty"`
	Sub int   `json:"sub,omitempty"`
}

// readPosition decodes a cursor, or makes the first one.
func (p *plan) readPosition(req connectors.PullRequest) (position, error) {
	unit := ""
	if p.hasVersion {
		unit = "us"
		if !p.version.isTime() {
			unit = "seq"
		}
	}
	if c := bytes.TrimSpace(req.Cursor); len(c) > 0 && !bytes.Equal(c, []byte("null")) {
		var pos position
		if err := json.Unmarshal(c, &pos); err != nil || pos.V != 1 {
			return pos, connectors.Errorf(connectors.Invalid, "cursor_unreadable",
				"the stored cursor was not made by this connector; give the flow a new start")
		}
		if pos.Unit != unit && pos.Low != 0 {
			return pos, connectors.Errorf(connectors.Invalid, "cursor_unit",
				"the stored cursor counts in %q, the stream's version in %q; give the flow a new start", pos.Unit, unit)
		}
		pos.Unit = unit
		return pos, nil
	}
	pos := position{V: 1, Unit: unit}
	if req.Start.All {
		return pos, nil
	}
	if p.hasVersion && p.version.isTime() || p.hasChanged {
		pos.From = req.Start.From.UnixMicro()
		return pos, nil
	}
	return pos, connectors.Errorf(connectors.Invalid, "no_times",
		"the stream tells no times, so it cannot be read from a date on; use start: all, or name the field of changed_at")
}

// encode writes the cursor.
func (pos position) encode() (json.RawMessage, error) {
	b, err := json.Marshal(pos)
	if err != nil {
		return nil, fmt.Errorf("cursor: %w", err)
	}
	if len(b) > maxCursor {
		return nil, connectors.Errorf(connectors.Invalid, "cursor_too_large",
			"the cursor has %d bytes, more than %d: the server's links or page cursors are too long", len(b), maxCursor)
	}
	return b, nil
}

const (
	// maxCursor is the contract's bound on a cursor.
	maxCursor = 64 << 10
	// maxIDs bounds the ids remembered in a cursor, at 8 bytes each.
	maxIDs = 3000
	idHash = 6
)

func hash(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, uint32(len(p)))
		h.Write([]byte(p))
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}

// idsDigest tells one page from another by its ids.
func idsDigest(recs []record) string {
	ids := make([]string, len(recs))
	for i, r := range recs {
		ids[i] = r.id
	}
	sum := hash(ids...)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// addSum adds records to a digest that does not depend on their order.
func addSum(sum string, recs []record) string {
	n, _ := strconv.ParseUint(sum, 16, 64)
	for _, r := range recs {
		h := hash(r.id, strconv.FormatInt(r.stamp, 10))
		n += binary.BigEndian.Uint64(h[:8])
	}
	return strconv.FormatUint(n, 16)
}

// addIDs adds the ids of records to the remembered ones and returns how many
// different ones there are; -1 when there are too many to remember.
func addIDs(ids string, recs []record) (string, int) {
	if ids == "-" {
		return ids, -1
	}
	old, _ := base64.RawStdEncoding.DecodeString(ids)
	seen := make(map[[idHash]byte]bool, len(old)/idHash+len(recs))
	for i := 0; i+idHash <= len(old); i += idHash {
		seen[[idHash]byte(old[i:])] = true
	}
	for _, r := range recs {
		h := hash(r.id)
		k := [idHash]byte(h[:])
		if r.id == "" || seen[k] {
			continue
		}
		seen[k] = true
		old = append(old, k[:]...)
	}
	if len(seen) > maxIDs {
		return "-", -1
	}
	return base64.RawStdEncoding.EncodeToString(old), len(seen)
}

func countIDs(ids string) int {
	if ids == "-" {
		return -1
	}
	return base64.RawStdEncoding.DecodedLen(len(ids)) / idHash
}
