// Package stored holds the forms in which both engines keep what a column
// cannot hold as it is: bodies compressed, ids of any bytes as text, and what a
// claim names. The engines call it; it knows no database.
package stored
