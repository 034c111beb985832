// Package migrating holds guards against silence as hosts write them by hand, each beside the host with the lines of
// this library in its place, and the usual tests of such guards, which run against both.
//
// In each file the regions [before] and [after] are the same host. The lines of [after] that are not in [before] are
// all that the host needs of this library, at most five; docs/migrating.md shows them, and a test compares the two.
//
// The hosts are small. They do not retry, and tell their callers all that they know.
package migrating
