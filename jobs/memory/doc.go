// Package memory is a journal engine that keeps everything in this process's
// memory: the model that the durable engines are compared with, and the journal of
// tests and simulations. It is nothing for production, for it forgets everything
// when the process ends.
//
// A state of the journal is a few ordered trees that are never changed once they are
// published: a transaction works on a state of its own, which takes the place of the
// old one when it commits, and is thrown away when it does not. A View keeps the
// state that it began with.
package memory
