package migrating_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every child process ends a second late
	_ = flag.Set("test.parallel", "22")          // those that wait for commands
	goleak.VerifyTestMain(m)
}
