// Command syncd keeps an ERP in step with the shops that feed it.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // zones for mappings, also where the machine has none

	_ "golang.org/x/crypto/x509roots/fallback" // roots for TLS, also in an empty container
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
