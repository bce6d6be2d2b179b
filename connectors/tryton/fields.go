package tryton

import (
	"context"

	"syncd/connectors"
)

// fieldInfo is what the server says of a field.
type fieldInfo struct {
	Type     string `json:"type"`
	Relation string `json:"relation"`
}

// fields returns the fields of a model; the server is asked once.
func (r *rpc) fields(ctx context.Context, model string) (map[string]fieldInfo, error) {
	r.mu.Lock()
	f := r.models[model]
	r.mu.Unlock()
	if f != nil {
		return f, nil
	}
	return r.askFields(ctx, model)
}

func (r *rpc) askFields(ctx context.Context, model string) (map[string]fieldInfo, error) {
	op := "read the fields of " + model
	var f map[string]fieldInfo
	if err := r.read(ctx, op, "model."+model+".fields_get", &f, []string{}); err != nil {
		return nil, err
	}
	if len(f) == 0 {
		return nil, fault(op, connectors.Fail(connectors.Transient, "result", "the server tells no fields"))
	}
	r.mu.Lock()
	r.models[model] = f
	r.mu.Unlock()
	return f, nil
}

// field is one field of a model. One that is not known is asked for again: a
// module may have been activated since.
func (r *rpc) field(ctx context.Context, model, name string) (fieldInfo, error) {
	fs, err := r.fields(ctx, model)
	if err != nil {
		return fieldInfo{}, err
	}
	f, ok := fs[name]
	if !ok {
		if fs, err = r.askFields(ctx, model); err != nil {
			return fieldInfo{}, err
		}
		f, ok = fs[name]
	}
	if !ok {
		return fieldInfo{}, fault("write "+model, connectors.Fail(connectors.Invalid, "field",
			"%s has no field %q; correct the flow's map, or activate the module that adds it", model, name))
	}
	return f, nil
}

// has reports whether a model has a field.
func (r *rpc) has(ctx context.Context, model, name string) (bool, error) {
	fs, err := r.fields(ctx, model)
	_, ok := fs[name]
	return ok, err
}

// one finds the one record of a model that a text names: by its code or symbol,
// where the model has one, else by its name. What was found is remembered. field
// tells where the text stands; the text itself may be a customer's.
func (r *rpc) one(ctx context.Context, field, model, text string) (int64, error) {
	key := model + "\x00" + text
	r.mu.Lock()
	id, ok := r.named[key]
	r.mu.Unlock()
	if ok {
		return id, nil
	}
	op := "find the " + model + " for " + field
	for _, by := range []string{"code", "symbol", "rec_name"} {
		has, err := r.has(ctx, model, by)
		if err != nil {
			return 0, err
		}
		if !has {
			continue
		}
		var ids []int64
		if err := r.read(ctx, op, "model."+model+".search", &ids, []any{[]any{by, "=", text}}, 0, 2, nil); err != nil {
			return 0, err
		}
		if len(ids) > 1 {
			return 0, fault(op, connectors.Fail(connectors.Invalid, "ambiguous", "the text in %s names several records of %s by their %s; give the id", field, model, by))
		}
		if len(ids) == 1 {
			r.remember(key, ids[0])
			return ids[0], nil
		}
	}
	return 0, fault(op, connectors.Fail(connectors.Invalid, "relation", "the text in %s names no record of %s; give its code, its name or its id", field, model))
}

// mostNames bounds how many named records are remembered.
const mostNames = 10_000

func (r *rpc) remember(key string, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.named) >= mostNames {
		r.named = map[string]int64{}
	}
	r.named[key] = id
}

// forgetNames lets names be looked up again after a refusal, which may be that
// of a record that is gone.
func (r *rpc) forgetNames() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named = map[string]int64{}
}
