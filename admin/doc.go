// Package admin is what people and their tools look at: metrics for Prometheus,
// and whether the daemon lives and is ready. It owns the names and units of the
// metrics. It changes nothing, calls no platform, and shows no secret and no
// customer data. The command line starts it beside the daemon.
package admin
