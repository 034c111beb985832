package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

var withOutbox = sqlite.Config{Outbox: true}

// onOutbox are the calls of an outbox.
var onOutbox = map[string]func(ctx context.Context, s *sqlite.Store) error{
	"PutNotices": func(ctx context.Context, s *sqlite.Store) error {
		return s.PutNotices(ctx, session.Notice{ID: "1", AggregateType: "a", AggregateID: "b", Type: "c"})
	},
	"ClaimNotices": func(ctx context.Context, s *sqlite.Store) error {
		_, err := s.ClaimNotices(ctx, 1, time.Hour)
		return err
	},
	"FinishNotices": func(ctx context.Context, s *sqlite.Store) error {
		return s.FinishNotices(ctx, session.Notice{ID: "1"})
	},
	"DelayNotice": func(ctx context.Context, s *sqlite.Store) error {
		return s.DelayNotice(ctx, session.Notice{ID: "1"}, time.Hour)
	},
}

// claimAll claims all that is due, and returns the IDs with the numbers of the tries.
func claimAll(tb testing.TB, s *sqlite.Store, lasts time.Duration) (claimed []string) {
	tb.Helper()
	all, err := s.ClaimNotices(tb.Context(), 1000, lasts)
	require.NoError(tb, err)
	for _, n := range all {
		claimed = append(claimed, fmt.Sprint(n.ID, " ", n.Tries))
	}
	return claimed
}

func TestNotices(t *testing.T) {
	t.Parallel()
	t.Run("of a store whose outbox is off are an error that says what to set", func(t *testing.T) {
		s := openNew(t)
		for name, call := range onOutbox {
			err := call(t.Context(), s)
			require.ErrorIs(t, err, session.ErrNoOutbox, name)
			assert.True(t, errorHas(err, "set Outbox in its configuration", "events.db"), err)
		}
		require.NoError(t, s.Close())
		for name, call := range onOutbox {
			require.ErrorIs(t, call(t.Context(), s), sqlite.ErrClosed, name)
		}
	})
	t.Run("are delivered by another store than the one that stores the ends", func(t *testing.T) {
		file := newFile(t)
		writer, sender := openWith(t, file, withOutbox), openWith(t, file, withOutbox)
		require.NoError(t, writer.Append(t.Context(), numbered(1)))
		require.Equal(t, []string{"event-1 1"}, claimAll(t, sender, time.Hour))
		require.NoError(t, sender.FinishNotices(t.Context(), session.Notice{ID: "event-1"}))
		assert.Empty(t, queryAll(t, openPlain(t, file), allInOutbox))
	})
	t.Run("that nobody finishes are due again when the claim is over, and not before", func(t *testing.T) {
		s := openWith(t, newFile(t), withOutbox)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		const lasts = 300 * time.Millisecond
		for try := 1; try < 4; try++ {
			began := time.Now()
			require.Equal(t, []string{fmt.Sprint("event-1 ", try)}, claimAll(t, s, lasts))
			require.Eventually(t, func() bool {
				return len(claimAll(t, s, 0)) > 0
			}, time.Minute, 10*time.Millisecond)
			assert.GreaterOrEqual(t, time.Since(began), lasts-time.Millisecond, "the clock is read in milliseconds")
			try++
		}
	})
	t.Run("that are there twice are finished together", func(t *testing.T) {
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		mustExec(t, openPlain(t, file, "busy_timeout(10000)"), putBefore("twice"), putBefore("twice"), putBefore("once"))
		assert.Equal(t, []string{"twice 1", "twice 1", "once 1"}, claimAll(t, s, time.Hour))
		require.NoError(t, s.FinishNotices(t.Context(), session.Notice{ID: "twice"}))
		assert.Equal(t, []string{"once"}, queryAll(t, openPlain(t, file), "SELECT event_id FROM watchdog_outbox"))
	})
	t.Run("with a row of another program that cannot be understood are claimed all the same", func(t *testing.T) {
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		mustExec(t, openPlain(t, file, "busy_timeout(10000)"), putBefore("poisoned"),
			"UPDATE watchdog_outbox SET created_at = 'yesterday', tries = 'many'")
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		assert.Equal(t, []string{"poisoned 1", "event-1 1"}, claimAll(t, s, time.Hour))
	})
	t.Run("of which none is due cost no write", func(t *testing.T) {
		file := newFile(t)
		s, db := openWith(t, file, withOutbox), openPlain(t, file)
		db.SetMaxOpenConns(1)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.Len(t, claimAll(t, s, time.Hour), 1)
		before := queryAll(t, db, "PRAGMA data_version")
		assert.Empty(t, claimAll(t, s, time.Hour))
		assert.Equal(t, before, queryAll(t, db, "PRAGMA data_version"))
		require.NoError(t, s.FinishNotices(t.Context(), session.Notice{ID: "event-1"}))
		assert.NotEqual(t, before, queryAll(t, db, "PRAGMA data_version"), "what is written shows")
	})
}

// putBefore is how another program can put an end.
func putBefore(id string) string {
	return fmt.Sprintf(`INSERT INTO watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
		VALUES ('%s', '%s', 'run-1', '%s', '2026-01-02 03:04:05.000006')`, id, watchdog.AggregateType, watchdog.EventCancel)
}

func TestLockedNotices(t *testing.T) {
	t.Parallel()
	for name, call := range onOutbox {
		t.Run(name+" waits for the lock as other writes do, and says so", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := newFile(t)
				s, holder := openWith(t, file, withOutbox), openPlain(t, file)
				holder.SetMaxOpenConns(1)
				mustExec(t, holder, "BEGIN IMMEDIATE")
				began := time.Now()
				err := call(t.Context(), s)
				assert.True(t, errorHas(err, "locked by another writer", "another program is writing to it"), err)
				assert.Less(t, time.Since(began), 2*sqlite.LockWait)
				mustExec(t, holder, "ROLLBACK")
				require.NoError(t, call(t.Context(), s))
			})
		})
	}
}

// A refusal is the transport to a receiver that takes nothing.
type refusal struct{}

func (refusal) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
}

// A boxClock is the clock by which the times in an outbox of one notice are read: when it goes on, or is set, all of
// them are further in the past.
type boxClock struct {
	testing.TB
	db   *sql.DB
	gone time.Duration // really, in all
}

func (c *boxClock) read(column string) (at time.Time, ok bool) {
	c.Helper()
	at, err := time.Parse(timeLayout, queryAll(c, c.db, "SELECT "+column+" FROM watchdog_outbox")[0])
	return at, err == nil
}

func (c *boxClock) set(by time.Duration, columns ...string) {
	c.Helper()
	for _, column := range columns {
		if at, ok := c.read(column); ok { // what was never claimed has no time
			mustExec(c, c.db, "UPDATE watchdog_outbox SET "+column+" = '"+sqlite.FormatTime(at.Add(-by))+"'")
		}
	}
}

func (c *boxClock) setAll(by time.Duration) { c.set(by, "created_at", "due_at", "paused_at") }

// pass has the notice's pause pass.
func (c *boxClock) pass() {
	c.Helper()
	due, _ := c.read("due_at")
	paused, ok := c.read("paused_at")
	require.True(c, ok)
	c.gone += due.Sub(paused)
	c.setAll(due.Sub(paused))
}

const timeLayout = "2006-01-02 15:04:05.000000"

// A notice that was put by a clock that is wrong by a year is tried for as long as KeepFor says, and then dropped once.
func TestNoticeOfWrongClock(t *testing.T) {
	t.Parallel()
	const year, keepFor = 365 * 24 * time.Hour, 2 * notify.LeastKeepFor
	for name, test := range map[string]struct {
		wrong     time.Duration
		corrected int // after so many tries, 15 in a pause of an hour
	}{
		"right":                               {0, 0},
		"a year ahead when it was put":        {year, 0},
		"a year behind when it was put":       {-year, 0},
		"a year ahead for three tries":        {year, 3},
		"a year behind for three tries":       {-year, 3},
		"a year ahead until a pause is long":  {year, 15},
		"a year behind until a pause is long": {-year, 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			s := openWith(t, file, withOutbox)
			clock := &boxClock{TB: t, db: openPlain(t, file, "busy_timeout(10000)")}
			require.NoError(t, s.PutNotices(t.Context(), session.Notice{
				ID: "alert-1", AggregateType: "a", AggregateID: "b", Type: "c",
			}))
			if test.corrected == 0 {
				clock.set(-test.wrong, "created_at")
			}
			var log bytes.Buffer
			sender, err := notify.New(s, s, notify.Config{
				URL: "https://hooks.example.com/x", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
				Transport: refusal{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), KeepFor: keepFor,
			})
			require.NoError(t, err)
			for try := 1; ; try++ {
				d, _ := sender.Deliver(t.Context())
				if d.Dropped > 0 {
					break
				}
				require.Equal(t, notify.Delivery{Delayed: 1}, d, "try %d", try)
				if try == test.corrected {
					clock.setAll(-test.wrong)
				}
				if try != test.corrected || test.wrong == 0 {
					clock.pass()
				}
			}
			assert.GreaterOrEqual(t, clock.gone, keepFor)
			assert.LessOrEqual(t, clock.gone, keepFor+time.Hour+time.Second)
			assert.Equal(t, 1, strings.Count(log.String(), "a notice is given up, and nobody is told of it"))
			assert.Empty(t, queryAll(t, clock.db, "SELECT event_id FROM watchdog_outbox"))
		})
	}
	t.Run("and a row of another program that says no number has waited for no time", func(t *testing.T) {
		file := newFile(t)
		s := openWith(t, file, withOutbox)
		mustExec(t, openPlain(t, file, "busy_timeout(10000)"), putBefore("poisoned"),
			"UPDATE watchdog_outbox SET waited = 'long', paused_at = 'then'")
		claimed, err := s.ClaimNotices(t.Context(), 1, time.Hour)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		assert.Zero(t, claimed[0].Waited)
	})
}

const allInOutbox = "SELECT event_id, aggregate_type, aggregate_id, event_type FROM watchdog_outbox ORDER BY id"

// ofType returns the n-th event with another type.
func ofType(n int64, kind string) watchdog.Event {
	e := numbered(n)
	e.Type = kind
	return e
}

func inOutbox(n, kind string) []string { return []string{n, watchdog.AggregateType, "run-1", kind} }

func TestOutbox(t *testing.T) {
	t.Parallel()
	t.Run("has each end of a window once, however it was stored", func(t *testing.T) {
		file := newFile(t)
		s, err := sqlite.Config{Outbox: true}.Open(t.Context(), file)
		require.NoError(t, err)
		defer s.Close()
		foreign := numbered(7)
		foreign.AggregateType = "another"
		require.NoError(t, s.Append(t.Context(), ofType(0, watchdog.EventExtend), numbered(1), numbered(1), foreign))
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.NoError(t, s.Transact(t.Context(), &watchdog.Exchange{
			Selection: watchdog.Selection{AggregateType: watchdog.AggregateType, AggregateID: "run-1"},
			Decide: func([]watchdog.Event) []watchdog.Event {
				return []watchdog.Event{numbered(1), ofType(2, watchdog.EventComplete)}
			},
		}))
		run := attach(t, s, "run-1", "", 0)
		outcome, err := s.Cancel(t.Context(), run, session.CancelRequest{Events: cancels(3)})
		require.NoError(t, err)
		require.Equal(t, session.Done, outcome)
		assert.Equal(t, slices.Concat(inOutbox("event-1", watchdog.EventCancel),
			inOutbox("event-2", watchdog.EventComplete), inOutbox("event-3", watchdog.EventCancel)),
			queryAll(t, openPlain(t, file), allInOutbox))
	})
	t.Run("is written in the transaction of the event", func(t *testing.T) {
		db := openPlain(t, newFile(t))
		s, err := sqlite.Config{Outbox: true}.New(t.Context(), db)
		require.NoError(t, err)
		defer s.Close()
		mustExec(t, db,
			"CREATE TRIGGER refuse BEFORE INSERT ON watchdog_outbox BEGIN SELECT RAISE(ABORT, 'the outbox is full'); END")
		require.ErrorContains(t, s.Append(t.Context(), numbered(1)), "the outbox is full")
		assert.Empty(t, read(t, s))
		mustExec(t, db, "DROP TRIGGER refuse", `CREATE TRIGGER refuse BEFORE INSERT ON events WHEN new.id = 'event-2'
			BEGIN SELECT RAISE(ABORT, 'no more events'); END`)
		require.ErrorContains(t, s.Append(t.Context(), numbered(1), numbered(2)), "no more events")
		assert.Empty(t, queryAll(t, db, allInOutbox))
	})
	t.Run("is empty if it is off", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Append(t.Context(), numbered(1)))
		assert.Empty(t, queryAll(t, openPlain(t, file), allInOutbox))
	})
}

// TestPauseUnderLock protects that a run ends on time whose approval closes, or opens, while a stranger has the
// database locked for longer than the record timeout, and that both are stored afterwards though nobody polls.
func TestPauseUnderLock(t *testing.T) {
	t.Parallel()
	limit := watchdog.HoldLimit{Cap: time.Minute, PausesWallClock: true}
	for name, locked := range map[string]time.Duration{
		"when it opens": 18 * time.Second, "when it closes": 6500 * time.Millisecond,
		"from when it closes until the run has to end": 10500 * time.Millisecond,
	} {
		opensLocked := name == "when it opens"
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file := newFile(t)
				s := openAt(t, file)
				holder := openPlain(t, file)
				holder.SetMaxOpenConns(1)
				begun := time.Now()
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: begun}, watchdog.Config{
					Store: s, Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{WallClock: 10 * time.Second},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer wd.Close()
				lock := func() {
					mustExec(t, holder, "BEGIN IMMEDIATE")
					time.AfterFunc(locked, func() { mustExec(t, holder, "ROLLBACK") })
				}
				if opensLocked {
					lock()
				}
				h, err := wd.Hold(t.Context(), "approval", limit)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if !opensLocked {
					lock()
				}
				h.Close()
				<-wd.Context().Done()
				if lasted := time.Since(begun); lasted < 30*time.Second || lasted > 31*time.Second {
					t.Errorf("the run lasted %v, and 20 s of them were an approval; it has 10 s", lasted)
				}
				if !errors.Is(context.Cause(wd.Context()), watchdog.WallClockExceeded) {
					t.Error(context.Cause(wd.Context()))
				}
				events, err := s.Read(t.Context(), watchdog.AggregateType, "s-1")
				if err != nil {
					t.Fatal(err)
				}
				for _, kind := range []string{watchdog.EventHold, watchdog.EventRelease, watchdog.EventCancel} {
					if !slices.ContainsFunc(events, func(e watchdog.Event) bool { return e.Type == kind }) {
						t.Errorf("%s is not stored", kind)
					}
				}
			})
		})
	}
}
