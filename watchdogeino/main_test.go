package watchdogeino_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// TestMain collects no garbage: the SDK has streams that nobody closes closed by finalizers, which run outside of the
// bubble that a stream belongs to, and that ends the process.
func TestMain(m *testing.M) {
	debug.SetGCPercent(-1)
	goleak.VerifyTestMain(m)
}
