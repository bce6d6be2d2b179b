// Package hostile is a server that misbehaves on request. It wraps an HTTP
// handler, for tests: before, during or after the handler's work it hangs,
// resets the connection, cuts the answer, or answers something else, one fault
// for one request. It keeps a log of every request on the wire, so that a test
// can tell what was sent and what took effect. The tests of the shared HTTP
// client and of every connector call it; nothing that is shipped does.
package hostile
