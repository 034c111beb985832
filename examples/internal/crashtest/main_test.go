package crashtest_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
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
	goleak.VerifyTestMain(m)
}
