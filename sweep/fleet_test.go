package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A fleet is a database with hosts that live, stop for a while and die, two sweepers, and every fault: calls fail, their
// answers are lost, and the database's clock is set.
type fleet struct {
	*fixture
	hosts    []*member
	sweepers []*sweep.Sweeper
	chance   sync.Mutex // guards what follows
	random   *rand.Rand
	flaky    float64
}

// A member is a host of a fleet. Its runs are active whenever it renews.
type member struct {
	*host
	paused   time.Time // it stops then
	until    time.Time // and goes on then, zero for never
	expected bool      // that its runs are cancelled
}

func newFleet(f *fixture, seed uint64) *fleet {
	w := &fleet{
		fixture: f, random: rand.New(rand.NewPCG(seed, 7)),
	}
	fail := w.fail
	f.onStalled = func(context.Context, session.Query) error { return fail() }
	f.onObserve = func(context.Context, []string) error { return fail() }
	f.onExpire = func(session.Lease) (int, error) { return 0, fail() }
	f.onSession = func(context.Context) error { return fail() }
	f.onClaim = func(context.Context, session.Session) error { return fail() }
	f.onCancel = func(context.Context, session.Session) error { return fail() }
	f.after = fail
	f.cfg.MaxCancellationsPerRun = 1 + w.random.Int64N(8)
	f.cfg.StopHook = func(_ context.Context, s session.Session) error {
		w.requireDead(s)
		return fail()
	}
	for i := range 6 {
		w.addHost(i)
	}
	for range 2 {
		s, err := sweep.New(f, f, f.cfg)
		require.NoError(f, err)
		w.sweepers = append(w.sweepers, s)
	}
	return w
}

func (w *fleet) fail() error {
	w.chance.Lock()
	defer w.chance.Unlock()
	if w.random.Float64() < w.flaky {
		return errors.New("connection lost")
	}
	return nil
}

// setFlaky sets how often a call fails, at most.
func (w *fleet) setFlaky(most float64) {
	w.chance.Lock()
	defer w.chance.Unlock()
	w.flaky = w.random.Float64() * most
}

// addHost adds a host that lives, stops for less than three promises, or dies.
func (w *fleet) addHost(i int) {
	h := &member{host: w.newHost(fmt.Sprintf("h%d", i), 3)}
	h.paused = time.Now().Add(time.Duration(w.random.IntN(3600)) * time.Second)
	switch i % 3 {
	case 0:
		h.until = h.paused
	case 1:
		h.until = h.paused.Add(25 * time.Second)
	default:
		h.expected = true
	}
	w.hosts = append(w.hosts, h)
}

// requireDead checks that the host of a session that is to be ended is dead.
func (w *fleet) requireDead(s session.Session) {
	for _, h := range w.hosts {
		if h.lease.ID == s.Host {
			require.True(w, h.expected && time.Since(h.paused) > 3*promise, "%s lives, and %s is ended", s.Host, s.RunID)
		}
	}
}

// tick has the hosts that are awake renew their leases and write that their runs are active.
func (w *fleet) tick() {
	now := time.Now()
	for _, h := range w.hosts {
		if now.Before(h.paused) || !h.until.IsZero() && !now.Before(h.until) {
			h.signal(false, h.runs...)
			h.renew()
		}
	}
}

// TestFleet: whatever happens, no run of a live host is ended, those of a dead host all are, once, and each counts once.
func TestFleet(t *testing.T) {
	for seed := range racing.Rounds[uint64](8, 25) {
		subtest(t, fmt.Sprint("seed ", seed), func(f *fixture) {
			w := newFleet(f, seed)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{}, 2)
			for _, s := range w.sweepers {
				go func() {
					_ = s.Run(ctx)
					done <- struct{}{}
				}()
			}
			for i := range 4 * 1200 { // four hours
				switch i {
				case 300, 900:
					w.setFlaky(0.5)
				case 600:
					w.setClock(time.Hour)
				case 700:
					w.setClock(-2 * time.Hour)
				case 1300:
					w.setFlaky(0)
				}
				w.tick()
				f.advance(3 * time.Second)
			}
			cancel()
			<-done
			<-done
			w.check()
		})
	}
}

func (w *fleet) check() {
	ended := 0
	for _, h := range w.hosts {
		for _, runID := range h.runs {
			want := session.Active
			if h.expected {
				want = session.Cancelled
				ended++
			}
			require.Equal(w, want, w.status(runID), runID)
		}
	}
	require.Len(w, w.ended(), ended)
	counted := 0
	for _, s := range w.sweepers {
		counted += s.Stats().Cancelled
	}
	require.Equal(w, ended, counted, "each cancel counts once, though its answer was lost")
}
