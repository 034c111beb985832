// Package ramdisk has the tests of stores keep their files in memory. On a disk they would create, sync and delete
// files for most of the time. It is not for benchmarks: a sync of a file in memory costs nothing.
package ramdisk

import (
	"os"
	"syscall"
)

// Use has this process, and those that it starts, make temporary files in memory if there is room for them. TMPDIR, if
// it is set, is left as it is.
func Use() {
	const memory, room = "/dev/shm", 4 << 30
	var has syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &has) != nil || has.Bavail*uint64(has.Bsize) < room {
		return
	}
	_ = os.Setenv("TMPDIR", memory)
}
