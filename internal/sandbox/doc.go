// Package sandbox is a shop and an ERP to try syncd against: two small HTTP
// servers on loopback that behave as real ones do on a bad day. The shop has a
// quota, shows changes late and twice, and is down now and then. The ERP keeps
// references unique, and answers late, never, or with an error after it has
// done the work. Both remember the truth, so that in the end an audit can say
// what was lost, doubled or left in an old state.
package sandbox
