package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// graphql asks one of the shop's two APIs.
type graphql struct {
	url  string
	http *http.Client
}

func newGraphQL(url string) *graphql {
	return &graphql{url: url, http: &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{MaxIdleConnsPerHost: 32},
	}}
}

type vars map[string]any

// query sends one query and decodes its data. It returns the session token that the shop gave with the answer, if any.
func (g *graphql) query(ctx context.Context, token, query string, v vars, data any) (string, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": v})
	if err != nil {
		return "", fmt.Errorf("encode a query: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", g.url, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the shop: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return "", fmt.Errorf("read the shop's answer: %w", err)
	}
	var envelope struct {
		Data   json.RawMessage
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return "", fmt.Errorf("the shop answers %s: %.200q", resp.Status, answer)
	}
	if len(envelope.Errors) > 0 {
		return "", fmt.Errorf("the shop refuses %.60q: %s", strings.TrimSpace(query), envelope.Errors[0].Message)
	}
	if err := json.Unmarshal(envelope.Data, data); err != nil {
		return "", fmt.Errorf("decode the shop's answer to %.60q: %w", strings.TrimSpace(query), err)
	}
	return resp.Header.Get("vendure-auth-token"), nil
}

// result is what a mutation came to. The shop reports a refusal as data, with an error code.
type result struct {
	ID        string
	Code      string
	State     string
	ErrorCode string
	Message   string
}

// mutate sends a mutation that has one root field, and takes a refusal for an error.
func (g *graphql) mutate(ctx context.Context, token, mutation string, v vars) (result, string, error) {
	var data map[string]result
	token, err := g.query(ctx, token, "mutation"+mutation, v, &data)
	if err != nil {
		return result{}, "", err
	}
	for name, r := range data {
		if r.ErrorCode != "" {
			return result{}, "", fmt.Errorf("the shop refuses %s: %s: %s", name, r.ErrorCode, r.Message)
		}
		return r, token, nil
	}
	return result{}, "", fmt.Errorf("the shop answers nothing to %.60q", mutation)
}
