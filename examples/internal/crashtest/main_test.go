package crashtest_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// asChild makes this test binary a process that watches runs in the database that it names.
const asChild = "CRASHTEST_DATABASE"

func TestMain(m *testing.M) {
	if path := os.Getenv(asChild); path != "" {
		if err := watchRuns(path, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if racing.Enabled {
		fmt.Println("not under the race detector: what is tested is what processes that are killed leave in a database")
		return
	}
	goleak.VerifyTestMain(m)
}
