package vendure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// source reads one shop.
type source struct {
	set     *Settings
	http    *httpx.Client
	session *session // nil with a fixed token
	header  http.Header
	now     func() time.Time
	opened  time.Time
	memory  *memory

	mu      sync.Mutex
	readers int
}

// reply is the answer to a query.
type reply struct {
	data    json.RawMessage
	started time.Time
	server  time.Time
}

// gqlError is one entry of errors.
type gqlError struct {
	Message    string `json:"message"`
	Extensions struct {
		Code string `json:"code"`
	} `json:"extensions"`
}

// query sends a query. Data that comes together with errors is not used: a
// cursor must never move over what was left out.
func (s *source) query(ctx context.Context, op, document string, variables map[string]any) (reply, error) {
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return reply{}, err
	}
	for again := false; ; again = true {
		var stamp uint64
		if s.session != nil {
			stamp = s.session.current()
		}
		resp, err := s.http.JSON(ctx, &httpx.Request{Method: http.MethodPost, Body: body, Header: s.header.Clone(), Shape: op, Accept: []int{http.StatusBadRequest}})
		if err != nil {
			return reply{}, connectors.HTTPError(op, err)
		}
		var a struct {
			Data   json.RawMessage `json:"data"`
			Errors []gqlError      `json:"errors"`
		}
		if err := json.Unmarshal(resp.Body, &a); err != nil {
			return reply{}, failed(op, connectors.Transient, "not_graphql", "the answer is no GraphQL answer; is url the address of the admin API?")
		}
		if len(a.Errors) == 0 && resp.Status == http.StatusOK && len(a.Data) > 0 && !bytes.Equal(a.Data, []byte("null")) {
			return reply{a.Data, resp.Started, resp.ServerTime}, nil
		}
		e := first(a.Errors)
		if forbidden(e) && s.session != nil && !again && stamp != 0 {
			s.session.drop(stamp)
			continue
		}
		return reply{}, refusal(op, e)
	}
}

func first(es []gqlError) gqlError {
	if len(es) == 0 {
		return gqlError{}
	}
	return es[0]
}

func forbidden(e gqlError) bool {
	return e.Extensions.Code == "FORBIDDEN" || e.Extensions.Code == "UNAUTHORIZED"
}

// refusal translates a GraphQL error.
func refusal(op string, e gqlError) *connectors.Error {
	code := e.Extensions.Code
	switch {
	case forbidden(e):
		return failed(op, connectors.Auth, "forbidden", "the shop refuses the credentials, or the user lacks ReadOrder, ReadCustomer or ReadCatalog")
	case code == "GRAPHQL_VALIDATION_FAILED" || code == "USER_INPUT_ERROR" || code == "BAD_USER_INPUT":
		return failed(op, connectors.Invalid, "query", "the shop refuses the query ("+code+"): "+short(e.Message)+"; this syncd was made for Vendure 3")
	case code == "" && e.Message == "":
		return failed(op, connectors.Transient, "no_data", "the answer holds neither data nor errors")
	default:
		return failed(op, connectors.Transient, "graphql_error", short(code+" "+e.Message))
	}
}

func failed(op string, c connectors.Class, code, message string) *connectors.Error {
	return &connectors.Error{Outcome: connectors.Fail(c, code, "%s", message), Op: op}
}

func short(s string) string {
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return s
}

// Check asks whether the shop can be reached, and each stream read.
func (i *instance) Check(ctx context.Context, streams, _ []string) []connectors.Finding {
	if len(streams) == 0 {
		return i.probe(ctx, "", kinds()[0])
	}
	var out []connectors.Finding
	for _, name := range streams {
		k, ok := kindOf(name)
		if !ok {
			out = append(out, connectors.Finding{Subject: name, Problem: fmt.Sprintf("there is no stream %q; there are orders, customers and variants", name)})
			continue
		}
		out = append(out, i.probe(ctx, name, k)...)
	}
	return out
}

func (i *instance) probe(ctx context.Context, subject string, k *kind) []connectors.Finding {
	p, err := i.src.list(ctx, k, k.full, map[string]any{"take": 1})
	if err != nil {
		return []connectors.Finding{{Subject: subject, Problem: err.Error(), Unreachable: connectors.Unanswered(err)}}
	}
	return []connectors.Finding{{Subject: subject, Note: fmt.Sprintf("%d %s in all", p.total, k.name)}}
}
