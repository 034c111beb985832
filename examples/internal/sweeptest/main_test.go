package sweeptest_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ramdisk"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// asChild makes this test binary a sweeper or a host. Its value is a job as JSON.
const asChild = "SWEEPTEST_CHILD"

// patience bounds every wait in these tests; an idle machine needs seconds at most.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if job := os.Getenv(asChild); job != "" {
		if err := work(job, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ramdisk.Use()
	_ = flag.Set("test.parallel", "12") // they wait for thresholds
	goleak.VerifyTestMain(m)
}

// The rules that hold in every database.
var rules = []struct {
	name  string
	check func(t *testing.T, db *database)
}{
	{"a cancel ends the run on another host, which can be resumed", liveRun},
	{"a killed host leaves a stale row and a lost attempt", killedHost},
	{"sweepers that die cancel each stalled session once and no session that woke up", sweepersDie},
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) { t.Parallel(); rule.check(t, newSQLite(t)) })
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	for _, rule := range rules { // one after the other: the last one kills the server
		t.Run(rule.name, func(t *testing.T) { rule.check(t, newPostgres(t, server)) })
	}
}
