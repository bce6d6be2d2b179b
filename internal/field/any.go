package field

import "encoding/json"

func (b *binder) any(n *Node, at place, p *any) { *p = b.tree(n, at) }

func (b *binder) json(n *Node, at place, p *json.RawMessage) {
	raw, err := json.Marshal(b.tree(n, at))
	if err != nil {
		b.list.unreadable(at, "cannot be written as JSON")
		return
	}
	*p = raw
}

func (b *binder) tree(n *Node, at place) any {
	switch n.Kind {
	case Mapping:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			m[e.Key] = b.tree(e.Value, at.child(e.Key))
		}
		return m
	case Sequence:
		l := make([]any, len(n.Items))
		for i, v := range n.Items {
			l[i] = b.tree(v, at.item(i))
		}
		return l
	case Null:
		return nil
	}
	if !n.Quoted && !n.Literal {
		switch {
		case n.Text == "true", n.Text == "false":
			return n.Text == "true"
		case jsonNumber.MatchString(n.Text):
			return json.Number(n.Text)
		}
	}
	text, _, _ := b.expanded(n, at)
	return text
}
