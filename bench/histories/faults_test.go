//go:build linux

package histories_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// rounds is how often the judge looks for a fault at most: the calls are random.
const rounds = 20

// TestFindsFaults has the judge find each fault of a table, and no other, in a store that has just that one.
func TestFindsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks      func(s *sqlite.Store) store
		runs, scope bool // whose histories it makes illegal
	}{
		"none": {
			breaks: func(s *sqlite.Store) store { return s },
		},
		"a cancel does not look at the attempt": {
			breaks: func(s *sqlite.Store) store { return attemptless{s} }, runs: true,
		},
		"a cancel does not look for the end of the window": {
			breaks: func(s *sqlite.Store) store { return windowless{s} }, runs: true,
		},
		"a claim does not look for another": {
			breaks: func(s *sqlite.Store) store { return claimless{s} }, runs: true,
		},
		"an end does not look at the attempt": {
			breaks: func(s *sqlite.Store) store { return anyEnd{s} }, runs: true,
		},
		"a slice is granted twice": {
			breaks: func(s *sqlite.Store) store { return &twice{Store: s, taken: map[string]bool{}} }, scope: true,
		},
		"a slice is granted above the limit": {
			breaks: func(s *sqlite.Store) store { return limitless{s} }, scope: true,
		},
		"what is returned is not given back": {
			breaks: func(s *sqlite.Store) store { return keeping{s} }, scope: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRuns, inScopes := false, false
			for round := 0; round == 0 || round < rounds && (inRuns != c.runs || inScopes != c.scope); round++ {
				journals := callBroken(t, c.breaks)
				inRuns = findsFault(t, sessions, journals) || inRuns
				inScopes = findsFault(t, spends, journals) || inScopes
			}
			assert.Equal(t, c.runs, inRuns, "in the histories of runs")
			assert.Equal(t, c.scope, inScopes, "in the histories of scopes")
		})
	}
}

// callBroken returns the journals of goroutines that call a broken store.
func callBroken(t *testing.T, breaks func(s *sqlite.Store) store) [][]line {
	t.Helper()
	folder := t.TempDir()
	s, err := sqlite.Open(t.Context(), filepath.Join(folder, "broken.db"))
	require.NoError(t, err)
	j := job{Name: "p0", Folder: folder, Calls: 6 * callsOfSlot, Slots: everySlot}
	require.NoError(t, j.do(breaks(s)))
	require.NoError(t, s.Close())
	lines, err := readJournal(j.journal())
	require.NoError(t, err)
	return [][]line{lines}
}

func findsFault(t *testing.T, o object, journals [][]line) bool {
	t.Helper()
	all := o.histories(t, journals)
	require.NotEmpty(t, all)
	illegal := o.check(t, all)
	if len(illegal) == 0 {
		return false
	}
	t.Logf("%d of %d histories are not linearizable, such as %s", len(illegal), len(all), o.shortest(illegal[0]))
	return true
}

// asItIs returns the row as it is now, whatever it was judged by.
func asItIs(ctx context.Context, s *sqlite.Store, judged session.Session) session.Session {
	if now, err := s.Session(ctx, judged.RunID); err == nil {
		return now
	}
	return judged
}

type attemptless struct{ *sqlite.Store }

func (s attemptless) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	now := asItIs(ctx, s.Store, judged)
	c.Events = cancelEvents(now)
	return s.Store.Cancel(ctx, now, c)
}

type windowless struct{ *sqlite.Store }

func (s windowless) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	of := judged
	of.StartedAt = of.StartedAt.Add(time.Duration(judged.Attempt) * time.Minute)
	c.Events = cancelEvents(of)
	return s.Store.Cancel(ctx, judged, c)
}

type claimless struct{ *sqlite.Store }

func (s claimless) Claim(
	ctx context.Context, judged session.Session, c session.ClaimRequest,
) (session.Outcome, error) {
	c.By = asItIs(ctx, s.Store, judged).Claim
	return s.Store.Claim(ctx, judged, c)
}

type anyEnd struct{ *sqlite.Store }

func (s anyEnd) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	for i, e := range ends {
		ends[i].Attempt = asItIs(ctx, s.Store, session.Session{RunID: e.RunID, Attempt: e.Attempt}).Attempt
	}
	return s.Store.End(ctx, ends)
}

type twice struct {
	*sqlite.Store
	mu    sync.Mutex
	taken map[string]bool
}

func (s *twice) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	s.mu.Lock()
	if s.taken[slice.ID] {
		slice.ID += " again"
	}
	s.taken[slice.ID] = true
	s.mu.Unlock()
	return s.Store.Take(ctx, slice)
}

type limitless struct{ *sqlite.Store }

func (s limitless) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	slice.Force = true
	return s.Store.Take(ctx, slice)
}

type keeping struct{ *sqlite.Store }

func (s keeping) Return(ctx context.Context, id string, _ watchdog.Totals) error {
	return s.Store.Return(ctx, id, watchdog.Totals{})
}
