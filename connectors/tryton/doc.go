// Package tryton writes to a Tryton ERP over its JSON-RPC: parties by code,
// products by code, sales by web_id (module web_shop). It is a target only.
//
// A record's fields are Tryton's own. Their types are asked of the server once,
// so that a mapping writes plain JSON: an amount "12.50", a date "2026-11-29", a
// many-to-one as an id, a reference, or a text that names one record ("USD").
// A one-to-many is a list of objects and is brought to be as listed, in the same
// write. Sentences of the server are shown without what may be a customer's.
//
// The reply's envelope depends on the request's: with exactly the members id,
// method and params, errors come in an HTTP 200 as [type, details]. Tryton has no
// codes: a taken key, a missing field and a missing right are all a UserError with
// a translated sentence, so a refused create is looked up by key and not by text.
//
// A sale's state is part of the record. Buttons that do not apply are passed over
// in silence, so the state is read back in the end. The server does not protect a
// sale in processing from being written by RPC: that a document is frozen is
// decided here, by the state that is read before the write.
//
// Seen with Tryton 6.0 (Debian 12). Protocol: https://docs.tryton.org/6.0/server/topics/
package tryton
