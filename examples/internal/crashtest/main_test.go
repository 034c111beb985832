package crashtest_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// asChild makes this test binary a process that watches runs. Its value is the path or connection string of the
// database.
const asChild = "CRASHTEST_DATABASE"

func TestMain(m *testing.M) {
	if database := os.Getenv(asChild); database != "" {
		if err := watchRuns(database, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if racing.Enabled {
		fmt.Println("skipped with the race detector: the tests check what killed processes leave in a database")
		return
	}
	_ = flag.Set("test.parallel", "6") // they wait for budgets half of the time
	goleak.VerifyTestMain(m)
}
