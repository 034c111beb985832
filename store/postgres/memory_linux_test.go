package postgres_test

import (
	"os"
	"syscall"
)

// useMemory has the servers keep their files in memory if there is room for them. On a disk they would create and
// delete files for most of the time, also without a sync.
func useMemory() {
	const memory, room = "/dev/shm", 4 << 30
	var has syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &has) != nil || has.Bavail*uint64(has.Bsize) < room {
		return
	}
	_ = os.Setenv("TMPDIR", memory)
}
