package upsert

import (
	"context"
	"fmt"

	"syncd/connectors"
)

// LookUp returns the target's own id of the record that carries the key, for
// records that refer to it; found is false when none does. Its errors are of
// type *connectors.Error: several records that carry the key are Invalid with
// CodeAmbiguous and named in the message.
func LookUp(ctx context.Context, entity connectors.Entity, key string) (link string, found bool, err error) {
	name := entity.Info().Name
	op := fmt.Sprintf("look up %s %s", name, key)
	finder := connectors.PrimitivesOf(entity).Finder
	if finder == nil {
		return "", false, &connectors.Error{Op: op, Outcome: connectors.Fail(connectors.Invalid, CodeFind, "entity %s cannot be looked up by key", name)}
	}
	fs, err := find(ctx, finder, connectors.Write{Key: key}, panicText)
	switch {
	case err != nil:
		return "", false, &connectors.Error{Op: op, Outcome: readOutcome(err), Err: err}
	case len(fs) > 1:
		return "", false, &connectors.Error{Op: op, Outcome: ambiguous(name, key, fs)}
	case len(fs) == 0:
		return "", false, nil
	default:
		return fs[0].Link, true, nil
	}
}
