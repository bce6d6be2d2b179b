package httpx

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// freePort is a port of the loopback that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestFailuresBeforeTheFirstByteAreNotSent(t *testing.T) {
	dialing := func(err error) func(*Options) {
		return func(o *Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
			}
		}
	}
	tests := []struct {
		name   string
		change func(*Options)
		code   string
		detail string
	}{
		{"nobody listens", nil, "connect", "connection refused"},
		{"name does not exist", dialing(&net.DNSError{Err: "no such host", Name: "shop.test", IsNotFound: true}), "no_such_host", "no such host"},
		{"name server in trouble", dialing(&net.DNSError{Err: "server misbehaving", Name: "shop.test", IsTemporary: true}), "dns", "server misbehaving"},
		{"no route", dialing(errors.New("network is unreachable")), "connect", "network is unreachable"},
	}
	for _, tt := range tests {
		for _, isWrite := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, write %t", tt.name, isWrite), func(t *testing.T) {
				c, g := newClient(t, "http://"+freePort(t), tt.change)
				_, err := c.Do(t.Context(), &Request{Method: "POST", Path: "/orders", Write: isWrite, Body: []byte("{}")})
				e := wantError(t, err, NotSent, tt.code)
				if e.Sent || !strings.Contains(e.Detail, tt.detail) {
					t.Errorf("sent %t, detail %q", e.Sent, e.Detail)
				}
				if len(g.signals()) != 0 {
					t.Error("the gate was shown an answer that never came")
				}
			})
		}
	}
}

func TestConnectionThatHangsIsNotSent(t *testing.T) {
	c, _ := newClient(t, "http://192.0.2.1", func(o *Options) {
		o.Timeout = 50 * time.Millisecond
		o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	wantError(t, err, NotSent, "timeout")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = c.Do(ctx, write("/orders", "{}"))
	wantError(t, err, NotSent, "timeout")
}

// authority can sign certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key = issue(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	})
	return a
}

func issue(t *testing.T, by *authority, tmpl *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl.SerialNumber = big.NewInt(1)
	if by == nil {
		by = &authority{tmpl, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// file writes the authority's certificate where CAFile can name it.
func (a *authority) file(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// serve starts a TLS server with a certificate made from tmpl.
func (a *authority) serve(t *testing.T, tmpl *x509.Certificate, change func(*tls.Config)) string {
	t.Helper()
	tmpl.NotBefore = time.Now().Add(-24 * time.Hour)
	if tmpl.NotAfter.IsZero() {
		tmpl.NotAfter = time.Now().Add(time.Hour)
	}
	cert, key := issue(t, a, tmpl)
	s := httptest.NewUnstartedServer(answerer(200, "{}"))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
	if change != nil {
		change(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestTLSIsAlwaysVerified(t *testing.T) {
	loopback := func() *x509.Certificate { return &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}} }
	expired := loopback()
	expired.NotAfter = time.Now().Add(-time.Hour)
	tests := []struct {
		name   string
		cert   *x509.Certificate
		trust  bool
		change func(*tls.Config)
		want   string // part of the detail, "" for success
	}{
		{"trusted by ca_file", loopback(), true, nil, ""},
		{"unknown authority", loopback(), false, nil, "certificate signed by unknown authority"},
		{"expired", expired, true, nil, "certificate has expired"},
		{"other name", &x509.Certificate{DNSNames: []string{"old.shop.test"}}, true, nil, "doesn't contain any IP SANs"},
		{"TLS 1.1 only", loopback(), true, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, "protocol version"},
		{"HTTP/2 offered too", loopback(), true, func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ca := newAuthority(t)
			c, _ := newClient(t, ca.serve(t, tt.cert, tt.change), func(o *Options) {
				if tt.trust {
					o.CAFile = ca.file(t)
				}
			})
			_, err := c.Do(t.Context(), write("/orders", "{}"))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e := wantError(t, err, NotSent, "tls")
			if e.Sent || !strings.Contains(e.Detail, tt.want) {
				t.Errorf("sent %t, detail %q", e.Sent, e.Detail)
			}
		})
	}
}

func TestTLSToAPlainPortIsNotSent(t *testing.T) {
	plain := newDirect(t, answerer(200, "{}"))
	c, _ := newClient(t, "https"+strings.TrimPrefix(plain, "http"), nil)
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	wantError(t, err, NotSent, "tls")
}

func TestUnusableCAFileStopsTheStart(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.pem")
	if err := os.WriteFile(text, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large.pem")
	if err := os.WriteFile(large, bytes.Repeat([]byte("x"), maxCAFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.pem")
	for name, want := range map[string]string{
		text:    `client "shop": ca_file: ` + text + " holds no certificate in PEM form",
		large:   fmt.Sprintf(`client "shop": ca_file: %s is larger than %d bytes`, large, maxCAFile),
		missing: `client "shop": ca_file: stat ` + missing + ": no such file or directory",
	} {
		_, err := New(Options{Client: "shop", Gate: &gate{}, BaseURL: mustParse(t, "https://shop.test"), CAFile: name})
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestAddressesOfCloudCredentialsAreRefused(t *testing.T) {
	tests := []struct {
		addr    string
		refused bool
	}{
		{"127.0.0.1", false},
		{"::1", false},
		{"10.0.0.1", false},
		{"192.168.1.10", false},
		{"172.16.0.1", false},
		{"fd12:3456::1", false},
		{"93.184.216.34", false},
		{"2001:db8::1", false},
		{"64:ff9b::5db8:d822", false},
		{"169.254.169.254", true},
		{"169.254.0.1", true},
		{"::ffff:169.254.169.254", true},
		{"64:ff9b::a9fe:a9fe", true},
		{"2002:a9fe:a9fe::1", true},
		{"fe80::1", true},
		{"fe80::1%eth0", true},
		{"fd00:ec2::254", true},
		{"fd20:ce::254", true},
		{"100.100.100.200", true},
		{"168.63.129.16", true},
		{"0.0.0.0", true},
		{"0.1.2.3", true},
		{"::", true},
		{"::ffff:0.0.0.0", true},
		{"224.0.0.1", true},
		{"ff02::1", true},
		{"255.255.255.255", true},
	}
	for _, tt := range tests {
		t.Run(tt.addr, func(t *testing.T) {
			err := guard("tcp4", netip.AddrPortFrom(netip.MustParseAddr(tt.addr), 80).String(), nil)
			if (err != nil) != tt.refused {
				t.Errorf("guard says %v", err)
			}
		})
	}
	for _, odd := range [][2]string{{"udp", "10.0.0.1:53"}, {"unix", "/tmp/x"}, {"tcp", "nonsense"}} {
		if guard(odd[0], odd[1], nil) == nil {
			t.Errorf("guard takes %s %s", odd[0], odd[1])
		}
	}
}

func TestRefusedAddressIsSeenAtTheConnection(t *testing.T) {
	for _, base := range []string{"http://169.254.169.254/latest/meta-data", "http://[::ffff:169.254.169.254]/", "http://2852039166/", "http://0.0.0.0:1/"} {
		t.Run(base, func(t *testing.T) {
			c, _ := newClient(t, base, nil)
			_, err := c.Do(t.Context(), &Request{})
			var e *Error
			if !errors.As(err, &e) || e.Kind != NotSent || e.Code != "address_refused" && e.Code != "no_such_host" && e.Code != "dns" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEnvironmentsProxyIsNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://"+freePort(t))
	t.Setenv("http_proxy", "http://"+freePort(t))
	// The loopback is exempt from the environment's proxy, so the name must be another.
	srv := mustParse(t, newDirect(t, answerer(200, "{}")))
	toServer := func(o *Options) {
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != "shop.test:80" {
				return nil, fmt.Errorf("dialed %s", addr)
			}
			return new(net.Dialer).DialContext(ctx, network, srv.Host)
		}
	}
	c, _ := newClient(t, "http://shop.test", toServer)
	if _, err := c.Do(t.Context(), &Request{}); err != nil {
		t.Error(err)
	}
}

func TestWriteThroughAProxy(t *testing.T) {
	ca := newAuthority(t)
	target := mustParse(t, ca.serve(t, &x509.Certificate{DNSNames: []string{"erp.test"}}, nil))
	proxy := newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "erp.test:443" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		up, err := new(net.Dialer).DialContext(r.Context(), "tcp", target.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		down, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = up.Close()
			return
		}
		_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(up, down); _ = up.Close() }()
		_, _ = io.Copy(down, up)
		_ = down.Close()
	}))
	through := func(trust bool) func(*Options) {
		return func(o *Options) {
			o.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy) }
			if trust {
				o.CAFile = ca.file(t)
			}
		}
	}
	c, _ := newClient(t, "https://erp.test", through(true))
	if _, err := c.Do(t.Context(), write("/orders", "{}")); err != nil {
		t.Error(err)
	}
	c, _ = newClient(t, "https://erp.test", through(false))
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	wantError(t, err, NotSent, "tls")
	c, _ = newClient(t, "https://other.test", through(true))
	_, err = c.Do(t.Context(), write("/orders", "{}"))
	wantError(t, err, NotSent, "connect")
}

func TestErrorsAndLogsHoldNoQueryAndNoCredential(t *testing.T) {
	var out bytes.Buffer
	c, _ := newClient(t, "http://"+freePort(t)+"/wc/v3", func(o *Options) {
		o.Auth = Basic("ck_1", secret("cs_"+canary))
		o.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	requests := []*Request{
		{Path: "orders", Query: url.Values{"consumer_key": {"ck_1"}, "consumer_secret": {canary}}},
		{URL: "orders?consumer_secret=" + canary},
		{URL: "http://user:" + canary + "@127.0.0.1:1/orders?token=" + canary},
		{URL: "http://127.0.0.1:1/%zz?token=" + canary},
		{Path: "orders?token=" + canary},
		{Path: "orders", Header: http.Header{"X-Key": {canary + "\r\nInjected: 1"}}},
	}
	for _, r := range requests {
		_, err := c.Do(t.Context(), r)
		if err == nil {
			t.Errorf("%+v was sent", r)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, canary) {
				t.Errorf("the error tells a secret: %s", text)
			}
		}
	}
	if strings.Contains(out.String(), canary) || !strings.Contains(out.String(), "request failed") {
		t.Errorf("log: %s", out.String())
	}
}
