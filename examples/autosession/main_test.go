package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	autosession "github.com/seed62658d38/watchdog/examples/autosession"
)

// The variables that make this test binary another program.
const (
	// asProgram makes it autosession.
	asProgram = "AUTOSESSION_TEST_PROGRAM"
	// goFails names the go command that fails, goDiary the file in which each go command is written down.
	goFails = "AUTOSESSION_TEST_GO_FAILS"
	goDiary = "AUTOSESSION_TEST_GO_DIARY"
)

// quickExit keeps the race detector from waiting a second at the end of each process.
const quickExit = "GORACE=atexit_sleep_ms=0"

// canary is what commands print: it must be in logs and nowhere else.
const canary = "canary-4f1c"

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "go":
		os.Exit(quickGo(os.Args[1]))
	case os.Getenv(asProgram) != "":
		autosession.Main()
	default:
		goleak.VerifyTestMain(m)
	}
}

// quickGo stands in for the go command where a test is not about that.
func quickGo(command string) int {
	diary, err := os.OpenFile(os.Getenv(goDiary), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Fprintln(diary, command)
	fmt.Println(command, canary)
	if os.Getenv(goFails) == command {
		fmt.Println("undefined: everything")
		return 1
	}
	return 0
}
