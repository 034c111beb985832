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
		of     string // whose histories it makes illegal, empty for none's
		breaks func(b base) store
	}{
		"none":                                  {"", func(b base) store { return b }},
		"a cancel does not look at the attempt": {"run", func(b base) store { return attemptless{b} }},
		"a cancel does not look for the end of the window": {"run", func(b base) store { return windowless{b} }},
		"a claim does not look for another":                {"run", func(b base) store { return claimless{b} }},
		"an end does not look at the attempt":              {"run", func(b base) store { return anyEnd{b} }},
		"a freshen revives an attempt that was cancelled":  {"run", func(b base) store { return reviving{b} }},
		"a freshen does not look at the lease":             {"run", func(b base) store { return anyLease{b} }},
		"a warning does not look at the signs":             {"run", func(b base) store { return signless{b} }},
		"a cancel of several writes half":                  {"run", func(b base) store { return halving{b} }},
		"an expiry does not look at the beat":              {"run", func(b base) store { return beatless{b} }},
		"an expiry takes no session out of the lease":      {"run", func(b base) store { return staying{b} }},
		"a lease is told of an end once only":              {"run", func(b base) store { return forgetful{b} }},
		"a lease is not told who took its session over":    {"run", func(b base) store { return untold{b} }},
		"a slice is granted twice":                         {"scope", func(b base) store { return &twice{base: b} }},
		"a slice is granted above the limit":               {"scope", func(b base) store { return limitless{b} }},
		"what is returned is not given back":               {"scope", func(b base) store { return keeping{b} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, found := [2]bool{c.of == sessions.prefix, c.of == spends.prefix}, [2]bool{}
			for round := 0; round == 0 || round < rounds && found != want; round++ {
				journals := callBroken(t, c.breaks)
				found[0] = findsFault(t, sessions, journals) || found[0]
				found[1] = findsFault(t, spends, journals) || found[1]
			}
			require.Equal(t, want, found, "in the histories of runs, and of scopes")
		})
	}
}

// callBroken returns the journals of goroutines that call a broken store.
func callBroken(t *testing.T, breaks func(b base) store) [][]line {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "broken.db")
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	require.NoError(t, err)
	j := job{Name: "p0", Folder: folder, Calls: 6 * callsOfSlot, Slots: everySlot}
	require.NoError(t, j.do(breaks(base{s, db})))
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

// A base is what all broken stores are made of.
type base struct {
	*sqlite.Store
	db *sql.DB
}

// asItIs returns the row as it is now, whatever it was judged by.
func (b base) asItIs(ctx context.Context, judged session.Session) session.Session {
	if now, err := b.Session(ctx, judged.RunID); err == nil {
		return now
	}
	return judged
}

type attemptless struct{ base }

func (s attemptless) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	now := s.asItIs(ctx, judged)
	c.Events = stalled(now).CancelEvents()
	return s.Store.Cancel(ctx, now, c)
}

type windowless struct{ base }

func (s windowless) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	of := judged
	of.StartedAt = of.StartedAt.Add(time.Duration(judged.Attempt) * time.Minute)
	c.Events = stalled(of).CancelEvents()
	return s.Store.Cancel(ctx, judged, c)
}

type claimless struct{ base }

func (s claimless) Claim(ctx context.Context, judged session.Session, c session.ClaimRequest) (session.Outcome, error) {
	c.By = s.asItIs(ctx, judged).Claim
	return s.Store.Claim(ctx, judged, c)
}

type anyEnd struct{ base }

func (s anyEnd) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	for i, e := range ends {
		ends[i].Attempt = s.asItIs(ctx, session.Session{RunID: e.RunID, Attempt: e.Attempt}).Attempt
	}
	return s.Store.End(ctx, ends)
}

type reviving struct{ base }

func (s reviving) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	for _, f := range fresh {
		if _, err := s.db.ExecContext(ctx, "UPDATE watchdog_sessions SET status = 'active', reason = '' "+
			"WHERE run_id = ? AND attempt = ? AND status = 'cancelled'", f.RunID, f.Attempt); err != nil {
			return session.Skipped{}, err
		}
	}
	return s.Store.Freshen(ctx, lease, fresh)
}

type anyLease struct{ base }

func (s anyLease) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (skipped session.Skipped, err error) {
	if skipped, err = s.Store.Freshen(ctx, lease, fresh); errors.Is(err, session.ErrLeaseExpired) {
		err = nil
	}
	return skipped, err
}

type signless struct{ base }

func (s signless) Warn(ctx context.Context, judged session.Session, events []watchdog.Event) (session.Outcome, error) {
	return s.Store.Warn(ctx, s.asItIs(ctx, judged), events)
}

type halving struct{ base }

func (s halving) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	outcomes, err := s.Store.CancelAll(ctx, all[:len(all)/2])
	for range all[len(outcomes):] {
		outcomes = append(outcomes, session.Done)
	}
	return outcomes, err
}

type beatless struct{ base }

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

type staying struct{ base }

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

type forgetful struct{ base }

func (s forgetful) Ended(
	ctx context.Context, lease string, told []session.AttemptID,
) (ended []session.AttemptID, err error) {
	if ended, err = s.Store.Ended(ctx, lease, told); err == nil && len(ended) > 0 {
		_, err = s.Store.Ended(ctx, lease, ended)
	}
	return ended, err
}

type untold struct{ base }

func (s untold) Attach(ctx context.Context, run session.Session) (before, after session.Session, err error) {
	if before, after, err = s.Store.Attach(ctx, run); err == nil && before.Lease != "" {
		_, err = s.Ended(ctx, before.Lease, []session.AttemptID{{RunID: before.RunID, Attempt: before.Attempt}})
	}
	return before, after, err
}

type twice struct {
	base
	taken sync.Map
}

func (s *twice) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	if _, again := s.taken.LoadOrStore(slice.ID, true); again {
		slice.ID += " again"
	}
	return s.Store.Take(ctx, slice)
}

type limitless struct{ base }

func (s limitless) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	slice.Force = true
	return s.Store.Take(ctx, slice)
}

type keeping struct{ base }

func (s keeping) Return(ctx context.Context, id string, _ watchdog.Totals) error {
	return s.Store.Return(ctx, id, watchdog.Totals{})
}
