package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres"
)

// claimTime is how long the claims of processes last that are killed.
const claimTime = 300 * time.Millisecond

// deliverUntilKilled delivers what is in the outbox: it prints the ID of each notice. It then finishes it, delays it, or
// leaves it to others, and says what it has finished.
func deliverUntilKilled(dsn string) error {
	s, err := postgres.Open(context.Background(), dsn, withOutbox)
	if err != nil {
		return err
	}
	for {
		claimed, err := s.ClaimNotices(context.Background(), 4, claimTime)
		if err != nil {
			return err
		}
		for i, n := range claimed {
			fmt.Println("delivers", n.ID)
			switch i {
			case 0:
				err = s.DelayNotice(context.Background(), n, time.Millisecond)
			case 1, 2:
				if err = s.FinishNotices(context.Background(), n); err == nil {
					fmt.Println("finished", n.ID)
				}
			}
			if err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// deliverAndDie runs a process that delivers, kills it when it has printed so many lines, and returns what these and
// others say of IDs.
func deliverAndDie(t *testing.T, dsn string, lines int) (said map[string][]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=deliver "+dsn)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said = map[string][]string{}
	n := 0
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		what, id, _ := strings.Cut(scanner.Text(), " ")
		said[what] = append(said[what], id)
		if n++; n == lines {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	var exit *exec.ExitError
	assert.ErrorAs(t, cmd.Wait(), &exit)
	assert.GreaterOrEqual(t, n, lines)
	return said
}

// No notice is lost with a process that is killed between any two of its steps, and what it has finished does not come
// again.
func TestNoticesOfKilledProcesses(t *testing.T) {
	t.Parallel()
	const rounds, most, ends = 8, 20, 200 // a process finishes less than most
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
	left, finished := map[string]bool{}, map[string]bool{}
	for n := range ends {
		id := fmt.Sprint("end-", n)
		endOf(t, s, id)
		left[id] = true
	}
	for range rounds {
		said := deliverAndDie(t, dsn, 1+rand.IntN(most))
		for _, id := range said["delivers"] {
			assert.False(t, finished[id], "%s was finished, and came again", id)
			delete(left, id)
		}
		for _, id := range said["finished"] {
			finished[id] = true
		}
	}
	require.Eventually(t, func() bool {
		all, err := s.ClaimNotices(t.Context(), 1000, time.Hour)
		require.NoError(t, err)
		for _, n := range all {
			assert.False(t, finished[n.ID], "%s was finished, and came again", n.ID)
			delete(left, n.ID)
		}
		require.NoError(t, s.FinishNotices(t.Context(), all...))
		return len(inTable(t, pool)) == 0
	}, time.Minute, 10*time.Millisecond)
	assert.Empty(t, slices.Collect(maps.Keys(left)), "nobody was told of these ends")
	t.Logf("%d of %d were finished by processes that were killed", len(finished), ends)
}
