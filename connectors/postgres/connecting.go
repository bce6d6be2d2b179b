package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// connectText says why no connection was made: each cause once, although every address is tried, and with sslmode: prefer twice.
func connectText(err *pgconn.ConnectError) string {
	var texts []string
	var walk func(error)
	walk = func(err error) {
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range several.Unwrap() {
				walk(e)
			}
			return
		}
		if t := attemptText(err); !slices.Contains(texts, t) {
			texts = append(texts, t)
		}
	}
	walk(err.Unwrap())
	return strings.Join(texts, "; ")
}

const noAnswer = "no answer in time; look at host, port and what stands between"

// attemptText words the failure of one attempt.
func attemptText(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var verify *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("no address is known of the host %s; look at host", dns.Name)
	case errors.As(err, &dns):
		return fmt.Sprintf("the host %s could not be looked up: %s", dns.Name, dns.Err)
	case errors.As(err, &verify):
		return certificateText(verify)
	case strings.HasSuffix(err.Error(), "server refused TLS connection"):
		return "the server offers no TLS; turn it on there, or set sslmode: disable where nobody can listen on the way"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		if errors.As(err, &op) && op.Addr != nil {
			return fmt.Sprintf("no answer from %s in time; look at host, port and what stands between", op.Addr)
		}
		return noAnswer
	case errors.Is(err, context.Canceled):
		return "the request was canceled"
	case errors.As(err, &op) && op.Op == "dial" && op.Addr != nil:
		cause := op.Err
		var call *os.SyscallError
		if errors.As(cause, &call) {
			cause = call.Err
		}
		return fmt.Sprintf("%s at %s; look at host and port, and whether the server runs", cause, op.Addr)
	}
	return err.Error()
}

func certificateText(err *tls.CertificateVerificationError) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "the server's certificate is signed by an authority that this machine does not know; name its file in sslrootcert"
	case errors.As(err, &host):
		return fmt.Sprintf("the server's certificate is not made out to %s; give the host by a name that it bears, or set sslmode: verify-ca", host.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired, or is not valid yet"
	}
	return "the server's certificate cannot be trusted: " + err.Err.Error()
}
