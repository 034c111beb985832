package testrun

import (
	"os"
	"syscall"
)

// InMemory has this process, and those that it starts, make temporary files in memory if there is room for them: on a
// disk, the tests of stores would create, sync and delete files for most of the time. TMPDIR, if it is set, is left as
// it is. It is not for benchmarks: a sync of a file in memory costs nothing.
func InMemory() {
	const memory, room = "/dev/shm", 4 << 30
	var has syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &has) != nil || has.Bavail*uint64(has.Bsize) < room {
		return
	}
	_ = os.Setenv("TMPDIR", memory)
}
