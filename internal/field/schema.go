package field

import (
	"encoding/json"
	"strings"
)

// Schema returns the JSON Schema (2020-12) of a mapping with these fields, for editors. It is a little narrower than Bind where
// a schema cannot say the same: a field with choices takes no reference, and a whole number no quotes.
func Schema(s *Set) map[string]any {
	props, required := properties(s)
	o := map[string]any{"type": []any{"object", "null"}, "properties": props}
	if len(required) > 0 {
		// Nothing at all would leave them out.
		o["type"], o["required"] = "object", required
	}
	on, variants := s.Variants()
	if on == "" {
		o["additionalProperties"] = false
		return o
	}
	var all []any
	for _, v := range variants {
		then := Schema(v.Set)
		own := then["properties"].(map[string]any)
		for name := range props {
			own[name] = true
		}
		delete(then, "type")
		all = append(all, map[string]any{
			"if":   map[string]any{"properties": map[string]any{on: map[string]any{"const": v.Choice.Name}}, "required": []any{on}},
			"then": then,
		})
	}
	o["allOf"] = all
	return o
}

func properties(s *Set) (props map[string]any, required []any) {
	props = map[string]any{}
	for _, f := range s.fields {
		p := f.schema()
		p["description"] = f.Description()
		if f.HasDefault {
			p["default"] = f.jsonValue(f.Default)
		}
		if f.Example != "" {
			p["examples"] = []any{f.jsonValue(f.Example)}
		}
		props[f.Name] = p
		if f.Needed() {
			required = append(required, f.Name)
		}
	}
	return props, required
}

// Needed tells whether a mapping without this field is incomplete: the field is required, or holds one that is.
func (f *Field) Needed() bool {
	if f.Required {
		return true
	}
	if f.Kind != KindStruct {
		return false
	}
	for _, sub := range f.Sub().fields {
		if sub.Needed() {
			return true
		}
	}
	return false
}

// Description is the field's documentation, with what each choice means.
func (f *Field) Description() string {
	d := f.Doc
	for _, c := range f.Choices {
		if c.Doc != "" {
			d += "\n" + c.Name + ": " + strings.TrimSuffix(c.Doc, ".") + "."
		}
	}
	return d
}

func anyText() map[string]any { return map[string]any{"type": []any{"string", "number", "boolean"}} }

func (f *Field) schema() map[string]any {
	switch f.Kind {
	case KindBool:
		return map[string]any{"type": "boolean"}
	case KindInt:
		return f.bounds(map[string]any{"type": "integer"})
	case KindFloat:
		return f.bounds(map[string]any{"type": "number"})
	case KindDuration:
		return unitOrZero(`^([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$`)
	case KindSize:
		return unitOrZero(`^[0-9]+ ?(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)$`)
	case KindSecret:
		return map[string]any{"type": "string", "pattern": `^\$\{(env|file|credential):[^}]+\}$`}
	case KindURL:
		return map[string]any{"type": "string", "pattern": `^(https?://|\$\{)`}
	case KindStrings:
		return map[string]any{"type": []any{"array", "null"}, "items": f.text()}
	case KindStringMap:
		return f.names(map[string]any{"type": []any{"object", "null"}, "additionalProperties": anyText()})
	case KindAny:
		return map[string]any{}
	case KindStruct:
		return Schema(f.Sub())
	case KindStructText:
		return map[string]any{"anyOf": []any{anyText(), Schema(f.Sub())}}
	case KindMap:
		return f.names(map[string]any{"type": []any{"object", "null"}, "additionalProperties": Schema(f.Sub())})
	case KindList:
		return map[string]any{"type": []any{"array", "null"}, "items": Schema(f.Sub())}
	}
	return f.text()
}

func (f *Field) text() map[string]any {
	switch {
	case len(f.Choices) > 0:
		var names []any
		for _, c := range f.Choices {
			names = append(names, c.Name)
		}
		return map[string]any{"enum": names}
	case f.Pattern != "":
		return map[string]any{"type": "string", "pattern": "^(" + f.Pattern + ")$"}
	}
	return anyText()
}

func (f *Field) bounds(o map[string]any) map[string]any {
	if f.Min != "" {
		o["minimum"] = json.Number(f.Min)
	}
	if f.Max != "" {
		o["maximum"] = json.Number(f.Max)
	}
	return o
}

func (f *Field) names(o map[string]any) map[string]any {
	if f.NameRule != "" {
		o["propertyNames"] = map[string]any{"pattern": "^(" + f.NameRule + ")$"}
	}
	return o
}

func unitOrZero(pattern string) map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": pattern}, map[string]any{"const": 0}}}
}

// jsonValue writes a default or an example as the JSON value of the field.
func (f *Field) jsonValue(text string) any {
	switch f.Kind {
	case KindBool:
		return text == "true"
	case KindInt, KindFloat:
		return json.Number(text)
	case KindDuration, KindSize:
		if text == "0" {
			return 0
		}
	case KindStrings:
		items := []any{}
		for s := range strings.SplitSeq(text, ",") {
			if s = strings.TrimSpace(s); s != "" {
				items = append(items, s)
			}
		}
		return items
	}
	return text
}

// RangeText says in words what range a field has, "" for none.
func (f *Field) RangeText() string {
	if f.Min == "" && f.Max == "" {
		return ""
	}
	return f.rangeText()
}
