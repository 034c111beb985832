package migrating_test

import (
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
	goleak.VerifyTestMain(m)
}
