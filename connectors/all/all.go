// Package all is the registry: the literal list of every platform syncd speaks
// to. Adding a platform adds one line here.
package all

import (
	"syncd/connectors"
	"syncd/connectors/file"
	"syncd/connectors/postgres"
	"syncd/connectors/rest"
	"syncd/connectors/tryton"
	"syncd/connectors/vendure"
)

// Connectors returns every connector, by name.
func Connectors() []connectors.Connector {
	return []connectors.Connector{
		file.Connector(),
		postgres.Connector(),
		rest.Connector(),
		tryton.Connector(),
		vendure.Connector(),
	}
}
