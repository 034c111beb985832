package watchdog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	loses bool // carries out what it is asked, and its answers are lost
	calls int  // that are under way
	most  int  // of them at one time
	takes int
	look  func() // in each call
}

func (s *hangingSpend) set(change func(s *hangingSpend)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// hangs has every call wait until goOn is called.
func (s *hangingSpend) hangs() (goOn func()) {
	hang := make(chan struct{})
	s.set(func(s *hangingSpend) { s.hang = hang })
	return func() {
		s.set(func(s *hangingSpend) { s.hang = nil })
		close(hang)
	}
}

func (s *hangingSpend) begin() error {
	s.mu.Lock()
	s.calls++
	s.most = max(s.most, s.calls)
	hang, fail, look := s.hang, s.fail, s.look
	s.mu.Unlock()
	defer s.set(func(s *hangingSpend) { s.calls-- })
	if look != nil {
		look()
	}
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
	g, err := s.memory.Take(context.WithoutCancel(ctx), slice)
	if s.loses {
		return watchdog.Grant{}, errDiskFull
	}
	return g, err
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
	runSpend(t, "what another run's slice leaves is no room under a smaller limit", func(t *testing.T, _ *hangingSpend, attach attachRun) {
		big := attach("s-1", watchdog.Config{Scopes: teamOf(640)})
		small := attach("s-2", watchdog.Config{Scopes: teamOf(5)})
		admit(t, small, requests(5))
		refused := refuse(t, small, requests(1))
		require.Equal(t, "team", refused.Scope)
		require.EqualValues(t, 5, refused.Allowed)
		admit(t, big, requests(5))
	})
	runSpend(t, "a period and a zone of its own is another limit", func(t *testing.T, store *hangingSpend, attach attachRun) {
		attach("s-1", watchdog.Config{Scopes: teamOf(640)})
		hourly := teamOf(640)
		hourly[0].Period = watchdog.PeriodHour
		admit(t, attach("s-2", watchdog.Config{Scopes: hourly}), requests(100))
		require.EqualValues(t, 10, store.charged(t, "team").Requests, "for ever")
	})
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
		own := cfg
		own.Store, own.SpendStore, own.Logger = &watchdog.Memory{}, store, slog.New(slog.NewTextHandler(&log, nil))
		wd := guard(t, own)
		store.set(func(s *hangingSpend) { s.loses = true })
		_, err := wd.Admit(context.Background(), "", requests(600))
		require.ErrorIs(t, err, errDiskFull)
		require.NoError(t, wd.Close())
		require.Contains(t, log.String(), "has not said whether it was charged")
	})
}

// TestSpendBounds protects callers from a store of slices that hangs, whatever its context says.
func TestSpendBounds(t *testing.T) {
	own := watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{
		Requests: 640, ToolCalls: 640, Tools: map[string]int64{"rm": 64}, WarnAt: []float64{},
	}}, Scopes: teamOf(640)}
	runSynced(t, "New waits for the record timeout in all, also beside a store of events that answers at once", func(t *testing.T) {
		store := &hangingSpend{}
		goOn := store.hangs()
		cfg := own
		cfg.Store, cfg.SpendStore, cfg.Logger = &watchdog.Memory{}, store, quiet
		began := time.Now()
		_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: began}, cfg)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout, "with the close of what it began")
		goOn()
		synctest.Wait()
		require.LessOrEqual(t, store.charged(t, "team").Requests, int64(0), "what is granted late is given back")
	})
	runSpend(t, "Admit waits for the record timeout in all, and the limit has not tripped", func(t *testing.T, store *hangingSpend, attach attachRun) {
		wd, goOn := attach("s-1", own), store.hangs()
		began := time.Now()
		_, err := wd.Admit(context.Background(), "", watchdog.Amount{Requests: 100, ToolCalls: 20, Tool: "rm"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, watchdog.DefaultRecordTimeout, time.Since(began))
		require.NoError(t, wd.Context().Err())
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { time.Sleep(time.Second); cancel(errHostGone) }()
		began = time.Now()
		_, err = wd.Admit(ctx, "", requests(100))
		require.ErrorIs(t, err, errHostGone)
		require.Equal(t, time.Second, time.Since(began), "its caller gives up")
		require.NoError(t, admit(t, wd, requests(1)).Settle(requests(1)), "of what is there")
		goOn()
	})
	runSpend(t, "Close waits for twice the record timeout, and what is granted late is given back", func(t *testing.T, store *hangingSpend, attach attachRun) {
		wd := attach("s-1", own)
		c := admit(t, wd, requests(3))
		goOn := store.hangs()
		go func() { _, _ = wd.Admit(context.Background(), "", requests(600)) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, wd.Close())
		require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
		goOn()
		synctest.Wait()
		require.LessOrEqual(t, store.charged(t, "team").Requests, int64(20), "two slices of a sixty-fourth, at most")
		require.NoError(t, c.Settle(requests(3)))
	})
	runSpend(t, "a store that hangs is asked once at a time, however many runs draw on a scope", func(t *testing.T, store *hangingSpend, attach attachRun) {
		runs, cfg := make([]*watchdog.Watchdog, 1000), watchdog.Config{Scopes: teamOf(1 << 30)}
		for i := range runs {
			runs[i] = attach(fmt.Sprint("s-", i), cfg)
		}
		goOn, before := store.hangs(), goroutines()
		store.set(func(s *hangingSpend) { s.most = 0 })
		var all sync.WaitGroup
		for range 3 { // and again, when those before have given up
			for _, wd := range runs {
				all.Go(func() { _, _ = wd.Admit(context.Background(), "", requests(1<<25)) })
			}
			synctest.Wait()
			require.Less(t, goroutines()-before, len(runs)+10, "one for each caller, and few more")
			all.Wait()
		}
		store.set(func(s *hangingSpend) { require.Equal(t, 1, s.most) })
		goOn()
		synctest.Wait()
	})
	runSpend(t, "without a timer no goroutine begins", func(t *testing.T, store *hangingSpend, attach attachRun) {
		cfg, before := own, goroutines()
		cfg.PollOnly = true
		started := 0
		store.look = func() { started = max(started, goroutines()-before) }
		wd := attach("s-1", cfg)
		require.NoError(t, admit(t, wd, requests(100)).Settle(requests(200)))
		refuse(t, wd, requests(600))
		require.NoError(t, wd.Close())
		require.Zero(t, started)
		require.EqualValues(t, 200, store.charged(t, "team").Requests)
	})
}

// A talliedSpend notes what is taken by force, and can lose the answers of that.
type talliedSpend struct {
	*hangingSpend

	mu    sync.Mutex
	loses bool
	fails int // how many of the next takes by force fail
	tries int
}

func (s *talliedSpend) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	if !slice.Force {
		return s.hangingSpend.Take(ctx, slice)
	}
	s.mu.Lock()
	s.tries++
	loses := s.loses
	fails := s.fails > 0
	s.fails--
	s.mu.Unlock()
	if fails {
		return watchdog.Grant{}, errDiskFull
	}
	g, err := s.hangingSpend.Take(ctx, slice)
	if loses {
		return watchdog.Grant{}, errDiskFull
	}
	return g, err
}

func (s *talliedSpend) tell(change func(s *talliedSpend)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// inLateBubble is inSpendBubble, with a timer and without one.
func inLateBubble(t *testing.T, test func(t *testing.T, store *talliedSpend, attach attachRun)) {
	t.Helper()
	for name, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		runSpend(t, name, func(t *testing.T, hanging *hangingSpend, attach attachRun) {
			store := &talliedSpend{hangingSpend: hanging}
			test(t, store, func(id string, cfg watchdog.Config) *watchdog.Watchdog {
				cfg.PollOnly = pollOnly
				if cfg.SpendStore == nil {
					cfg.SpendStore = store
				}
				return attach(id, cfg)
			})
		})
	}
}

// TestSettleLate protects the money of calls that are settled after their run was closed: in memory, of a tool, in a
// layer, and of a run that is only observed.
func TestSettleLate(t *testing.T) {
	inLateBubble(t, func(t *testing.T, _ *talliedSpend, attach attachRun) {
		scopes, memory := teamOf(1000), &watchdog.Memory{}
		scopes[0].Spend.Tools = map[string]int64{"rm": 100}
		wd := attach("s-1", watchdog.Config{Scopes: scopes, SpendStore: memory, ObserveOnly: true})
		layer := openLayer(t, wd, "in", watchdog.Budget{})
		c := admit(t, layer, watchdog.Amount{Requests: 1, ToolCalls: 1, Tool: "rm"})
		require.NoError(t, wd.Close())
		require.NoError(t, c.Settle(watchdog.Amount{Requests: 900, ToolCalls: 90, Tool: "rm"}))
		for scope, want := range map[string]watchdog.Totals{"team": {Requests: 900}, "team/tool/rm": {ToolCalls: 90}} {
			g, err := memory.Take(context.Background(), watchdog.Slice{ID: rand.Text(), Scope: scope})
			require.NoError(t, err)
			require.Equal(t, want, g.Charged, scope)
		}
	})
}

// TestSettleLateFails protects a late charge from a store that does not take it: Settle says so, and can be called
// again until it does.
func TestSettleLateFails(t *testing.T) {
	cfg := watchdog.Config{Scopes: teamOf(1000)}
	runSpend(t, "because it hangs", func(t *testing.T, hanging *hangingSpend, attach attachRun) {
		store := &talliedSpend{hangingSpend: hanging}
		own := cfg
		own.SpendStore = store
		own.Scopes = append(own.Scopes, watchdog.SharedSpend{Scope: "day", Spend: watchdog.Spend{Requests: 1000}})
		wd := attach("s-1", own)
		c := admit(t, wd, requests(100))
		require.NoError(t, wd.Close())
		goOn := store.hangs()
		store.set(func(s *hangingSpend) { s.most = 0 })
		for range 3 {
			began := time.Now()
			require.ErrorIs(t, c.Settle(requests(900)), context.DeadlineExceeded)
			require.Equal(t, watchdog.DefaultRecordTimeout, time.Since(began), "for both scopes")
			began = time.Now()
			require.ErrorIs(t, wd.Close(), context.DeadlineExceeded)
			require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
		}
		store.set(func(s *hangingSpend) { require.Equal(t, 1, s.most, "a store that hangs is not asked again") })
		goOn()
		synctest.Wait()
		require.NoError(t, c.Settle(requests(900)))
		require.EqualValues(t, 900, store.charged(t, "team").Requests)
		require.EqualValues(t, 900, store.charged(t, "day").Requests)
	})
	t.Run("and only who is not charged hears of it", func(t *testing.T) {
		inLateBubble(t, func(t *testing.T, store *talliedSpend, attach attachRun) {
			wd := attach("s-1", cfg)
			more, all := admit(t, wd, requests(100)), admit(t, wd, requests(100))
			require.NoError(t, wd.Close())
			store.set(func(s *hangingSpend) { s.fail = errDiskFull })
			err := more.Settle(requests(900))
			require.ErrorIs(t, err, errDiskFull)
			require.ErrorContains(t, err, "not charged with 800 requests")
			require.NoError(t, all.Settle(requests(100)))
			store.set(func(s *hangingSpend) { s.fail = nil })
			require.NoError(t, more.Settle(requests(900)))
			require.EqualValues(t, 1000, store.charged(t, "team").Requests)
		})
	})
}

// TestSettleLateTogether protects late charges of many goroutines, under a store that fails now and then: each counts
// once.
func TestSettleLateTogether(t *testing.T) {
	for name, attached := range map[string]bool{"of the last run of a scope": false, "beside another run": true} {
		runSpend(t, name, func(t *testing.T, hanging *hangingSpend, attach attachRun) {
			store := &talliedSpend{hangingSpend: hanging}
			cfg := watchdog.Config{Scopes: teamOf(1 << 40), SpendStore: store}
			var other *watchdog.Watchdog
			wd := attach("s-1", cfg)
			if attached {
				other = attach("s-2", cfg)
			}
			charges := make([]watchdog.Charge, 200)
			for i := range charges {
				charges[i] = admit(t, wd, requests(1))
			}
			var all sync.WaitGroup
			all.Go(func() { _ = wd.Close() })
			for i, c := range charges {
				all.Go(func() {
					store.tell(func(s *talliedSpend) { s.fails, s.loses = i%3, i%5 == 0 })
					for c.Settle(requests(11)) != nil {
						store.tell(func(s *talliedSpend) { s.loses = false })
					}
				})
			}
			all.Wait()
			store.tell(func(s *talliedSpend) { s.fails, s.loses = 0, false })
			require.NoError(t, wd.Close())
			require.NoError(t, other.Close())
			require.EqualValues(t, 2200, store.charged(t, "team").Requests)
		})
	}
}

// TestSettleLateWindow protects the window that is now from what was admitted in one that the store, whose clock is
// ahead, finds over.
func TestSettleLateWindow(t *testing.T) {
	forever := watchdog.Budget{WallClock: watchdog.NoLimit}
	hourly := watchdog.Config{Scopes: hourlyTeam(1000), Budget: forever}
	inLateBubble(t, func(t *testing.T, _ *talliedSpend, attach attachRun) {
		store, own := &steppedSpend{}, hourly
		own.SpendStore = store
		wd := attach("s-1", own)
		c := admit(t, wd, requests(100))
		require.NoError(t, wd.Close())
		store.ahead = time.Hour
		require.NoError(t, c.Settle(requests(900)))
		require.NoError(t, wd.Close())
		synctest.Wait() // until what was taken there is given back
		require.Zero(t, attach("s-2", own).Usage()[0].Used)
	})
}

// TestCloseOwing protects what was settled before Close and not taken by the store: Close says so, until it is.
func TestCloseOwing(t *testing.T) {
	runSpend(t, "the log tells nothing else", func(t *testing.T, store *hangingSpend, _ attachRun) {
		var log bytes.Buffer
		wd := guard(t, watchdog.Config{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), SpendStore: store, Scopes: teamOf(1000), PollOnly: true,
		})
		c := admit(t, wd, requests(100))
		store.set(func(s *hangingSpend) { s.fail = errDiskFull })
		require.NoError(t, c.Settle(requests(600)))
		require.Error(t, wd.Close())
		require.NotContains(t, log.String(), "stays charged")
	})
	runSynced(t, "beside an event that is not recorded either", func(t *testing.T) {
		events, store := &flakyStore{}, &hangingSpend{}
		wd := guard(t, watchdog.Config{
			Store: events, SpendStore: store, Scopes: teamOf(1000),
			Budget: watchdog.Budget{WallClock: time.Minute},
		})
		c := admit(t, wd, requests(100))
		store.set(func(s *hangingSpend) { s.fail = errSpendStore })
		events.set(func(s *flakyStore) { s.fail = errDiskFull })
		require.NoError(t, c.Settle(requests(600)))
		time.Sleep(time.Hour)
		err := wd.Close()
		require.True(t, errors.Is(err, errSpendStore) && errors.Is(err, errDiskFull), "%v", err)
		store.set(func(s *hangingSpend) { s.fail = nil })
		events.set(func(s *flakyStore) { s.fail = nil })
		require.NoError(t, wd.Close())
		require.EqualValues(t, 600, store.charged(t, "team").Requests)
	})
}
