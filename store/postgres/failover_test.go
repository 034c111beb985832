package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// outage is how long there is no primary. It is more than the time between two writes of a row.
const outage = silence/10 + time.Second

// A primary that crashes under load, and whose synchronous standby is promoted, costs nothing: no acknowledged event is
// lost, no live run is cancelled, no run has two ends, and its row and its events agree.
func TestFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t, true)
	for _, host := range []string{"host-1", "host-2", "host-3"} {
		c.host(host, 12, 3)
		c.write("writer of " + host)
	}
	c.crash("dead-1")
	first, second := c.sweep(), c.sweep()
	c.untilWritten()
	c.until("cancels", func() bool { return first.Stats().Cancelled+second.Stats().Cancelled > 10 })

	c.primary.Kill()
	time.Sleep(outage)
	_, refused := c.acknowledgements()
	require.Positive(t, refused, "nothing was written meanwhile")
	fresh := c.promote()
	assert.Less(t, fresh, seconds)
	c.untilWritten()
	c.crash("dead-2")
	cancelled := first.Stats().Cancelled + second.Stats().Cancelled
	c.until("cancels", func() bool { return first.Stats().Cancelled+second.Stats().Cancelled > cancelled+10 })
	c.verify()
	assert.Empty(t, c.lost(), "acknowledged events")
}

// A primary whose machine vanishes answers nobody, and closes no connection. Its standby takes over all the same.
func TestFailoverOfVanished(t *testing.T) {
	racing.LongOnly(t)
	t.Parallel()
	c := startCluster(t, true)
	first, second := startProxy(t, c.primary.DSN(c.database)), startProxy(t, c.standby.DSN(c.database))
	c.connect(fmt.Sprintf("postgres://postgres@%s,%s/%s?sslmode=disable&target_session_attrs=read-write"+
		"&connect_timeout=1&pool_ping_timeout=1s", first.listener.Addr(), second.listener.Addr(), c.database))
	for _, host := range []string{"host-1", "host-2", "host-3"} {
		c.host(host, 12, 3)
		c.write("writer of " + host)
	}
	c.crash("dead")
	c.sweep()
	c.untilWritten()
	first.vanish()
	time.Sleep(outage)
	fresh := c.promote()
	assert.Less(t, fresh, seconds)
	c.untilWritten()
	c.verify()
	first.close() // else a store waits for the lost connections when it closes
	assert.Empty(t, c.lost(), "acknowledged events")
}

// A primary with an asynchronous standby loses what it committed last. Runs go on, and what was decided is decided
// again, in the same way.
func TestAsynchronousFailover(t *testing.T) {
	racing.LongOnly(t)
	t.Parallel()
	c := startCluster(t, false)
	c.host("host-1", 12, 0) // the cancel of a run by its own limit can be lost
	c.write("writer")
	c.crash("dead")
	c.untilWritten()
	kept := c.acknowledgedEvents()
	require.NoError(t, c.standby.Disconnect(t.Context()))
	c.host("host-2", 3, 0)
	known, late := c.live[:12], c.live[12:]
	c.live = known
	sweeper := c.sweep()
	c.untilWritten()
	c.until("cancels", func() bool { return sweeper.Stats().Cancelled > 10 })

	c.primary.Kill()
	time.Sleep(outage)
	c.promote()
	c.untilWritten()
	lost := c.lost()
	assert.NotEmpty(t, lost, "events that were acknowledged after the standby received the last")
	for _, id := range kept {
		assert.NotContains(t, lost, id, "the standby had received it")
	}
	for _, wd := range late {
		assert.NoError(t, wd.Context().Err(), "a run whose row was lost goes on")
	}
	t.Run("a row that was lost is made again while its run lives", func(t *testing.T) {
		c.live = append(known, late...)
		c.untilFresh(c.dsn, time.Now())
	})
	c.verify()
}

// While the synchronous standby is away no event is acknowledged, not even one that is appended again: the primary has
// stored it, and the standby, which may be promoted, has not.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	c := startCluster(t, true)
	require.NoError(t, c.standby.Disconnect(t.Context()))
	s := openAt(t, c.dsn, postgres.Config{})
	stored := 0
	for name, write := range map[string]func(ctx context.Context) error{
		"appended":   func(ctx context.Context) error { return s.Append(ctx, numbered(1)) },
		"transacted": func(ctx context.Context) error { return s.Transact(ctx, appending("run-1", numbered(2))) },
	} {
		stored++
		t.Run("an event is not acknowledged that is "+name, func(t *testing.T) {
			for tries := 0; tries < 3 || len(read(t, s)) < stored; tries++ { // a busy machine may not come to the commit
				require.Less(t, tries, 100)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				assert.ErrorIs(t, write(ctx), context.DeadlineExceeded)
				cancel()
			}
		})
	}
	assert.Len(t, read(t, s), 2, "the primary has stored them")
	require.NoError(t, c.standby.Reconnect(t.Context()))
	require.NoError(t, s.Append(t.Context(), numbered(1)))
}
