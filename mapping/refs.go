package mapping

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Ref names another record that a record refers to. Entity is the target's
// entity (at most 200 bytes), Key is in normal form. Optional means that the
// record may be written without the link while the other has none.
type Ref struct {
	Entity   string
	Key      string
	Optional bool
}

// The members of a placeholder. proofMember exists only inside jq.
const (
	refMember      = "$ref"
	entityMember   = "entity"
	keyMember      = "key"
	optionalMember = "optional"
	proofMember    = "proof"
)

const maxEntityBytes = 200

var (
	errForgedRef = errors.New(`has a member "$ref" that the function ref did not make; leave it out or rename it`)
	errRefInText = errors.New("a ref cannot be part of a text; give it a field of its own")
)

// refMaker makes references and tells its own from others. Inside jq a
// reference is an object {"$ref": {entity, key, optional, proof}}, so that it
// survives whatever jq does with objects. The proof is a keyed hash of the
// rest under a key drawn for each compiled program: an event cannot hold it,
// and an object whose key or entity was changed no longer fits it.
type refMaker struct {
	secret [32]byte
}

func newRefMaker() *refMaker {
	m := &refMaker{}
	rand.Read(m.secret[:]) // never fails
	return m
}

func (m *refMaker) proof(r Ref) string {
	mac := hmac.New(sha256.New, m.secret[:])
	mac.Write([]byte(r.Entity))
	mac.Write([]byte{0})
	mac.Write([]byte(r.Key))
	if r.Optional {
		mac.Write([]byte{0, 1})
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func (m *refMaker) make(r Ref) any {
	inner := map[string]any{entityMember: r.Entity, keyMember: r.Key, proofMember: m.proof(r)}
	if r.Optional {
		inner[optionalMember] = true
	}
	return map[string]any{refMember: inner}
}

// verify reads what stands under "$ref" back, if make made it.
func (m *refMaker) verify(inner any) (Ref, bool) {
	o, ok := inner.(map[string]any)
	if !ok {
		return Ref{}, false
	}
	r := Ref{}
	r.Entity, _ = o[entityMember].(string)
	r.Key, _ = o[keyMember].(string)
	r.Optional, _ = o[optionalMember].(bool)
	proof, _ := o[proofMember].(string)
	members := 3
	if r.Optional {
		members = 4
	}
	return r, len(o) == members && hmac.Equal([]byte(proof), []byte(m.proof(r)))
}

// ref is the function of that name: ref(entity; key) and
// ref(entity; key; "optional").
func (m *refMaker) ref(_ *run, _ any, args []any) (any, error) {
	optional := len(args) == 3
	if optional && args[2] != "optional" {
		return nil, errors.New(`the third argument can only be "optional"`)
	}
	entity, err := entityName(args[0])
	if err != nil {
		return nil, err
	}
	if optional && (args[1] == nil || args[1] == "") {
		return nil, nil
	}
	text, err := keyText(args[1])
	if err != nil {
		return nil, err
	}
	key, err := NormalizeKey(text)
	if err != nil {
		return nil, err
	}
	return m.make(Ref{Entity: entity, Key: key, Optional: optional}), nil
}

func entityName(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("entity must be a string but is %s", typeName(v))
	}
	if s == "" || len(s) > maxEntityBytes || !utf8.ValidString(s) || hasControl(s) {
		return "", fmt.Errorf("entity must be 1 to %d bytes of text without control characters", maxEntityBytes)
	}
	return s, nil
}

func hasControl(s string) bool {
	return slices.ContainsFunc([]rune(s), unicode.IsControl)
}

// keyText is the text of a key: a string as it is, a number with its digits.
func keyText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case nil:
		return "", errors.New("key is null")
	}
	if text, ok := numberText(v); ok {
		return text, nil
	}
	return "", fmt.Errorf("key must be a string or a number but is %s", typeName(v))
}

// refSet collects references, each once, in the order they are met.
type refSet struct {
	list []Ref
	seen map[Ref]bool // from the ninth on
}

func (s *refSet) add(r Ref) bool {
	if s.seen == nil && len(s.list) >= 8 {
		s.seen = make(map[Ref]bool, 16)
		for _, have := range s.list {
			s.seen[have] = true
		}
	}
	if s.seen != nil && s.seen[r] || s.seen == nil && slices.Contains(s.list, r) {
		return false
	}
	if s.seen != nil {
		s.seen[r] = true
	}
	s.list = append(s.list, r)
	return true
}

func appendPlaceholder(b []byte, r Ref) []byte {
	b = append(b, `{"$ref":{"entity":`...)
	b = appendJSONString(b, r.Entity)
	b = append(b, `,"key":`...)
	b = appendJSONString(b, r.Key)
	if r.Optional {
		b = append(b, `,"optional":true`...)
	}
	return append(b, "}}"...)
}
