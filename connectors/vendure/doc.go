// Package vendure reads a Vendure shop over its admin API (GraphQL): orders,
// customers and product variants. It is a source only.
//
// A record's updatedAt moves only when its own row is saved. An order's stays
// behind when the order is placed, paid, fulfilled or refunded; a customer's
// when an address is edited; a variant's when its product is renamed. Reading by
// updatedAt alone loses those changes. So a stream is read in up to three ways,
// one after another in each cycle:
//
//   - by updatedAt, from where the last cycle ended less an overlap;
//   - orders also by orderPlacedAt, for carts that become orders without moving
//     their updatedAt;
//   - from time to time by a sweep over what can still change silently, with a
//     light query that tells for each record when any of its parts moved. Only
//     records that moved since the last sweep are read whole.
//
// The version of a record is the latest of all times that belong to it, so that
// its states are ordered although no single field moves with each.
//
// Seen with Vendure 3.7. The API: https://docs.vendure.io/reference/graphql-api/admin/queries
package vendure
