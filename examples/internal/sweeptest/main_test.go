package sweeptest_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// asChild makes this test binary a sweeper or a host. It is a job as JSON.
const asChild = "SWEEPTEST_CHILD"

// patience is how long a test waits for what takes a moment on a machine that is not busy.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if job := os.Getenv(asChild); job != "" {
		if err := work(job, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// The rules that hold in every database.
var rules = []struct {
	name  string
	check func(t *testing.T, db *database)
}{
	{"sweepers in many processes cancel each stalled session once and none that woke up", manySweepers},
	{"what is stalled is cancelled in the order in which it fell silent, whatever else is active", inOrder},
	{"a session whose cancel always fails does not keep the others from their turn", poisonedSession},
	{"a cancel ends the run on another host, which can be resumed", liveRun},
	{"a host that was killed leaves a row that goes stale, and an attempt that is known as lost", killedHost},
	{"a host whose clock is off loses nothing by it", skewedHosts},
}

func TestSQLite(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) { rule.check(t, newSQLite(t)) })
	}
}

func TestPostgreSQL(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) { rule.check(t, newPostgres(t, server)) })
	}
}
