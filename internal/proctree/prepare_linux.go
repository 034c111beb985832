//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"encoding/json"
	"runtime"
)

// Prepare begins to start the guard, so that the first command of a host that does something else before waits less
// for it. It does not wait, and can be called by a package initializer. What fails here fails again, with an error,
// where a command is started.
func Prepare() {
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		c, err := readCaller()
		if err != nil {
			return
		}
		theGuards.acquireFor(c).release()
		// What a first command would do for all of them: how /proc is mounted is kept, and so are the types by package json.
		_ = checkProc(c.status)
		_, _ = (&request{Scheduling: &c.scheduling}).encode()
		_ = json.Unmarshal([]byte("{}"), new(report))
	}()
}
