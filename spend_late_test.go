package watchdog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

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
		store, hang := &talliedSpend{hangingSpend: hanging}, make(chan struct{})
		own := cfg
		own.SpendStore = store
		own.Scopes = append(own.Scopes, watchdog.SharedSpend{Scope: "day", Spend: watchdog.Spend{Requests: 1000}})
		wd := attach("s-1", own)
		c := admit(t, wd, requests(100))
		require.NoError(t, wd.Close())
		store.set(func(s *hangingSpend) { s.hang, s.most = hang, 0 })
		for range 3 {
			began := time.Now()
			require.ErrorIs(t, c.Settle(requests(900)), context.DeadlineExceeded)
			require.Equal(t, watchdog.DefaultRecordTimeout, time.Since(began), "for both scopes")
			began = time.Now()
			require.ErrorIs(t, wd.Close(), context.DeadlineExceeded)
			require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
		}
		store.set(func(s *hangingSpend) { s.hang = nil })
		require.Equal(t, 1, store.most, "a store that hangs is not asked again")
		close(hang)
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
