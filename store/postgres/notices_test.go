package postgres_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

var withOutbox = postgres.Config{Outbox: true}

func alertOf(id string) session.Notice {
	return session.Notice{ID: id, AggregateType: "sweeper", AggregateID: "host-1", Type: "lease.lost"}
}

// onOutbox are the calls of an outbox.
var onOutbox = map[string]func(ctx context.Context, s *postgres.Store) error{
	"PutNotices": func(ctx context.Context, s *postgres.Store) error { return s.PutNotices(ctx, alertOf("1")) },
	"ClaimNotices": func(ctx context.Context, s *postgres.Store) error {
		return second(s.ClaimNotices(ctx, 1, time.Hour))
	},
	"FinishNotices": func(ctx context.Context, s *postgres.Store) error { return s.FinishNotices(ctx, alertOf("1")) },
	"DelayNotice": func(ctx context.Context, s *postgres.Store) error {
		return s.DelayNotice(ctx, alertOf("1"), time.Hour)
	},
}

// claimAll claims all that is due, and returns the IDs with the numbers of the tries.
func claimAll(tb testing.TB, s *postgres.Store, lasts time.Duration) (claimed []string) {
	tb.Helper()
	all, err := s.ClaimNotices(tb.Context(), 1000, lasts)
	require.NoError(tb, err)
	for _, n := range all {
		claimed = append(claimed, fmt.Sprint(n.ID, " ", n.Tries))
	}
	return claimed
}

// putBefore is how another program can put an end.
func putBefore(id string) string {
	return fmt.Sprintf(`INSERT INTO watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
		VALUES ('%s', '%s', 'run-1', '%s', now())`, id, watchdog.AggregateType, watchdog.EventCancel)
}

func inTable(tb testing.TB, pool *pgxpool.Pool) []string {
	tb.Helper()
	return texts(tb, pool, "SELECT event_id FROM watchdog_outbox ORDER BY id")
}

// endOf stores the end of a run.
func endOf(tb testing.TB, s *postgres.Store, id string) {
	tb.Helper()
	e := numbered(1)
	e.ID, e.Type = id, watchdog.EventCancel
	require.NoError(tb, s.Append(tb.Context(), e))
}

func TestNotices(t *testing.T) {
	t.Parallel()
	t.Run("of a store whose outbox is off are an error that says what to set", func(t *testing.T) {
		s := openAt(t, newDSN(t), postgres.Config{})
		for name, call := range onOutbox {
			err := call(t.Context(), s)
			require.ErrorIs(t, err, session.ErrNoOutbox, name)
			require.ErrorContains(t, err, "set Outbox in its configuration", name)
		}
	})
	t.Run("are delivered by another store than the one that stores the ends", func(t *testing.T) {
		dsn := newDSN(t)
		writer, sender := openAt(t, dsn, withOutbox), openAt(t, dsn, withOutbox)
		endOf(t, writer, "end-1")
		cancelOne(t, writer, "run-2")
		require.Equal(t, []string{"end-1 1", "cancel of run-2 1"}, claimAll(t, sender, time.Hour))
		require.NoError(t, sender.FinishNotices(t.Context(), session.Notice{ID: "end-1"}))
		assert.Equal(t, []string{"cancel of run-2"}, inTable(t, hostPool(t, dsn)))
	})
	t.Run("that nobody finishes are due again when the claim is over, and not before", func(t *testing.T) {
		s := openAt(t, newDSN(t), withOutbox)
		endOf(t, s, "end-1")
		const lasts = 300 * time.Millisecond
		for try := 1; try < 6; try += 2 {
			began := time.Now()
			require.Equal(t, []string{fmt.Sprint("end-1 ", try)}, claimAll(t, s, lasts))
			require.Eventually(t, func() bool {
				return len(claimAll(t, s, 0)) > 0
			}, time.Minute, 10*time.Millisecond)
			assert.GreaterOrEqual(t, time.Since(began), lasts)
		}
	})
	t.Run("can be claimed for ever", func(t *testing.T) {
		s := openAt(t, newDSN(t), withOutbox)
		endOf(t, s, "end-1")
		require.Len(t, claimAll(t, s, watchdog.NoLimit), 1)
		assert.Empty(t, claimAll(t, s, watchdog.NoLimit))
	})
	t.Run("that are there twice are finished together", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
		mustExec(t, pool, putBefore("twice"), putBefore("twice"), putBefore("once"))
		assert.Equal(t, []string{"twice 1", "twice 1", "once 1"}, claimAll(t, s, time.Hour))
		require.NoError(t, s.FinishNotices(t.Context(), session.Notice{ID: "twice"}))
		assert.Equal(t, []string{"once"}, inTable(t, pool))
	})
	t.Run("with a row of another program that cannot be understood are claimed all the same", func(t *testing.T) {
		dsn := newDSN(t)
		s := openAt(t, dsn, withOutbox)
		mustExec(t, hostPool(t, dsn), putBefore("poisoned"), "UPDATE watchdog_outbox SET created_at = 'infinity'")
		endOf(t, s, "end-1")
		assert.Equal(t, []string{"poisoned 1", "end-1 1"}, claimAll(t, s, time.Hour))
	})
	t.Run("of which none is due cost no write", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
		endOf(t, s, "end-1")
		require.Len(t, claimAll(t, s, time.Hour), 1)
		const written = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"
		// The server counts the writes of all its databases, such as those of its own upkeep.
		require.Eventually(t, func() bool {
			before := texts(t, pool, written)
			assert.Empty(t, claimAll(t, s, time.Hour))
			return slices.Equal(before, texts(t, pool, written))
		}, time.Minute, time.Millisecond)
	})
}

// lockNotice locks the row of a notice, as another program could.
func lockNotice(t *testing.T, pool *pgxpool.Pool, id string) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), "SELECT FROM watchdog_outbox WHERE event_id = $1 FOR UPDATE", id)
	require.NoError(t, err)
	return tx
}

func TestLockedNotice(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{
		"": "", ", in a mode of its own": "&default_query_exec_mode=simple_protocol",
	} {
		t.Run("holds up no other"+name, func(t *testing.T) {
			dsn := newDSN(t)
			s, pool := openAt(t, dsn+options, withOutbox), hostPool(t, dsn)
			for _, id := range []string{"end-1", "end-2", "end-3"} {
				endOf(t, s, id)
			}
			tx := lockNotice(t, pool, "end-2")
			began := time.Now()
			assert.Equal(t, []string{"end-1 1", "end-3 1"}, claimAll(t, s, time.Hour))
			assert.Less(t, time.Since(began), 8*promptly, "nothing waited")

			all := []session.Notice{{ID: "end-1"}, {ID: "end-2"}, {ID: "end-3"}}
			began = time.Now()
			require.ErrorContains(t, s.FinishNotices(t.Context(), all...), "lock_timeout allows")
			assert.Less(t, time.Since(began), seconds)
			assert.Equal(t, []string{"end-2"}, inTable(t, pool), "the others are finished")
			err := s.DelayNotice(t.Context(), session.Notice{ID: "end-2"}, time.Hour)
			require.ErrorContains(t, err, "lock_timeout allows")

			finished := make(chan error, 1)
			go func() { finished <- s.FinishNotices(t.Context(), all...) }()
			waitForLock(t, pool)
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, <-finished)
			assert.Empty(t, inTable(t, pool))
		})
	}
	t.Run("that another claims meanwhile is not delayed", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
		endOf(t, s, "end-1")
		claimed, err := s.ClaimNotices(t.Context(), 1, 0)
		require.NoError(t, err)
		tx := lockNotice(t, pool, "end-1")
		_, err = tx.Exec(t.Context(), "UPDATE watchdog_outbox SET tries = tries + 1, due_at = now() + interval '1 hour'")
		require.NoError(t, err)
		delayed := make(chan error, 1)
		go func() { delayed <- s.DelayNotice(t.Context(), claimed[0], 0) }()
		waitForLock(t, pool)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-delayed)
		assert.Empty(t, claimAll(t, s, 0))
	})
	t.Run("that another puts meanwhile is put once", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, withOutbox), hostPool(t, dsn)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		_, err = tx.Exec(t.Context(), `INSERT INTO watchdog_outbox
			(event_id, aggregate_type, aggregate_id, event_type, created_at, alert) VALUES ('alert-1', 'a', 'b', 'c', now(), true)`)
		require.NoError(t, err)
		put := make(chan error, 1)
		go func() { put <- s.PutNotices(t.Context(), alertOf("alert-1"), alertOf("alert-2")) }()
		waitForLock(t, pool)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-put)
		assert.Equal(t, []string{"alert-1", "alert-2"}, inTable(t, pool))
	})
}

// What the page for operators says of the role that delivers is enough, and each right is needed.
func TestDeliveryRights(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	pool := hostPool(t, dsn)
	cfg := postgres.Config{Schema: "watchdog", Outbox: true}
	openAt(t, dsn, cfg)
	mustExec(t, pool, "DROP ROLE IF EXISTS sender", "CREATE ROLE sender LOGIN")
	t.Cleanup(func() { mustExec(t, pool, "DROP OWNED BY sender", "DROP ROLE sender") })
	for _, grant := range documented(t, "operations.md", "Rights") {
		if !strings.Contains(grant, "DATABASE") {
			mustExec(t, pool, strings.Replace(grant, "TO app", "TO sender", 1))
		}
	}
	s := openAt(t, strings.Replace(dsn, "user=postgres", "user=sender", 1), cfg)
	deliver := func() error {
		err := s.PutNotices(t.Context(), alertOf("alert-1"))
		all, claimErr := s.ClaimNotices(t.Context(), 1, time.Hour)
		if len(all) == 0 {
			return errors.Join(err, claimErr, errors.New("nothing was claimed"))
		}
		return errors.Join(err, claimErr, s.DelayNotice(t.Context(), all[0], 0), s.FinishNotices(t.Context(), all...))
	}
	grants := documented(t, "operations.md", "Delivering notices")
	require.NotEmpty(t, grants)
	for _, grant := range grants {
		rights, rest, _ := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON ")
		for right := range strings.SplitSeq(rights, ", ") {
			endOf(t, s, "end before "+right)
			require.ErrorContains(t, deliver(), "grant the role what it lacks", "before "+right)
			mustExec(t, pool, strings.Replace("GRANT "+right+" ON "+rest, "TO app", "TO sender", 1))
		}
	}
	require.NoError(t, deliver())
}

// A refusal is the transport to a receiver that takes nothing.
type refusal struct{}

func (refusal) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
}

// A boxClock is the clock by which the times in an outbox are read: when it goes on, or is set, all of them are further
// in the past.
type boxClock struct {
	testing.TB
	pool *pgxpool.Pool
	gone time.Duration // really, in all
}

func (c *boxClock) set(by time.Duration, columns ...string) {
	c.Helper()
	for i, column := range columns {
		columns[i] = fmt.Sprintf("%[1]s = %[1]s - interval '%[2]d microseconds'", column, by.Microseconds())
	}
	mustExec(c, c.pool, "UPDATE watchdog_outbox SET "+strings.Join(columns, ", "))
}

func (c *boxClock) setAll(by time.Duration) { c.set(by, "created_at", "due_at", "paused_at") }

// pass has the pause of the only notice pass.
func (c *boxClock) pass() {
	c.Helper()
	text := texts(c, c.pool, "SELECT (extract(epoch FROM due_at - paused_at) * 1000000)::bigint::text FROM watchdog_outbox")
	pause, err := strconv.ParseInt(text[0], 10, 64)
	require.NoError(c, err)
	c.gone += time.Duration(pause) * time.Microsecond
	c.setAll(time.Duration(pause) * time.Microsecond)
}

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
			dsn := newDSN(t)
			s := openAt(t, dsn, postgres.Config{Outbox: true})
			clock := &boxClock{TB: t, pool: hostPool(t, dsn)}
			require.NoError(t, s.PutNotices(t.Context(), alertOf("alert-1")))
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
			assert.Empty(t, texts(t, clock.pool, "SELECT event_id FROM watchdog_outbox"))
		})
	}
}

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
	cmd.Env = append(os.Environ(), childVariable+"="+dsn)
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

// childVariable makes the test binary a process that delivers notices until it is killed.
const childVariable = "WATCHDOG_POSTGRES_CHILD"

func runChild(dsn string) int {
	if err := deliverUntilKilled(dsn); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
