package crashtest_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// asChild makes this test binary a process that watches runs. Its value is the path of the database.
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
		fmt.Println("skipped with the race detector: the tests check what killed processes leave in a database")
		return
	}
	goleak.VerifyTestMain(m)
}
