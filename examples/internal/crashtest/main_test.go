package crashtest_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
)

// asChild makes this test binary a process that watches runs. Its value is the path of the database.
const asChild = "CRASHTEST_DATABASE"

// asHost makes it a process that carries out commands. Its value is the path or connection string of the database.
const asHost = "CRASHTEST_HOST"

// rounds is how often a test kills at random moments.
var rounds = racing.Rounds(6, 300)

func TestMain(m *testing.M) {
	if path := os.Getenv(asChild); path != "" {
		if err := watchRuns(path, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if database := os.Getenv(asHost); database != "" {
		if err := hostRun(database, os.Stdin, os.Stdout); err != nil {
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
