//go:build linux

package histories_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

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
		breaks      func(s *sqlite.Store, db *sql.DB) store
		runs, scope bool // whose histories it makes illegal
	}{
		"none": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return s },
		},
		"a cancel does not look at the attempt": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return attemptless{s} }, runs: true,
		},
		"a cancel does not look for the end of the window": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return windowless{s} }, runs: true,
		},
		"a claim does not look for another": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return claimless{s} }, runs: true,
		},
		"an end does not look at the attempt": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return anyEnd{s} }, runs: true,
		},
		"a freshen revives an attempt that was cancelled": {
			breaks: func(s *sqlite.Store, db *sql.DB) store { return reviving{s, db} }, runs: true,
		},
		"a freshen does not look at the lease": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return anyLease{s} }, runs: true,
		},
		"a warning does not look at the signs": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return signless{s} }, runs: true,
		},
		"a cancel of several writes half": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return halving{s} }, runs: true,
		},
		"an expiry does not look at the beat": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return beatless{s} }, runs: true,
		},
		"an expiry takes no session out of the lease": {
			breaks: func(s *sqlite.Store, db *sql.DB) store { return staying{s, db} }, runs: true,
		},
		"a lease is told of an end once only": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return forgetful{s} }, runs: true,
		},
		"a lease is not told who took its session over": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return untold{s} }, runs: true,
		},
		"a slice is granted twice": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return &twice{Store: s, taken: map[string]bool{}} }, scope: true,
		},
		"a slice is granted above the limit": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return limitless{s} }, scope: true,
		},
		"what is returned is not given back": {
			breaks: func(s *sqlite.Store, _ *sql.DB) store { return keeping{s} }, scope: true,
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
			require.Equal(t, c.runs, inRuns, "in the histories of runs")
			require.Equal(t, c.scope, inScopes, "in the histories of scopes")
		})
	}
}

// callBroken returns the journals of goroutines that call a broken store.
func callBroken(t *testing.T, breaks func(s *sqlite.Store, db *sql.DB) store) [][]line {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "broken.db")
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	j := job{Name: "p0", Folder: folder, Calls: 6 * callsOfSlot, Slots: everySlot}
	require.NoError(t, j.do(breaks(s, db)))
	require.NoError(t, db.Close())
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
	c.Events = stalled(now).CancelEvents()
	return s.Store.Cancel(ctx, now, c)
}

type windowless struct{ *sqlite.Store }

func (s windowless) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	of := judged
	of.StartedAt = of.StartedAt.Add(time.Duration(judged.Attempt) * time.Minute)
	c.Events = stalled(of).CancelEvents()
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

type reviving struct {
	*sqlite.Store
	db *sql.DB
}

func (s reviving) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (session.Skipped, error) {
	for _, f := range fresh {
		if _, err := s.db.ExecContext(ctx, "UPDATE watchdog_sessions SET status = 'active', reason = '' "+
			"WHERE run_id = ? AND attempt = ? AND status = 'cancelled'", f.RunID, f.Attempt); err != nil {
			return session.Skipped{}, err
		}
	}
	return s.Store.Freshen(ctx, lease, fresh)
}

type anyLease struct{ *sqlite.Store }

func (s anyLease) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (skipped session.Skipped, err error) {
	if skipped, err = s.Store.Freshen(ctx, lease, fresh); errors.Is(err, session.ErrLeaseExpired) {
		err = nil
	}
	return skipped, err
}

type signless struct{ *sqlite.Store }

func (s signless) Warn(
	ctx context.Context, judged session.Session, events []watchdog.Event,
) (session.Outcome, error) {
	return s.Store.Warn(ctx, asItIs(ctx, s.Store, judged), events)
}

type halving struct{ *sqlite.Store }

func (s halving) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	outcomes, err := s.Store.CancelAll(ctx, all[:len(all)/2])
	for range all[len(outcomes):] {
		outcomes = append(outcomes, session.Done)
	}
	return outcomes, err
}

type beatless struct{ *sqlite.Store }

func (s beatless) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	all, err := s.ObserveLeases(ctx, nil)
	if err != nil {
		return false, 0, err
	}
	for _, now := range all {
		if now.ID == l.ID {
			l.Beat = now.Beat
		}
	}
	return s.Store.ExpireLease(ctx, l)
}

type staying struct {
	*sqlite.Store
	db *sql.DB
}

func (s staying) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	done, err := s.db.ExecContext(ctx, "UPDATE watchdog_leases SET expired = 'now' WHERE id = ? AND beat = ?", l.ID, l.Beat)
	if err != nil {
		return false, 0, err
	}
	if n, err := done.RowsAffected(); n > 0 || err != nil {
		return true, 0, err
	}
	return s.Store.ExpireLease(ctx, l)
}

type forgetful struct{ *sqlite.Store }

func (s forgetful) Ended(
	ctx context.Context, lease string, told []session.AttemptID,
) (ended []session.AttemptID, err error) {
	if ended, err = s.Store.Ended(ctx, lease, told); err == nil && len(ended) > 0 {
		_, err = s.Store.Ended(ctx, lease, ended)
	}
	return ended, err
}

type untold struct{ *sqlite.Store }

func (s untold) Attach(
	ctx context.Context, run session.Session,
) (before, after session.Session, err error) {
	if before, after, err = s.Store.Attach(ctx, run); err == nil && before.Lease != "" {
		_, err = s.Ended(ctx, before.Lease, []session.AttemptID{{RunID: before.RunID, Attempt: before.Attempt}})
	}
	return before, after, err
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
