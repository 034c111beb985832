// Package bench holds the benchmarks that compare the library with its alternatives, both in one run. README.md has the
// results and the machine.
package bench
