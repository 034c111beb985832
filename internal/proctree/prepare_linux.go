//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

// Prepare begins to start the guard, so that the first command of a host that does something else before waits less
// for it. It does not wait. What fails here fails again, with an error, where a command is started.
func Prepare() {
	if g, err := theGuards.acquire(&request{}); err == nil {
		g.release()
	}
}
