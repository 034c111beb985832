package probe_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden file instead of comparing with it")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
