// Package conformance is the suite that every source and every target passes.
// It knows the contracts of package connectors and no platform; connectors'
// tests call it, nothing that is shipped does.
//
// To plug a connector in, write in its own tests a model of the platform: for
// one that speaks HTTP a handler over a map of records, put behind
// hostile.Wrap; for others the real thing (a database of pgtest, a temporary
// folder). Then:
//
//  1. For a source, make a function that returns a SourceModel: Open connects
//     the connector to the model, Put and Delete change records in it, Value
//     reads back from an event what Put was given. Call Source with it.
//  2. For a target, make one that returns a TargetModel: Body makes a record to
//     be written, Held tells what the model holds under a key, Put and Erase
//     act as somebody else would. Call Target with it.
//  3. Fields of the models that may be nil stand for what a platform cannot do;
//     the cases that need them are left out. Set Hostile if the connector
//     speaks HTTP: most of the suite is about what goes wrong on the wire.
//  4. Call the suite once for each way in which the connector can work (each
//     way of paging, each strategy): a model is cheap.
//
// The suite writes whole seconds between 10:00 and 12:00 UTC of 2026-01-10 and,
// where a model has a clock of its own (SetTime), moves it within that day.
package conformance
