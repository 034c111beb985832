package sweeptest_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// sweepersDie kills sweepers in many processes, and in PostgreSQL the server, while some stalled sessions wake up.
func sweepersDie(t *testing.T, db *database) {
	db.seed(t, db.stalled+100, db.stalled)
	f := &fleet{t: t, db: db}
	waking := f.wakeUp()
	all := db.stalled - db.woken
	for round := 1; round <= 10; round++ {
		f.await(round * all / 12)
		f.replaceOne()
		if round == 5 && db.server != nil {
			db.server.Kill()
			require.NoError(t, db.server.Restart())
		}
	}
	f.finish(waking)
}

// A fleet is a group of sweepers in processes of their own.
type fleet struct {
	t       *testing.T
	db      *database
	members []*process
}

func (f *fleet) start() *process { return start(f.t, job{DSN: f.db.dsn}) }

// replaceOne kills a random sweeper with SIGKILL and starts another.
func (f *fleet) replaceOne() {
	f.t.Helper()
	at := rand.IntN(len(f.members))
	f.members[at].kill()
	f.members[at] = f.start()
}

// await waits until n sessions are cancelled.
func (f *fleet) await(n int) {
	f.t.Helper()
	enough := func() bool { return f.db.cancelled() >= n }
	require.Eventually(f.t, enough, patience, 5*time.Millisecond, "waiting for %d cancels", n)
}

// A wokenSessions records the sessions that woke up, and whether each was cancelled by then.
type wokenSessions struct {
	gone  map[string]bool
	ended chan struct{}
}

// wakeUp starts the sweepers and writes events of sessions as their host would: of some before a sweeper runs, of the
// others while they do. Those can be cancelled before, at the same time, or not.
func (f *fleet) wakeUp() *wokenSessions {
	f.t.Helper()
	const batch = 5
	w := &wokenSessions{map[string]bool{}, make(chan struct{})}
	host, ctx := f.db.store(f.t), f.t.Context()
	waking := rand.Perm(f.db.stalled)[:f.db.woken]
	others := f.db.stalled - f.db.woken
	stopRenewing := f.renewLease(host)
	w.writeEvents(ctx, host, waking[:batch])
	for range f.db.processes {
		f.members = append(f.members, f.start())
	}
	go func() {
		defer close(w.ended)
		defer stopRenewing()
		for n := batch; n < len(waking) && ctx.Err() == nil; n += batch {
			for f.db.cancelled() < others*n/len(waking)*3/4 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			w.writeEvents(ctx, host, waking[n:n+batch])
		}
	}()
	f.t.Cleanup(func() { <-w.ended })
	return w
}

// hostLease is the lease of the host that writes events.
const hostLease = "the-host"

// renewLease keeps the lease of the host alive until stop is called.
func (f *fleet) renewLease(host session.Store) (stop func()) {
	f.t.Helper()
	l := session.Lease{ID: hostLease, Host: "host", Promise: session.ShortestPromise, Beat: 1}
	require.NoError(f.t, host.BeginLease(f.t.Context(), l))
	ctx, stop := context.WithCancel(f.t.Context())
	go func() {
		tick := time.NewTicker(session.ShortestPromise / 5)
		defer tick.Stop()
		for ctx.Err() == nil {
			l.Beat++
			_ = host.RenewLease(ctx, l) // an outage is a part of the test
			<-tick.C
		}
	}()
	return stop
}

// writeEvents writes until it succeeds: after an error it is unknown whether the write happened.
func (w *wokenSessions) writeEvents(ctx context.Context, host session.Store, numbers []int) {
	var fresh []session.Freshness
	for _, n := range numbers {
		fresh = append(fresh, session.Freshness{RunID: runNumber(n + 1), Attempt: 1, Activity: 1})
		w.gone[runNumber(n+1)] = false
	}
	skipped, err := host.Freshen(ctx, hostLease, fresh)
	for (err != nil || len(skipped.Locked) > 0) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		skipped, err = host.Freshen(ctx, hostLease, fresh)
	}
	for _, runID := range skipped.Gone {
		w.gone[runID] = true
	}
}

// finish waits for the remaining cancels, ends the sweepers, and checks the result.
func (f *fleet) finish(w *wokenSessions) {
	f.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(patience):
		require.Fail(f.t, "the sweepers do not exit")
	}
	awake := 0
	for _, gone := range w.gone {
		if !gone {
			awake++
		}
	}
	f.t.Logf("%d of %d sessions woke up in time", awake, len(w.gone))
	require.Positive(f.t, awake)
	f.await(f.db.stalled - awake)
	for _, p := range f.members {
		p.end()
	}
	f.check(w)
}

// check checks every row: sessions that woke up are active without a cancel, stalled ones are cancelled once.
func (f *fleet) check(w *wokenSessions) {
	f.t.Helper()
	statuses, cancels := f.db.statuses(f.t), f.db.cancels(f.t)
	require.Len(f.t, statuses, f.db.stalled+100)
	for i := 1; i <= len(statuses); i++ {
		runID := runNumber(i)
		gone, woken := w.gone[runID]
		if i > f.db.stalled || woken && !gone {
			assert.Equal(f.t, "active", statuses[runID], "%s, which is awake", runID)
			assert.Zero(f.t, cancels[runID], "the cancels of %s, which is awake", runID)
			continue
		}
		assert.Equal(f.t, "cancelled", statuses[runID], "%s, which is stalled", runID)
		assert.Equal(f.t, 1, cancels[runID], "the cancels of %s", runID)
	}
}
