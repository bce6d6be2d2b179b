package postgres

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// listen takes connections on an address and has f answer them.
func listen(t *testing.T, host string, f func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				f(c)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// encrypted answers a request for TLS, and begins it with a certificate.
func encrypted(cert tls.Certificate) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, 8)); err != nil {
			return
		}
		if _, err := c.Write([]byte("S")); err != nil {
			return
		}
		_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}}).Handshake()
	}
}

func TestWhyThereIsNoConnectionIsSaidOnceAndWithWhatToDo(t *testing.T) {
	t.Parallel()
	https := httptest.NewTLSServer(nil)
	t.Cleanup(https.Close)
	cert := https.TLS.Certificates[0]
	root := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	silent := listen(t, "127.0.0.1", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	plain := listen(t, "127.0.0.1", func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, 8)); err == nil {
			_, _ = c.Write([]byte("N"))
		}
	})
	secured := listen(t, "127.0.0.1", encrypted(cert))
	elsewhere := listen(t, "127.0.0.2", encrypted(cert))
	const refused = "connection refused at 127.0.0.1:1; look at host and port, and whether the server runs"
	for name, c := range map[string]struct {
		set  func(s *Settings)
		want string
	}{
		"nobody listens":       {func(s *Settings) { s.Port = 1 }, refused},
		"on two hosts":         {func(s *Settings) { s.Host, s.Port = "127.0.0.1,127.0.0.2", 1 }, refused + "; " + strings.Replace(refused, "127.0.0.1", "127.0.0.2", 1)},
		"no socket":            {func(s *Settings) { s.Host = "/nonexistent" }, "no such file or directory at /nonexistent/.s.PGSQL.5432; look at host and port, and whether the server runs"},
		"no answer":            {func(s *Settings) { s.Port = silent }, "no answer in time; look at host, port and what stands between"},
		"no TLS":               {func(s *Settings) { s.Port, s.SSLMode = plain, "require" }, "the server offers no TLS; turn it on there, or set sslmode: disable where nobody can listen on the way"},
		"an unknown authority": {func(s *Settings) { s.Port, s.SSLMode = secured, "verify-full" }, "the server's certificate is signed by an authority that this machine does not know; name its file in sslrootcert"},
		"another host's certificate": {func(s *Settings) {
			s.Host, s.Port, s.SSLMode, s.SSLRootCert = "127.0.0.2", elsewhere, "verify-full", root
		},
			"the server's certificate is not made out to 127.0.0.2; give the host by a name that it bears, or set sslmode: verify-ca"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &base{t: t, gate: &gate{}, now: day, settings: &Settings{}}
			field.Declare(b.settings)
			b.settings.Host, b.settings.Database, b.settings.User, b.settings.Password = "127.0.0.1", "app", "sync", field.NewSecret("CANARY")
			c.set(b.settings)
			env := b.env()
			env.Timeout = time.Minute
			if name == "no answer" {
				env.Timeout = 500 * time.Millisecond
			}
			in, err := b.settings.Open(t.Context(), env)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close() }()
			got := in.Check(t.Context(), nil, nil)
			if want := "no connection to the database: " + c.want; len(got) != 1 || !got[0].Unreachable || got[0].Problem != want {
				t.Errorf("got  %+v\nwant %s", got, want)
			}
		})
	}
}

func TestNamesThatCannotBeLookedUpAreTold(t *testing.T) {
	for want, err := range map[string]error{
		"no address is known of the host db.example.com; look at host":                      &net.DNSError{Err: "no such host", Name: "db.example.com", IsNotFound: true},
		"the host db.example.com could not be looked up: server misbehaving":                &net.DNSError{Err: "server misbehaving", Name: "db.example.com"},
		"no answer from 192.0.2.1:5432 in time; look at host, port and what stands between": &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5432}, Err: os.ErrDeadlineExceeded},
	} {
		if got := attemptText(fmt.Errorf("dial error: %w", err)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestFileOfTheAuthorityThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	b := &base{t: t, gate: &gate{}, now: day, settings: &Settings{}}
	field.Declare(b.settings)
	b.settings.Host, b.settings.Database, b.settings.User, b.settings.SSLRootCert = "127.0.0.1", "app", "sync", "/nonexistent/root.pem"
	_, err := b.settings.Open(t.Context(), connectors.Env{Client: "erp"})
	if want := "client erp: sslrootcert: open /nonexistent/root.pem: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
