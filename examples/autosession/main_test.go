package main_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	autosession "github.com/seed62658d38/watchdog/examples/autosession"
)

// Environment variables that make this test binary another program.
const (
	// asProgram makes it autosession.
	asProgram = "AUTOSESSION_TEST_PROGRAM"
	// goFails names the go command that fails, goCallLog the file that lists the go commands.
	goFails   = "AUTOSESSION_TEST_GO_FAILS"
	goCallLog = "AUTOSESSION_TEST_GO_DIARY"
)

// quickExit makes the race detector exit at once instead of after a second.
const quickExit = "GORACE=atexit_sleep_ms=0"

// canary is printed by commands: it must be in logs and nowhere else.
const canary = "canary-4f1c"

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "go":
		os.Exit(fakeGo(os.Args[1]))
	case os.Getenv(asProgram) != "":
		autosession.Main()
	default:
		_ = flag.Set("test.parallel", "8") // most wait for limits and graces
		goleak.VerifyTestMain(m)
	}
}

// fakeGo replaces the go command in tests that do not need the real one.
func fakeGo(command string) int {
	callLog, err := os.OpenFile(os.Getenv(goCallLog), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Fprintln(callLog, command)
	fmt.Println(command, canary)
	if os.Getenv(goFails) == command {
		fmt.Println("undefined: everything")
		return 1
	}
	return 0
}
