// Package agents_test kills agents of each SDK in the middle of what they do, and has other processes go on.
package agents_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roles are what this program is as a child process of a test, by its first argument.
var roles = map[string]func(args []string) error{
	"agent":  func(args []string) error { return agentMain(context.Background(), args) },
	"server": func([]string) error { return serve(context.Background()) },
	"build":  func([]string) error { return build() },
	"daemon": func([]string) error { return stay() },
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if play := roles[os.Args[1]]; play != nil {
			if err := play(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every child process ends a second late
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // most of the time the tests wait for other processes
	goleak.VerifyTestMain(m)
}

// stay does nothing for as long as a test may take, whatever signals come.
func stay() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	time.Sleep(5 * time.Minute)
	return nil
}

// build is a command that never ends, with a process that leaves its session and its group.
func build() error {
	daemon := self("daemon")
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := daemon.Start(); err != nil {
		return err
	}
	fmt.Println("building")
	return stay()
}

// self is this program in another role.
func self(args ...string) *exec.Cmd { return exec.Command(os.Args[0], args...) }
