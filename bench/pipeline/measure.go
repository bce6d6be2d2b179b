package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// variant is one column of figures: a build of syncd between an engine and a kind of target.
type variant struct {
	build, journal, target string
	binary                 string
	full, fifth            []sample
	rests                  []atRest
}

// starts is how often syncd is started in a round to find the time to its first request.
const starts = 5

// measure runs everything, variants in turn within each round, so that what else
// the machine does meets them alike.
func measure(ctx context.Context, s settings, progress io.Writer) (r *report, err error) {
	w, err := newWorld(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	r = &report{settings: s}
	released, err := build(ctx, w.dir)
	if err != nil {
		return nil, err
	}
	if r.binary, err = sizeOf(released); err != nil {
		return nil, err
	}
	binary := released
	if s.profile != "" {
		if binary, err = buildProfiled(ctx, w.dir); err != nil {
			return nil, err
		}
	}
	for _, t := range s.targets() {
		for _, j := range s.journals() {
			if s.against != "" {
				r.variants = append(r.variants, &variant{build: "other", journal: j, target: t, binary: s.against})
			}
			r.variants = append(r.variants, &variant{build: "this", journal: j, target: t, binary: binary})
		}
	}
	files, err := makeFiles(w.dir, s)
	if err != nil {
		return nil, err
	}
	for round := range s.rounds {
		for _, v := range r.variants {
			fmt.Fprintf(progress, "round %d of %d: %s, %s to %s\n", round+1, s.rounds, v.build, v.journal, v.target)
			if err := w.round(ctx, s, v, files); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// makeFiles makes the file of orders and one of its first fifth.
func makeFiles(dir string, s settings) (files [2]file, err error) {
	for i, n := range []int{s.events / 5, s.events} {
		f := file{dir: dir, name: fmt.Sprintf("orders-%d.jsonl", i), events: n, last: strconv.Itoa(firstID + n - 1)}
		if f.pieces, err = orders(filepath.Join(dir, f.name), n, s.size); err != nil {
			return files, err
		}
		if slices.Contains(s.targets(), toHTTP) {
			if f.sums, err = expected(filepath.Join(dir, f.name)); err != nil {
				return files, err
			}
		}
		files[i] = f
	}
	return files, nil
}

// round measures one variant once.
func (w *world) round(ctx context.Context, s settings, v *variant, files [2]file) error {
	var j journal
	for i, f := range files {
		var err error
		if j, err = w.fresh(ctx, v.journal); err != nil {
			return err
		}
		got, err := w.move(ctx, v.binary, v.target, s.profile, j, f)
		if err != nil {
			return err
		}
		if i == 0 {
			v.fifth = append(v.fifth, got)
		} else {
			v.full = append(v.full, got)
		}
	}
	if !s.service || v.target != toTable {
		return nil
	}
	// The journal that is full of what was just done is the existing one.
	for i := range starts {
		leave := 100 * time.Millisecond
		if i == starts-1 {
			leave = restTime
		}
		got, err := w.rest(ctx, v.binary, j, leave)
		if err != nil {
			return err
		}
		v.rests = append(v.rests, got)
	}
	return nil
}
