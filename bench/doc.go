// Package bench holds the benchmarks that put the library beside what one would use instead, both in one run. What they
// measured, and on what, stands in README.md.
package bench
