package config

import (
	"regexp"
	"slices"
	"strings"

	"syncd/internal/field"
)

const envPrefix = "SYNCD_"

// serviceLink matches the variables that Kubernetes sets in every pod of a namespace with a service called syncd.
var serviceLink = regexp.MustCompile(`\ASYNCD_(SERVICE_(HOST|PORT(_.*)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)\z`)

type variable struct {
	name, value string
	pos         field.Pos
}

// variables returns the settings among the environment, sorted by name.
func variables(o Options) []variable {
	set := map[string]string{}
	for _, kv := range o.Env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || !strings.HasPrefix(k, envPrefix) || serviceLink.MatchString(k) || slices.Contains(o.OwnEnv, k) {
			continue
		}
		set[k] = v
	}
	var vars []variable
	for k, v := range set {
		vars = append(vars, variable{name: k, value: v, pos: field.Pos{File: "environment " + k}})
	}
	slices.SortFunc(vars, func(a, b variable) int { return strings.Compare(a.name, b.name) })
	return vars
}

var envReference = regexp.MustCompile(`\$\{env:([A-Za-z0-9_]+)\}`)

// references returns the names of all environment variables that a tree's values refer to.
func references(n *field.Node) map[string]bool {
	names := map[string]bool{}
	var walk func(n *field.Node)
	walk = func(n *field.Node) {
		for _, m := range envReference.FindAllStringSubmatch(n.Text, -1) {
			names[m[1]] = true
		}
		for _, e := range n.Entries {
			walk(e.Value)
		}
		for _, v := range n.Items {
			walk(v)
		}
	}
	walk(n)
	return names
}

// overlay lays the environment over the file and returns the whole tree. It goes twice over the variables, because which fields
// a client has depends on its connector, which may itself come from the environment.
func overlay(o Options, file *field.Node) (*field.Node, []field.Problem, error) {
	l := newLayers()
	if err := l.add(file); err != nil {
		return nil, nil, err
	}
	vars, used := variables(o), references(file)
	tree := l.tree()
	var problems []field.Problem
	for round := range 2 {
		var left []variable
		for _, v := range vars {
			// The fields of a connector are known from the registry alone.
			path, err := field.Locate(&Config{connectors: o.Connectors}, tree, strings.TrimPrefix(v.name, envPrefix))
			switch {
			case path != nil:
				if err := l.add(v.node(path)); err != nil {
					return nil, nil, err
				}
			case round == 0:
				left = append(left, v)
			case err != nil:
				problems = append(problems, field.Problem{Pos: v.pos, Msg: err.Error()})
			case used[v.name]:
				// The file refers to it, so it need not be a setting.
			default:
				problems = append(problems, field.Problem{Pos: v.pos, Msg: "no setting has this name; " + envHint(o, tree, v.name)})
			}
		}
		vars, tree = left, l.tree()
	}
	return tree, problems, nil
}

// node makes the tree that sets one value.
func (v variable) node(path []string) *field.Node {
	n := &field.Node{Kind: field.Scalar, Text: v.value, Quoted: true, Literal: true, Pos: v.pos}
	for _, key := range slices.Backward(path) {
		n = &field.Node{Kind: field.Mapping, Pos: v.pos, Entries: []field.Entry{{Key: key, KeyPos: v.pos, Value: n}}}
	}
	return n
}

// envHint finds the nearest name that a variable could have.
func envHint(o Options, tree *field.Node, name string) string {
	known := field.EnvNames(&Config{connectors: o.Connectors}, tree)
	for i := range known {
		known[i] = envPrefix + known[i]
	}
	if k := field.Nearest(name, known); k != "" {
		return "did you mean " + k + "?"
	}
	return "the name is " + envPrefix + " and the path of a field, with two underscores between levels"
}
