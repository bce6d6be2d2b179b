package field

// NodeKind is the kind of a Node.
type NodeKind int

// The kinds of nodes.
const (
	Scalar NodeKind = iota
	Mapping
	Sequence
	Null
)

// String names the kind as errors do.
func (k NodeKind) String() string {
	switch k {
	case Scalar:
		return "a single value"
	case Mapping:
		return "a mapping"
	case Sequence:
		return "a list"
	}
	return "nothing"
}

// Node is a value as it was written, with its place. A loader makes a tree of them; several places may share one node.
type Node struct {
	Kind    NodeKind
	Pos     Pos
	Text    string  // of a scalar: exactly what was written, quotes and escapes undone; of null: "", "~" or "null"
	Quoted  bool    // the scalar was quoted or a block, so that it is a text whatever it looks like
	Marks   []Mark  // where the parts of a scalar's text stand; may be empty
	Literal bool    // the scalar is taken as it is: no references in it, and a secret may be given so (a value from the environment)
	Entries []Entry // of a mapping, in the order of the file
	Items   []*Node // of a sequence
}

// Entry is one key of a mapping with its value.
type Entry struct {
	Key    string
	KeyPos Pos
	Value  *Node
}

// Entry returns the entry with that key, or nil.
func (n *Node) Entry(key string) *Entry {
	if n == nil || n.Kind != Mapping {
		return nil
	}
	for i := range n.Entries {
		if n.Entries[i].Key == key {
			return &n.Entries[i]
		}
	}
	return nil
}
