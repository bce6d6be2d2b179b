package stored

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
)

// MaxBody is the largest body, in bytes, before compression.
const MaxBody = 64 << 20

// ErrTooLarge says that a body is larger than MaxBody.
var ErrTooLarge = errors.New("body larger than 64 MiB")

// The first byte of a stored body says how the rest is to be read.
const (
	formRaw byte = 0
	formS2  byte = 1
)

// worthIt is the length below which compression gains less than it costs.
const worthIt = 96

// Packer brings bodies to their stored form. The bodies of one batch share a
// few large buffers, so a Packer is for one batch. The zero value is ready.
type Packer struct {
	buf []byte
}

// The buffers of a Packer, in bytes: each is twice as large as the one before.
const (
	firstChunk  = 2 << 10
	packerChunk = 256 << 10
)

// Pack returns the stored form of a body; nil for an empty one.
func (p *Packer) Pack(body []byte) ([]byte, error) {
	switch n := len(body); {
	case n == 0:
		return nil, nil
	case n > MaxBody:
		return nil, fmt.Errorf("%w: it has %d bytes", ErrTooLarge, n)
	case n < worthIt:
		return p.raw(body), nil
	}
	room := p.room(1 + s2.MaxEncodedLen(len(body)))
	packed := s2.Encode(room[1:], body)
	if len(packed) >= len(body) {
		return p.raw(body), nil
	}
	room[0] = formS2
	return p.take(1 + len(packed)), nil
}

func (p *Packer) raw(body []byte) []byte {
	room := p.room(1 + len(body))
	room[0] = formRaw
	copy(room[1:], body)
	return p.take(1 + len(body))
}

// room returns n free bytes behind those in use.
func (p *Packer) room(n int) []byte {
	if cap(p.buf)-len(p.buf) < n {
		p.buf = make([]byte, 0, max(n, min(max(2*cap(p.buf), firstChunk), packerChunk)))
	}
	return p.buf[len(p.buf) : len(p.buf)+n]
}

// take marks the next n bytes as used and returns them.
func (p *Packer) take(n int) []byte {
	from := len(p.buf)
	p.buf = p.buf[:from+n]
	return p.buf[from : from+n : from+n]
}

// Unpack returns the body of a stored form; nil for none. The result shares
// nothing with packed.
func Unpack(packed []byte) (json.RawMessage, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	switch form, rest := packed[0], packed[1:]; form {
	case formRaw:
		return append(json.RawMessage(nil), rest...), nil
	case formS2:
		n, err := s2.DecodedLen(rest)
		if err != nil {
			return nil, fmt.Errorf("read a stored body: %w", err)
		}
		if n > MaxBody {
			return nil, fmt.Errorf("read a stored body: %w: it has %d bytes", ErrTooLarge, n)
		}
		body, err := s2.Decode(make([]byte, n), rest)
		if err != nil {
			return nil, fmt.Errorf("read a stored body: %w", err)
		}
		return body, nil
	default:
		return nil, fmt.Errorf("read a stored body: its form %d is not known; it was written by a newer version of syncd or is damaged", form)
	}
}
