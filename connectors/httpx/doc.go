// Package httpx is the HTTP client that all connectors share. It asks the
// client's gate before every request and shows it every answer, puts on
// credentials that never leave the configured scheme, host and port, bounds
// every body, and says of each failure precisely whether the request may have
// been acted upon. It never repeats or redirects a write and never decides what
// a refusal means for a record: that is the connector's, which knows the
// platform. Connectors call it; it calls the gate and the network.
//
// It speaks HTTP/1.1 only: there a connection carries one request at a time, so
// that one dead connection leaves one write in doubt, never all that are under
// way, and whether a write was sent can be told from the bytes on its
// connection.
package httpx
