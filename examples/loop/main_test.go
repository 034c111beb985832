package main_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	loop "github.com/seed62658d38/watchdog/examples/loop"
)

// asProgram makes this test binary the program.
const asProgram = "LOOP_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		loop.Main()
		return
	}
	goleak.VerifyTestMain(m)
}
