// Package mapping turns one event of a source into the records it means for a
// target: each flow's jq program is compiled once and run on every event body,
// and its key expression on every record that comes out.
//
// The package owns what a mapping may do: the jq language on exact decimals,
// the functions added to it (docs/mapping.md lists them with examples), the
// one normal form of keys, the canonical JSON of a record and the placeholders
// of its references. It never reads the network, the file system, the
// environment or the wall clock, never logs, and its errors carry field names
// and type names but no value of the event.
//
// The flow's poller calls [Program.Map]; whoever sends a record calls
// [ResolveRefs] first; everybody who stores or looks up a key given from
// outside calls [NormalizeKey].
package mapping
