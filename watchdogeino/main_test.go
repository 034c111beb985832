package watchdogeino_test

import (
	"flag"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// TestMain collects no garbage in tests: the SDK has streams that nobody closes closed by finalizers, which run outside
// of the bubble that a stream belongs to, and that ends the process. Run benchmarks without tests, with -run '^$'.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(-1)
	}
	goleak.VerifyTestMain(m)
}
