// Package ramdisk has the tests of stores keep their files in memory. On a disk they would create, sync and delete
// files for most of the time. It is not for benchmarks: a sync of a file in memory costs nothing.
package ramdisk
