// Package ratelimit decides when a client may be called: it hands out tokens at
// the client's rate, and holds the pause that the server, the breaker or a
// person has set on the client as a whole. It never sends anything, never
// sleeps through a pause and never repeats a call; a caller that meets a pause
// is told so at once and holds nothing while it lasts. The shared HTTP client
// and connectors that speak other protocols ask the gate before each request
// and show it each answer; the lane and the daemon read its state.
package ratelimit
