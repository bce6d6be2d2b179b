package field

import (
	"regexp"
	"sync"
)

// Option adds something to the declaration of a field.
type Option func(*Field)

// Required makes a field that must be given.
func Required() Option { return func(f *Field) { f.Required = true } }

// Default gives the value of a field that is not given, as one would write it; it goes through the field's own parser.
func Default(text string) Option {
	return func(f *Field) { f.Default, f.HasDefault = text, true }
}

// Example gives a value for the documentation, as one would write it.
func Example(text string) Option { return func(f *Field) { f.Example = text } }

// OneOf restricts a text field to some values.
func OneOf(names ...string) Option {
	return func(f *Field) {
		for _, n := range names {
			f.Choices = append(f.Choices, Choice{Name: n})
		}
	}
}

// Choices restricts a text field to some values and documents each.
func Choices(choices ...Choice) Option {
	return func(f *Field) { f.Choices = append(f.Choices, choices...) }
}

// Range restricts a number, duration or size to min ≤ value ≤ max, both written as the field is; "" leaves a side open.
func Range(min, max string) Option {
	return func(f *Field) { f.Min, f.Max = min, max }
}

// Pattern restricts a text to those that re matches as a whole; what says in words what is accepted. re must be written so that ECMAScript
// reads it alike, for it goes into the JSON Schema. On a field declared by Var, whose Set checks the text, it does only that.
func Pattern(re, what string) Option {
	return func(f *Field) { f.Pattern, f.pattern, f.What = re, whole(re), what }
}

// Names restricts the names a user may choose in a map to those that re matches as a whole, as Pattern does for texts.
func Names(re, what string) Option {
	return func(f *Field) { f.NameRule, f.nameRule, f.NameWhat = re, whole(re), what }
}

// Advanced marks a field that few people need.
func Advanced() Option { return func(f *Field) { f.Advanced = true } }

// Group names the group of fields a field is documented with.
func Group(name string) Option { return func(f *Field) { f.Group = name } }

// wholes are the patterns compiled so far: the same few are declared anew for each client, flow and entity of a configuration.
var wholes sync.Map

func whole(re string) *regexp.Regexp {
	if r, ok := wholes.Load(re); ok {
		return r.(*regexp.Regexp)
	}
	r, _ := wholes.LoadOrStore(re, regexp.MustCompile(`\A(?:`+re+`)\z`))
	return r.(*regexp.Regexp)
}
