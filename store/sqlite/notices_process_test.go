package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// claimTime is how long the claims of processes last that are killed.
const claimTime = 300 * time.Millisecond

// deliverUntilKilled delivers what is in the outbox: it prints the ID of each notice. It then finishes it, delays it, or
// leaves it to others, and says what it has finished.
func deliverUntilKilled(file string) error {
	s, err := withOutbox.Open(context.Background(), file)
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

// claimAndWait claims a notice, prints its ID and waits to be killed.
func claimAndWait(file string) error {
	s, err := withOutbox.Open(context.Background(), file)
	if err != nil {
		return err
	}
	claimed, err := s.ClaimNotices(context.Background(), 1, claimTime)
	if err != nil {
		return err
	}
	fmt.Println("delivers", claimed[0].ID)
	time.Sleep(time.Hour)
	return nil
}

// killAfter runs a child, kills it when it has printed so many lines, and returns what these and others say of IDs.
func killAfter(t *testing.T, lines int, job ...string) (said map[string][]string) {
	t.Helper()
	cmd := child(t, job...)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said = map[string][]string{}
	n := 0
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		what, id, _ := strings.Cut(scanner.Text(), " ")
		assert.NotEqual(t, "error:", what, id)
		said[what] = append(said[what], id)
		if n++; n == lines {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	assert.Error(t, cmd.Wait(), "it was killed")
	assert.GreaterOrEqual(t, n, lines)
	return said
}

func TestNoticesOfKilledProcesses(t *testing.T) {
	t.Parallel()
	t.Run("what one had claimed comes again when the claim is over, and not before", func(t *testing.T) {
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		began := time.Now()
		said := killAfter(t, 1, "claim and wait", file)
		require.Equal(t, []string{"event-1"}, said["delivers"])
		require.Eventually(t, func() bool {
			claimed := claimAll(t, s, time.Hour)
			if len(claimed) > 0 {
				assert.Equal(t, []string{"event-1 2"}, claimed)
			}
			return len(claimed) > 0
		}, time.Minute, 5*time.Millisecond)
		assert.GreaterOrEqual(t, time.Since(began), claimTime-time.Millisecond)
	})
	t.Run("none is lost, and what was finished does not come again", func(t *testing.T) {
		const rounds, most, ends = 15, 20, 300 // a process finishes less than most
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		left := map[string]bool{}
		for n := range int64(ends) {
			require.NoError(t, s.Append(t.Context(), numbered(n)))
			left[numbered(n).ID] = true
		}
		finished := map[string]bool{}
		for range rounds {
			said := killAfter(t, 1+rand.IntN(most), "deliver until killed", file)
			for _, id := range said["delivers"] {
				assert.False(t, finished[id], "%s was finished, and came again", id)
				delete(left, id)
			}
			for _, id := range said["finished"] {
				finished[id] = true
			}
		}
		db := openPlain(t, file)
		require.Eventually(t, func() bool {
			all, err := s.ClaimNotices(t.Context(), 1000, time.Hour)
			require.NoError(t, err)
			for _, n := range all {
				assert.False(t, finished[n.ID], "%s was finished, and came again", n.ID)
				delete(left, n.ID)
			}
			require.NoError(t, s.FinishNotices(t.Context(), all...))
			return len(queryAll(t, db, allInOutbox)) == 0
		}, time.Minute, 10*time.Millisecond)
		assert.Empty(t, slices.Collect(maps.Keys(left)), "nobody was told of these ends")
		t.Logf("%d of %d were finished by processes that were killed", len(finished), ends)
	})
}

var _ session.Outbox = putter{}
