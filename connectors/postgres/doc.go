// Package postgres reads changes from tables and views of a PostgreSQL database, and writes records into its tables by natural key. It
// owns the SQL of both ways, the translation of JSON values into columns and of SQLSTATEs into outcomes; it makes no table, changes no
// schema and holds no transaction open while it waits for anything else. The daemon and the strategies call it through package connectors.
package postgres
