package migrating_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// childPrefix begins the first argument of this test binary if it is a command of a test.
const childPrefix = "migrating-child-"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && strings.HasPrefix(os.Args[1], childPrefix) {
		runChild(os.Args[2:])
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every child process ends a second late
	_ = flag.Set("test.parallel", "22")          // those that wait for commands
	goleak.VerifyTestMain(m)
}
