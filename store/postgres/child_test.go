package postgres_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog/store/postgres"
)

// childVariable makes the test binary a process that opens a store and appends one event.
const childVariable = "WATCHDOG_POSTGRES_CHILD"

func runChild(job string) int {
	if spending, is := strings.CutPrefix(job, "spend "); is {
		return runSpender(spending)
	}
	if dsn, is := strings.CutPrefix(job, "deliver "); is {
		return fail(deliverUntilKilled(dsn))
	}
	var n int64
	var dsn string
	if _, err := fmt.Sscan(job, &n, &dsn); err != nil {
		return fail(err)
	}
	s, err := postgres.Open(context.Background(), dsn, postgres.Config{Schema: "fresh"})
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	if err := s.Append(context.Background(), numbered(n)); err != nil {
		return fail(err)
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Several processes may create the tables of one database at once.
func TestProcessesOpenAtOnce(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", childVariable, n, dsn))
			output, err := child.CombinedOutput()
			assert.NoError(t, err, "%s", output)
		})
	}
	all.Wait()
	assert.Len(t, read(t, openAt(t, dsn, postgres.Config{Schema: "fresh"})), 8)
}
