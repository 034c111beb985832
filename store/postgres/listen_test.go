package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

func cancelOf(id, runID string) session.CancelRequest {
	e := watchdog.Event{
		ID: id, AggregateType: watchdog.AggregateType, AggregateID: runID, Type: watchdog.EventCancel,
		Payload: []byte(`{"reason":"idle_timeout"}`), Timestamp: noon,
	}
	return session.CancelRequest{Reason: "watchdog_idle_timeout", Events: []watchdog.Event{e}}
}

func attach(tb testing.TB, s session.Store, runID string) session.Session {
	tb.Helper()
	_, after, err := s.Attach(tb.Context(), session.Session{RunID: runID, StartedAt: noon, Host: "host-1"})
	require.NoError(tb, err)
	return after
}

// cancelsAtOnce cancels each of ten sessions in sixteen goroutines. Each session must be cancelled once.
func cancelsAtOnce(t *testing.T, s session.Store) {
	t.Helper()
	var sessions []session.Session
	for i := range 10 {
		sessions = append(sessions, attach(t, s, fmt.Sprint("run-", i)))
	}
	var all sync.WaitGroup
	var won atomic.Int64
	for caller := range 16 {
		all.Go(func() {
			for i, judged := range sessions {
				done, err := s.Cancel(t.Context(), judged, cancelOf(fmt.Sprint(caller, " ", i), judged.RunID))
				if !errors.Is(err, session.ErrLocked) { // by the winner
					assert.NoError(t, err)
				}
				if done == session.Done {
					won.Add(1)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 10, won.Load())
	for _, judged := range sessions {
		events, err := s.Read(t.Context(), watchdog.AggregateType, judged.RunID)
		require.NoError(t, err)
		require.Len(t, events, 1)
	}
}

// A listening is a call of Listen that is ready.
type listening struct {
	told  chan string
	ended chan error
	stop  context.CancelFunc
}

func listen(t *testing.T, s session.Listener) listening {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := listening{make(chan string, 10), make(chan error, 1), stop}
	ready := make(chan struct{})
	go func() { l.ended <- s.Listen(ctx, func() { close(ready) }, func(runID string) { l.told <- runID }) }()
	select {
	case <-ready:
	case err := <-l.ended:
		require.NoError(t, err, "listening ended before it was ready")
	}
	return l
}

// listenLatencies cancels sessions while the store listens, and returns how long each notification took.
func listenLatencies(t *testing.T, s session.Store) (latencies []time.Duration) {
	t.Helper()
	l := listen(t, s.(session.Listener))
	for i := range 100 {
		judged := attach(t, s, fmt.Sprint("run-", i))
		began := time.Now()
		done, err := s.Cancel(t.Context(), judged, cancelOf(fmt.Sprint(i), judged.RunID))
		require.NoError(t, err)
		require.Equal(t, session.Done, done)
		require.Equal(t, judged.RunID, wait(t, l.told))
		latencies = append(latencies, time.Since(began))
	}
	l.stop()
	require.NoError(t, <-l.ended)
	slices.Sort(latencies)
	return latencies
}

// A listener is notified of a cancel at once.
func TestListenLatency(t *testing.T) {
	latencies := listenLatencies(t, openAt(t, newDSN(t), postgres.Config{}))
	t.Logf("from before the cancel until its notification: median %v, worst of 100 %v", latencies[50], latencies[99])
	require.Less(t, latencies[50], 100*time.Millisecond)
}

// The host's configuration of its pool is that of the listener's connection, too. What the host does with notifications
// changes nothing for the listener, nor the listener for the host.
func TestListenHost(t *testing.T) {
	t.Parallel()
	const theirs = "host_channel"
	hosts := make(chan *pgconn.Notification, 10)
	pool := hostPool(t, newDSN(t), func(c *pgxpool.Config) {
		c.ConnConfig.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { hosts <- n }
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "LISTEN "+theirs)
			return err
		}
	})
	s := newStore(t, pool)
	l := listen(t, s)
	mustExec(t, pool, "SELECT pg_notify('"+theirs+"', 'not a run')")
	judged := attach(t, s, "run-1")
	require.NoError(t, second(s.Cancel(t.Context(), judged, cancelOf("c", "run-1"))))
	require.Equal(t, "run-1", wait(t, l.told), "a notification of the host is none of a cancel")
	require.Equal(t, "not a run", wait(t, hosts).Payload, "the host's pool is as it was")
	l.stop()
	require.NoError(t, <-l.ended)
	require.Empty(t, l.told)
}

// A listener gets no notifications of another schema.
func TestListenSchemas(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	here := openAt(t, dsn, postgres.Config{Schema: "here"})
	there := openAt(t, dsn, postgres.Config{Schema: "there"})
	l := listen(t, here)
	for _, s := range []*postgres.Store{there, here} {
		judged := attach(t, s, fmt.Sprint("of ", s == here))
		require.NoError(t, second(s.Cancel(t.Context(), judged, cancelOf("c", judged.RunID))))
	}
	require.Equal(t, "of true", wait(t, l.told))
	l.stop()
	require.NoError(t, <-l.ended)
}

var withOutbox = postgres.Config{Outbox: true}

func alertOf(id string) session.Notice {
	return session.Notice{ID: id, AggregateType: "sweeper", AggregateID: "host-1", Type: "lease.lost"}
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

// lockNotice locks the row of a notice, as another program could.
func lockNotice(t *testing.T, pool *pgxpool.Pool, id string) pgx.Tx {
	t.Helper()
	return begun(t, pool, "SELECT FROM watchdog_outbox WHERE event_id = $1 FOR UPDATE", id)
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
			require.Equal(t, []string{"end-1 1", "end-3 1"}, claimAll(t, s, time.Hour))
			require.Less(t, time.Since(began), 8*promptly, "nothing waited")

			all := []session.Notice{{ID: "end-1"}, {ID: "end-2"}, {ID: "end-3"}}
			began = time.Now()
			require.ErrorContains(t, s.FinishNotices(t.Context(), all...), "lock_timeout allows")
			require.Less(t, time.Since(began), seconds)
			require.Equal(t, []string{"end-2"}, inTable(t, pool), "the others are finished")
			err := s.DelayNotice(t.Context(), session.Notice{ID: "end-2"}, time.Hour)
			require.ErrorContains(t, err, "lock_timeout allows")

			finished := make(chan error, 1)
			go func() { finished <- s.FinishNotices(t.Context(), all...) }()
			waitForLock(t, pool)
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, <-finished)
			require.Empty(t, inTable(t, pool))
		})
	}
	t.Run("that another claims meanwhile is not delayed", func(t *testing.T) {
		s, pool := openNew(t, withOutbox)
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
		require.Empty(t, claimAll(t, s, 0))
	})
	t.Run("that another puts meanwhile is put once", func(t *testing.T) {
		s, pool := openNew(t, withOutbox)
		tx := begun(t, pool, `INSERT INTO watchdog_outbox
			(event_id, aggregate_type, aggregate_id, event_type, created_at, alert) VALUES ('alert-1', 'a', 'b', 'c', now(), true)`)
		put := make(chan error, 1)
		go func() { put <- s.PutNotices(t.Context(), alertOf("alert-1"), alertOf("alert-2")) }()
		waitForLock(t, pool)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-put)
		require.Equal(t, []string{"alert-1", "alert-2"}, inTable(t, pool))
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

// claimTime is how long the claims of processes last that are killed.
const claimTime = 300 * time.Millisecond

// deliverUntilKilled delivers what is in the outbox: it prints the ID of each notice. It then finishes it, delays it,
// or leaves it to others, and says what it has finished.
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
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.GreaterOrEqual(t, n, lines)
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
			require.False(t, finished[id], "%s was finished, and came again", id)
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
			require.False(t, finished[n.ID], "%s was finished, and came again", n.ID)
			delete(left, n.ID)
		}
		require.NoError(t, s.FinishNotices(t.Context(), all...))
		return len(inTable(t, pool)) == 0
	}, time.Minute, 10*time.Millisecond)
	require.Empty(t, slices.Collect(maps.Keys(left)), "nobody was told of these ends")
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
