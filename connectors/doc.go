// Package connectors holds the contracts between syncd and the platforms it
// speaks to: what a source offers (streams of events), what a target offers
// (entities with primitives to write them), and the one list of outcome
// classes that every answer of every platform is translated into. It knows
// nothing of jobs and journals; the packages below it, one per platform, know
// nothing but this package. The daemon and the strategies call it.
package connectors
