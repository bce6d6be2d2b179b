package httpx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// why names the cause of a failed exchange, and says it in words without
// anything that came from the server. cause is what may be unwrapped.
func (c *Client) why(ctx, limited context.Context, err error) (code, detail string, cause error) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "canceled", "the caller gave up", ctx.Err()
	case limited.Err() != nil: // our own limit, or the caller's deadline
		return "timeout", "no whole answer in time", context.DeadlineExceeded
	}
	var dial *dialError
	if errors.As(err, &dial) {
		return dial.code, dial.Error(), dial.err
	}
	if isTLS(err) {
		return "tls", err.Error(), err
	}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return "reset", "the server reset the connection", err
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout", "no whole answer in time", err
	case isDial(err):
		return "connect", err.Error(), err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, errSealed),
		strings.Contains(err.Error(), "server closed"):
		return "closed", "the server closed the connection", err
	}
	// net/http quotes what it could not read; that is not repeated.
	return "protocol", "the answer is not proper HTTP", nil
}

// closing reports whether an error tells of a connection that the other side has
// closed.
func closing(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "server closed")
}

// isDial reports whether an error tells of a connection that was not made.
func isDial(err error) bool {
	var dial *dialError
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dial) || errors.As(err, &dns) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &host) || errors.As(err, &authority) || errors.As(err, &invalid)
}
