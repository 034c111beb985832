package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

func cancelOf(id, runID string) session.CancelRequest {
	e := event.Event{
		ID: id, AggregateType: event.AggregateType, AggregateID: runID, Type: event.Cancel,
		Payload: []byte(`{"reason":"idle_timeout"}`), Timestamp: noon,
	}
	return session.CancelRequest{Reason: "watchdog_idle_timeout", Events: []event.Event{e}}
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
		events, err := s.Read(t.Context(), event.AggregateType, judged.RunID)
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
	latencies := listenLatencies(t, openAt(t, newDSN(t), postgres.Config{}).Patient())
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
