package httpx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// dialTimeout bounds resolving a name and connecting to one of its addresses,
	// and again the TLS handshake.
	dialTimeout = 10 * time.Second
	// idleTimeout is shorter than that of common servers and balancers, so that we
	// close idle connections rather than meet one that is being closed.
	idleTimeout = 30 * time.Second
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 256 << 10
	maxCAFile = 1 << 20
)

// dialError says at which step a connection failed: "dns", "connect", "tls" …
type dialError struct {
	code string
	err  error
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func newTransport(o Options) (*http.Transport, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(32)}
	if o.CAFile != "" {
		roots, err := readCAs(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		cfg.RootCAs = roots
	}
	d := &dialer{dial: o.Dial, tls: cfg}
	if d.dial == nil {
		d.dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second, Control: guard}).DialContext
	}
	n := orDefault(o.Concurrency, defaultConcurrency)
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  o.Proxy,
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		TLSClientConfig:        cfg, // for TLS through a proxy
		TLSHandshakeTimeout:    dialTimeout,
		DisableCompression:     true, // we do it by what the answer says
		MaxIdleConns:           n,
		MaxIdleConnsPerHost:    n,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              p,
	}, nil
}

func readCAs(name string) (*x509.CertPool, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCAFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxCAFile)
	}
	pem, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", name)
	}
	return pool, nil
}

type dialer struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	tls  *tls.Config
}

func (d *dialer) plain(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn}, nil
}

func (d *dialer) secure(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	cfg := d.tls.Clone()
	cfg.ServerName = host
	session := tls.Client(conn, cfg)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := session.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &dialError{"tls", err}
	}
	return &wireConn{Conn: session}, nil
}

func (d *dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr)
	if err == nil {
		return conn, nil
	}
	code := "connect"
	var refused *refusedAddressError
	var dns *net.DNSError
	switch {
	case errors.As(err, &refused):
		code = "address_refused"
	case errors.As(err, &dns) && dns.IsNotFound:
		code = "no_such_host"
	case errors.As(err, &dns):
		code = "dns"
	}
	return nil, &dialError{code, err}
}

// refusedAddressError says that a name led to an address that no API has.
type refusedAddressError struct {
	addr netip.Addr
	why  string
}

func (e *refusedAddressError) Error() string {
	return fmt.Sprintf("address %s is refused: %s", e.addr, e.why)
}

// guard looks at each address that is about to be connected to, after its name
// was resolved, so that no name and no redirect can lead to a service of the
// machine's cloud that gives out credentials.
func guard(network, address string, _ syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("network %q is refused", network)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q cannot be read", address)
	}
	if why := forbidden(ap.Addr()); why != "" {
		return &refusedAddressError{ap.Addr(), why}
	}
	return nil
}

// forbidden says why an address is refused, "" if it is not. Private ranges are
// allowed: ERPs live there.
func forbidden(a netip.Addr) string {
	a = embedded(a.WithZone(""))
	switch {
	case a.IsUnspecified() || a.Is4() && a.As4()[0] == 0:
		return "it is unspecified"
	case a.IsLinkLocalUnicast():
		return "it is link-local, where cloud machines find their credentials"
	case a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "it is no single machine"
	case a == netip.MustParseAddr("fd00:ec2::254"), // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
		a == netip.MustParseAddr("fd20:ce::254"),    // https://cloud.google.com/compute/docs/metadata/overview
		a == netip.MustParseAddr("100.100.100.200"), // https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
		a == netip.MustParseAddr("168.63.129.16"):   // https://learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
		return "it is where cloud machines find their credentials"
	}
	return ""
}

// embedded returns the IPv4 address within an IPv6 one that a translator on the
// way turns into it: IPv4-mapped, NAT64 (RFC 6052) and 6to4 (RFC 3056).
func embedded(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}
