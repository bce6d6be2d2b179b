package httpx

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxErrorBody bounds what is kept of an answer that is an error.
const maxErrorBody = 1 << 20

// bodyError says why a body could not be had whole: code is "too_large",
// "gzip", "encoding", "charset", or "" when reading from the connection failed with err.
type bodyError struct {
	code   string
	detail string
	err    error
}

// readBody reads and decompresses a body of at most limit bytes. With an error
// it returns what it got so far.
func readBody(r *http.Response, limit int64) ([]byte, *bodyError) {
	raw := &faults{r: r.Body}
	// Also bounds what is read for a stream that expands to nothing.
	counted := &io.LimitedReader{R: raw, N: limit + 1}
	plain, bad := decoder(r.Header, counted)
	if bad != nil {
		return nil, bad
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, limit, 1<<20)) + bytes.MinRead)
	}
	_, err := io.Copy(&buf, io.LimitReader(plain, limit+1))
	body := buf.Bytes()
	switch {
	case int64(len(body)) > limit || counted.N <= 0:
		return body[:min(int64(len(body)), limit)], &bodyError{code: "too_large", detail: fmt.Sprintf("the answer is larger than %d bytes", limit)}
	case raw.err != nil:
		return body, &bodyError{detail: "the answer was cut", err: raw.err}
	case err != nil:
		return body, &bodyError{code: "gzip", detail: "the answer says that it is compressed with gzip and is not, or not wholly"}
	}
	if len(body) == 0 {
		body = nil
	}
	return body, nil
}

// decoder decompresses by what the answer says, asked for or not.
func decoder(h http.Header, r io.Reader) (io.Reader, *bodyError) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	switch coding {
	case "", "identity":
		return r, nil
	case "gzip", "x-gzip":
		return &gunzip{r: bufio.NewReader(r)}, nil
	}
	return nil, &bodyError{code: "encoding", detail: fmt.Sprintf("the answer is encoded as %q, which was not asked for", short(coding))}
}

// gunzip opens the stream at the first read, so that an answer without a body
// may bear the header too.
type gunzip struct {
	r *bufio.Reader
	z *gzip.Reader
}

func (g *gunzip) Read(p []byte) (int, error) {
	if g.z == nil {
		if _, err := g.r.Peek(1); err != nil {
			return 0, err
		}
		z, err := gzip.NewReader(g.r)
		if err != nil {
			if errors.Is(err, io.EOF) { // cut within the header; bare EOF would look like an end
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		g.z = z
	}
	return g.z.Read(p)
}

// faults remembers how reading failed, which a decompressor on top may hide.
type faults struct {
	r   io.Reader
	err error
}

func (f *faults) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
