package mapping

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
)

// CompileError is a program that cannot be used, found when it is loaded.
type CompileError struct {
	Field     string // "map", "key" or "group"
	Offset    int    // byte offset in that program, -1 if unknown
	Line, Col int    // 1-based, Col counts characters; 0 if unknown
	Msg       string
	Hint      string // what to do; may be empty
}

// Error gives field:line:col, the message and the hint.
func (e *CompileError) Error() string {
	where := e.Field
	if e.Offset >= 0 {
		where = fmt.Sprintf("%s:%d:%d", e.Field, e.Line, e.Col)
	}
	if e.Hint == "" {
		return where + ": " + e.Msg
	}
	return where + ": " + e.Msg + " (" + e.Hint + ")"
}

// The stages of Error.
const (
	stageBody   = "event body" // reading the event
	stageMap    = "map"        // running the map program
	stageRecord = "record"     // writing what it gave
	stageKey    = "key"        // running the key expression
	stageGroup  = "group"      // running the group expression
)

// Error is an event that a mapping cannot map: a dead letter for that event.
// It holds field names, type names and the program's own words, never a value
// of the event; what the program itself puts into fail(message) is its
// author's business.
type Error struct {
	Stage string // "event body", "map", "record", "key" or "group"
	Path  string // the field of the event or of the record; may be empty
	Msg   string
	Hint  string // what to do; may be empty
}

// Error gives the stage, the field, the message and the hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Stage)
	if e.Path != "" {
		b.WriteString(": field ")
		b.WriteString(strings.TrimPrefix(e.Path, "."))
	}
	b.WriteString(": ")
	b.WriteString(e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// callError is a function or operator that failed, with its place in the
// program. Its text goes to try … catch as well.
type callError struct {
	site string
	err  error
}

func (e *callError) Error() string { return e.site + ": " + e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// ownWords is what fail(message) gives: the author's text alone.
type ownWords struct{ text string }

func (e *ownWords) Error() string { return e.text }

// Value makes try … catch see the plain message, as after jq's error.
func (e *ownWords) Value() any { return e.text }

// typeName is jq's name of v's type, with an article.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int, json.Number, float64, *big.Int:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a value of an unknown type"
}

// describe gives the text of an error of a run without any value in it. jq's
// own messages quote up to 30 bytes of the data they failed on, so they are
// put together again from their type and the types of what they hold.
func describe(err error) string {
	var call *callError
	if errors.As(err, &call) {
		return call.Error()
	}
	var own *ownWords
	if errors.As(err, &own) {
		return own.Error()
	}
	if e := reflect.ValueOf(err); e.Kind() == reflect.Pointer && e.Elem().Kind() == reflect.Struct {
		return describeJQ(jqError{e.Elem()})
	}
	return "failed in a function of jq"
}

// jqError reads the unexported errors of gojq. TestErrorsQuoteNoData meets
// every one of them, and would tell of a change.
type jqError struct{ v reflect.Value }

func (e jqError) field(name string) reflect.Value { return e.v.FieldByName(name) }

func (e jqError) name(field string) string {
	if f := e.field(field); f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}

func (e jqError) typ(field string) string {
	f := e.field(field)
	if !f.IsValid() || f.Kind() != reflect.Interface || f.IsNil() {
		return "null"
	}
	switch f = f.Elem(); f.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		if f.Type() == reflect.TypeFor[json.Number]() {
			return "a number"
		}
		return "a string"
	case reflect.Slice:
		return "an array"
	case reflect.Map:
		return "an object"
	}
	return "a number"
}

func describeJQ(e jqError) string {
	switch e.v.Type().Name() {
	case "expectedObjectError":
		return "an object was expected but there is " + e.typ("v")
	case "expectedArrayError":
		return "an array was expected but there is " + e.typ("v")
	case "iteratorError":
		return "cannot iterate over " + e.typ("v")
	case "objectKeyNotStringError":
		return "the name of a member must be a string but is " + e.typ("v")
	case "arrayIndexNotNumberError":
		return "the index of an array must be a number but is " + e.typ("v")
	case "stringIndexNotNumberError":
		return "the index of a string must be a number but is " + e.typ("v")
	case "arrayIndexNegativeError":
		return "the index of an array is negative"
	case "arrayIndexTooLargeError":
		return "the index of an array is too large"
	case "expectedStartEndError":
		return `an index that is an object needs "start" and "end"`
	case "func0TypeError", "func0WrapError":
		return e.name("name") + " cannot be applied to " + e.typ("v")
	case "func1TypeError", "func1WrapError":
		return e.name("name") + " cannot be applied to " + e.typ("v") + " with " + e.typ("w")
	case "func2TypeError", "func2WrapError":
		return e.name("name") + " cannot be applied to " + e.typ("v") + " with " + e.typ("w") + " and " + e.typ("x")
	case "flattenDepthError":
		return "the depth of flatten is negative"
	case "unaryTypeError":
		return "cannot " + e.name("name") + " " + e.typ("v")
	case "formatNotFoundError":
		return "there is no such format"
	case "formatRowError":
		return "@" + e.name("typ") + " cannot write " + e.typ("v") + " in a row"
	case "invalidPathError", "invalidPathIterError":
		return "not a path into the input: a calculated value cannot be assigned to or deleted"
	case "breakError":
		return "break without its label"
	case "binopTypeError", "zeroDivisionError", "zeroModuloError":
		return "cannot " + cmp.Or(e.name("name"), "divide") + " " + e.typ("l") + " and " + e.typ("r")
	case "exitCodeError":
		return "error was called with " + e.typ("value")
	}
	return "failed in a function of jq"
}
