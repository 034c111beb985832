// Package migrating holds guards of agents as hosts write them by hand, each beside the host with the lines of this
// library in its place, and the usual tests of such guards, which run against both.
//
// In each file two regions are the same host: before, with a guard by hand, and after, with ours. The lines of the
// second that are not in the first are all that the host needs of this library, at most seven. docs/migrating.md shows
// them, and a test compares the two.
//
// The hosts are small. They do not retry, and tell their callers all that they know.
package migrating
