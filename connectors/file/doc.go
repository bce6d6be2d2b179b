// Package file reads records from files that another program writes into a folder: JSON lines and CSV, growing or
// replaced, one or many. It owns the way of a line from the disk to an event, and the memory of how far each file has
// been read; it never writes, moves or deletes a file, and never leaves the folder. The daemon calls it through package connectors.
package file
