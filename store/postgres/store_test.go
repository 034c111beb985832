package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/storetest"
)

// serializable is a setup of long runs only: it runs the same statements as the others.
const serializable = "under serializable transactions and German dates"

const opened = "opened"

// setups are the ways to open a store. A store keeps every rule in each of them.
var setups = map[string]func(t *testing.T) putter{
	opened: func(t *testing.T) putter {
		dsn := newDSN(t)
		return newPutter(t, dsn, dsn)
	},
	"in a host's table and pool of one connection, without a cache, with German dates in another zone": func(t *testing.T) putter {
		dsn := newDSN(t)
		mustExec(t, hostPool(t, dsn), foreignTable)
		pool := hostPool(t, dsn, func(c *pgxpool.Config) {
			c.MaxConns, c.ConnConfig.StatementCacheCapacity, c.ConnConfig.DescriptionCacheCapacity = 1, 0, 0
			c.ConnConfig.RuntimeParams["TimeZone"] = "Asia/Kolkata"
			c.ConnConfig.RuntimeParams["DateStyle"] = "German"
		})
		return hurried(newStoreWith(t, pool, withOutbox), hostPool(t, dsn))
	},
	serializable: func(t *testing.T) putter {
		dsn := newDSN(t)
		pool := hostPool(t, dsn, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			c.ConnConfig.RuntimeParams["DateStyle"] = "German"
		})
		return hurried(newStoreWith(t, pool, withOutbox), hostPool(t, dsn))
	},
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for name, open := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			storetest.Run(t, func(t *testing.T) watchdog.EventStore { return s.emptied(t) })
		})
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	for name, open := range setups {
		t.Run(name, func(t *testing.T) {
			if name == opened {
				racing.LongOnly(t) // it runs the same statements as the host's, and most other tests do, too
			}
			t.Parallel()
			s := open(t)
			sessiontest.Run(t, func(t *testing.T) session.Store { return s.emptied(t) })
		})
	}
}

func TestSpend(t *testing.T) {
	t.Parallel()
	for name, open := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			storetest.RunSpend(t, func(t *testing.T) watchdog.SpendStore { return s.emptied(t) })
		})
	}
}

func TestDurable(t *testing.T) {
	t.Parallel()
	storetest.RunDurable(t, func(t *testing.T) func() (watchdog.EventStore, error) {
		dsn := newDSN(t)
		return func() (watchdog.EventStore, error) { return postgres.Open(t.Context(), dsn, postgres.Config{}) }
	})
}

// withoutListener hides Listen, which does not work through a pooler in transaction mode.
type withoutListener struct {
	session.Store
	sessiontest.Putter
	session.Outbox
}

func TestTransactionPooler(t *testing.T) {
	t.Parallel()
	pooler := pgtest.StartPooler(t, server(t), pgtest.TransactionMode)
	through := func(t *testing.T) putter {
		name := server(t).Database(t)
		return newPutterWith(t, pooler.DSN(name), server(t).DSN(name), withOutbox)
	}
	t.Run("keeps every rule of events", func(t *testing.T) {
		t.Parallel()
		s := through(t)
		storetest.Run(t, func(t *testing.T) watchdog.EventStore { return s.emptied(t) })
	})
	t.Run("keeps every rule of shared limits", func(t *testing.T) {
		racing.LongOnly(t)
		t.Parallel()
		s := through(t)
		storetest.RunSpend(t, func(t *testing.T) watchdog.SpendStore { return s.emptied(t) })
	})
	t.Run("keeps every rule of sessions, except those of listening", func(t *testing.T) {
		racing.LongOnly(t)
		t.Parallel()
		s := through(t)
		sessiontest.Run(t, func(t *testing.T) session.Store { return withoutListener{s.emptied(t), s, s} })
	})
	t.Run("cannot listen, and says so", func(t *testing.T) {
		t.Parallel()
		s, began := through(t), time.Now()
		err := s.Listen(t.Context(), func() { t.Error("Listen called ready") }, func(string) {})
		require.ErrorIs(t, err, postgres.ErrNoNotifications)
		assert.Less(t, time.Since(began), 30*time.Second)
	})
	t.Run("cancels each session once", func(t *testing.T) {
		t.Parallel()
		cancelsAtOnce(t, through(t))
	})
}

func TestSessionPooler(t *testing.T) {
	t.Parallel()
	pooler := pgtest.StartPooler(t, server(t), pgtest.SessionMode)
	name := server(t).Database(t)
	listenLatencies(t, newPutter(t, pooler.DSN(name)+"&pool_max_conns=1", server(t).DSN(name)))
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	t.Run("refuses every call", func(t *testing.T) {
		s := openAt(t, newDSN(t), postgres.Config{})
		require.NoError(t, s.Close())
		for name, err := range eachCall(t.Context(), s) {
			require.ErrorIs(t, err, postgres.ErrClosed, name)
		}
		require.NoError(t, s.Close())
	})
	t.Run("ends Listen", func(t *testing.T) {
		s := openAt(t, newDSN(t), postgres.Config{})
		ready, ended := make(chan struct{}), make(chan error)
		go func() { ended <- s.Listen(t.Context(), func() { close(ready) }, func(string) {}) }()
		<-ready
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, postgres.ErrClosed)
	})
	t.Run("leaves the host's pool open", func(t *testing.T) {
		pool := hostPool(t, newDSN(t))
		require.NoError(t, newStore(t, pool).Close())
		require.NoError(t, pool.Ping(t.Context()))
	})
}

// eachCall makes every call of a store and returns the errors.
func eachCall(ctx context.Context, s *postgres.Store) map[string]error {
	errs := map[string]error{"Listen": s.Listen(ctx, func() {}, func(string) {})}
	for name, call := range tableCalls(s) {
		errs[name] = call(ctx)
	}
	return errs
}

// tableCalls returns every call of a store that reads or writes its tables.
func tableCalls(s *postgres.Store) map[string]func(context.Context) error {
	judged := session.Session{RunID: "run-1", Attempt: 1}
	return map[string]func(context.Context) error{
		"PutNotices":    func(ctx context.Context) error { return s.PutNotices(ctx, alertOf("alert-1")) },
		"ClaimNotices":  func(ctx context.Context) error { return second(s.ClaimNotices(ctx, 1, time.Hour)) },
		"FinishNotices": func(ctx context.Context) error { return s.FinishNotices(ctx, alertOf("alert-1")) },
		"DelayNotice":   func(ctx context.Context) error { return s.DelayNotice(ctx, alertOf("alert-1"), time.Hour) },

		"Append": func(ctx context.Context) error { return s.Append(ctx, numbered(1)) },
		"Read":   func(ctx context.Context) error { return second(s.Read(ctx, watchdog.AggregateType, "run-1")) },
		"Attach": func(ctx context.Context) error {
			_, _, err := s.Attach(ctx, session.Session{RunID: "run-1", StartedAt: noon})
			return err
		},
		"Freshen": func(ctx context.Context) error {
			return second(s.Freshen(ctx, lease1, []session.Freshness{{RunID: "run-1", Attempt: 1}}))
		},
		"BeginLease":    func(ctx context.Context) error { return s.BeginLease(ctx, leaseOf(lease1)) },
		"RenewLease":    func(ctx context.Context) error { return s.RenewLease(ctx, leaseOf(lease1)) },
		"ObserveLeases": func(ctx context.Context) error { return second(s.ObserveLeases(ctx, []string{lease1})) },
		"ObserveLeases without suspects": func(ctx context.Context) error {
			return second(s.ObserveLeases(ctx, nil))
		},
		"ExpireLease": func(ctx context.Context) error {
			_, _, err := s.ExpireLease(ctx, leaseOf(lease1))
			return err
		},
		"LeaseSessions": func(ctx context.Context) error { return second(s.LeaseSessions(ctx, lease1)) },
		"End": func(ctx context.Context) error {
			return second(s.End(ctx, []session.Ending{{RunID: "run-1", Attempt: 1, Status: session.Finished}}))
		},
		"Session": func(ctx context.Context) error { return second(s.Session(ctx, "run-1")) },
		"Stalled": func(ctx context.Context) error {
			return second(s.Stalled(ctx, session.Query{Threshold: time.Hour, Limit: 1}))
		},
		"List":  func(ctx context.Context) error { return second(s.List(ctx, session.ListQuery{Limit: 1})) },
		"Claim": func(ctx context.Context) error { return second(s.Claim(ctx, judged, session.ClaimRequest{By: "pass"})) },
		"Warn":  func(ctx context.Context) error { return second(s.Warn(ctx, judged, []watchdog.Event{numbered(3)})) },
		"Cancel": func(ctx context.Context) error {
			return second(s.Cancel(ctx, judged, session.CancelRequest{Reason: "r", Events: []watchdog.Event{numbered(2)}}))
		},
		"Ended": func(ctx context.Context) error {
			return second(s.Ended(ctx, "lease-1", nil))
		},
		"History": func(ctx context.Context) error {
			return second(s.History(ctx, session.HistoryQuery{To: noon, By: session.ByDay}))
		},
		"Select": func(ctx context.Context) error {
			return second(s.Select(ctx, watchdog.Selection{AggregateType: watchdog.AggregateType, AggregateID: "run-1"}))
		},
		"Transact": func(ctx context.Context) error { return s.Transact(ctx, counting("run-1")) },
		"Take":     func(ctx context.Context) error { return second(s.Take(ctx, sliceOf("slice-1", 1, 60))) },
		"Return":   func(ctx context.Context) error { return s.Return(ctx, "slice-1", watchdog.Totals{}) },
		"Layers":   func(ctx context.Context) error { return second(s.Layers(ctx, "run-1")) },
		"Follow":   func(ctx context.Context) error { return s.Follow(ctx, "", func() {}, func(watchdog.Event) {}) },
	}
}

func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	ctx, dsn := t.Context(), newDSN(t)
	_, err := postgres.New(ctx, nil, postgres.Config{})
	require.ErrorContains(t, err, "nil")
	for name, schema := range map[string]string{"has 64 bytes": strings.Repeat("s", 64), "NUL": "a\x00b"} {
		_, err := postgres.Open(ctx, dsn, postgres.Config{Schema: schema})
		require.ErrorContains(t, err, name)
	}
	s := openAt(t, dsn, postgres.Config{})
	_, _, err = s.Attach(ctx, session.Session{RunID: "run-1", Threshold: -1})
	require.ErrorContains(t, err, "threshold")
	_, err = s.Stalled(ctx, session.Query{Limit: 1, After: "nonsense"})
	require.ErrorContains(t, err, "nonsense")
	_, err = s.History(ctx, session.HistoryQuery{By: "weather"})
	require.ErrorContains(t, err, "weather")
}
