package watchdog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A hangingSpend is a spend store that can be told to hang, whatever its context says, or to fail. It is waited for.
type hangingSpend struct {
	memory watchdog.Memory

	mu    sync.Mutex
	hang  chan struct{}
	fail  error
	calls int // that are under way
	most  int // of them at one time
	takes int
}

func (s *hangingSpend) set(change func(s *hangingSpend)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *hangingSpend) begin() error {
	s.mu.Lock()
	s.calls++
	s.most = max(s.most, s.calls)
	hang, fail := s.hang, s.fail
	s.mu.Unlock()
	defer s.set(func(s *hangingSpend) { s.calls-- })
	if hang != nil {
		<-hang
	}
	return fail
}

func (s *hangingSpend) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	s.set(func(s *hangingSpend) { s.takes++ })
	if err := s.begin(); err != nil {
		return watchdog.Grant{}, err
	}
	return s.memory.Take(context.WithoutCancel(ctx), slice)
}

func (s *hangingSpend) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.memory.Return(context.WithoutCancel(ctx), id, unused)
}

// charged is what a scope is charged with for ever.
func (s *hangingSpend) charged(t *testing.T, scope string) watchdog.Totals {
	t.Helper()
	g, err := s.memory.Take(context.Background(), watchdog.Slice{ID: rand.Text(), Scope: scope})
	require.NoError(t, err)
	return g.Charged
}

// teamOf is a scope of requests.
func teamOf(limit int64) []watchdog.SharedSpend {
	return []watchdog.SharedSpend{{Scope: "team", Spend: watchdog.Spend{Requests: limit, WarnAt: []float64{}}}}
}

// attachRun attaches to a run of a bubble.
type attachRun = func(id string, cfg watchdog.Config) *watchdog.Watchdog

// runSpend is inSpendBubble for one case of a test.
func runSpend(t *testing.T, name string, test func(t *testing.T, store *hangingSpend, attach attachRun)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		inSpendBubble(t, test)
	})
}

// inSpendBubble makes runs on a spend store in a bubble. What is asked of its memory costs no goroutine.
func inSpendBubble(t *testing.T, test func(t *testing.T, store *hangingSpend, attach attachRun)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, events, began := &hangingSpend{}, &watchdog.Memory{}, time.Now()
		test(t, store, func(id string, cfg watchdog.Config) *watchdog.Watchdog {
			cfg.Store = events
			if cfg.SpendStore == nil {
				cfg.SpendStore = store
			}
			return attachTo(context.Background(), t, watchdog.Run{ID: id, StartedAt: began}, cfg)
		})
		synctest.Wait()
	})
}

// TestSharedScope protects the runs that draw on one scope.
func TestSharedScope(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, store *hangingSpend, attach attachRun){
		"what a slice of another run leaves is no room under a smaller limit": func(t *testing.T, _ *hangingSpend, attach attachRun) {
			big := attach("s-1", watchdog.Config{Scopes: teamOf(640)})
			small := attach("s-2", watchdog.Config{Scopes: teamOf(5)})
			admit(t, small, requests(5))
			refused := refuse(t, small, requests(1))
			require.Equal(t, "team", refused.Scope)
			require.EqualValues(t, 5, refused.Allowed)
			admit(t, big, requests(5))
		},
		"a period and a zone of its own is another limit": func(t *testing.T, store *hangingSpend, attach attachRun) {
			attach("s-1", watchdog.Config{Scopes: teamOf(640)})
			hourly := teamOf(640)
			hourly[0].Period = watchdog.PeriodHour
			admit(t, attach("s-2", watchdog.Config{Scopes: hourly}), requests(100))
			require.EqualValues(t, 10, store.charged(t, "team").Requests, "for ever")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSpendBubble(t, test)
		})
	}
}

// TestObservedAsksOnce protects the store from a second question for a call that is only observed above its limit.
func TestObservedAsksOnce(t *testing.T) {
	inSpendBubble(t, func(t *testing.T, store *hangingSpend, attach attachRun) {
		wd := attach("s-1", watchdog.Config{Scopes: teamOf(10), ObserveOnly: true})
		admit(t, wd, requests(10))
		admit(t, wd, requests(1))
		synctest.Wait()
		before := store.takes
		for i := range 5 {
			admit(t, wd, requests(2))
			synctest.Wait()
			require.Equal(t, before+i+1, store.takes)
		}
		require.EqualValues(t, 21, wd.Usage()[0].Used)
		require.EqualValues(t, 21, store.charged(t, "team").Requests)
	})
}

// A steppedSpend is a store whose clock can be set.
type steppedSpend struct {
	memory watchdog.Memory
	ahead  time.Duration
}

func (s *steppedSpend) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	now := time.Now().Add(s.ahead)
	name, ends := slice.WindowAt(now)
	slice.Scope, slice.Period = slice.Scope+name, watchdog.PeriodNone
	g, err := s.memory.Take(ctx, slice)
	g.Window = name
	return g.Until(ends, now), err
}

func (s *steppedSpend) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	return s.memory.Return(ctx, id, unused)
}

// TestSteppedSpendStore protects the windows of a scope from a store whose clock is set: each is told from others by
// its name, and not by when it ends.
func TestSteppedSpendStore(t *testing.T) {
	for _, test := range []struct {
		about    string
		step     time.Duration
		used     int64
		warnings int
	}{
		{"in one window it goes on", 20 * time.Minute, 13, 1},
		{"what is left of one is not drawn on in another", time.Hour, 8, 2},
	} {
		runSpend(t, test.about, func(t *testing.T, _ *hangingSpend, attach attachRun) {
			store, scopes, warnings := &steppedSpend{}, teamOf(640), 0
			scopes[0].Period, scopes[0].Spend.WarnAt = watchdog.PeriodHour, []float64{0.005}
			wd := attach("s-1", watchdog.Config{
				Scopes: scopes, SpendStore: store, PollOnly: true, OnWarning: func(watchdog.Warning) { warnings++ },
			})
			require.NoError(t, admit(t, wd, requests(5)).Settle(requests(5))) // of a slice of ten
			store.ahead = test.step
			require.NoError(t, admit(t, wd, requests(8)).Settle(requests(8))) // of another one
			require.Equal(t, test.used, wd.Usage()[0].Used)
			require.Equal(t, test.warnings, warnings)
		})
	}
}

// TestAdmitEnded protects a run whose parent has ended from a call, also before anybody has noticed.
func TestAdmitEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancelCause(context.Background())
		wd := attachTo(silentParent{parent}, t, watchdog.Run{}, watchdog.Config{PollOnly: true})
		layer := openLayer(t, wd, "l", watchdog.Budget{})
		end(errHostGone)
		_, err := layer.Admit(context.Background(), "", requests(1))
		require.ErrorIs(t, err, watchdog.ErrEnded)
		require.ErrorIs(t, err, errHostGone)
	})
}

// A silentParent is of a type of the host's, which tells nobody of its end.
type silentParent struct{ context.Context }

func (silentParent) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }

// TestOwedAgain protects a shared limit from a charge that its store lost, of a run that nobody polls: it is tried
// again by a timer.
func TestOwedAgain(t *testing.T) {
	inSpendBubble(t, func(t *testing.T, hanging *hangingSpend, attach attachRun) {
		store := &talliedSpend{hangingSpend: hanging}
		wd := attach("s-1", watchdog.Config{Scopes: teamOf(1000), SpendStore: store})
		c := admit(t, wd, requests(100))
		store.tell(func(s *talliedSpend) { s.fails = 3 })
		require.NoError(t, c.Settle(requests(900)))
		time.Sleep(500 * time.Millisecond)
		require.Less(t, store.charged(t, "team").Requests, int64(900))
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 900, store.charged(t, "team").Requests)
		store.tell(func(s *talliedSpend) { require.Equal(t, 4, s.tries) })
		time.Sleep(time.Hour)
		store.tell(func(s *talliedSpend) { require.Equal(t, 4, s.tries, "there is nothing left to try") })
		other := attach("s-2", watchdog.Config{Scopes: teamOf(1000)})
		require.EqualValues(t, 1000, refuse(t, other, requests(101)).Allowed)
	})
}

// TestGiveBackSlices protects who reads the log: a slice of which nobody knows whether it was charged is told of.
func TestGiveBackSlices(t *testing.T) {
	cfg := watchdog.Config{Scopes: teamOf(6400)} // of which the first slice is 100
	inSpendBubble(t, func(t *testing.T, store *hangingSpend, _ attachRun) {
		var log bytes.Buffer
		lossy := &forgetfulSpend{hangingSpend: store}
		own := cfg
		own.Store, own.SpendStore, own.Logger = &watchdog.Memory{}, lossy, slog.New(slog.NewTextHandler(&log, nil))
		wd := guard(t, own)
		lossy.loses = true
		_, err := wd.Admit(context.Background(), "", requests(600))
		require.ErrorIs(t, err, errDiskFull)
		require.NoError(t, wd.Close())
		require.Contains(t, log.String(), "has not said whether it was charged")
	})
}
