package main_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	watchdog "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// programVariable has the test binary be the program.
const programVariable = "WATCHDOG_TEST_PROGRAM"

// postgresServer is the server of all tests. Each test has a database of its own.
var postgresServer pgtest.Shared

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		_ = os.Unsetenv(programVariable)
		watchdog.Main()
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every program ends a second late
	_ = flag.Set("test.parallel", "16")          // most tests wait for processes, and not for a processor
	code := m.Run()
	for _, failed := range []error{postgresServer.Close(), goleak.Find()} {
		if failed != nil && code == 0 {
			fmt.Fprintln(os.Stderr, failed)
			code = 1
		}
	}
	os.Exit(code)
}

// A saidText can be read while a program prints it.
type saidText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *saidText) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *saidText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
