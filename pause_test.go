package watchdog_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

var approval = watchdog.HoldLimit{Cap: 24 * time.Hour, PausesWallClock: true}

// TestPausedWallClock protects a run from a hold that stops the wall clock for ever.
func TestPausedWallClock(t *testing.T) {
	approval := watchdog.HoldLimit{Cap: 3 * time.Hour, PausesWallClock: true}
	runFixture(t, "in a run that is only observed not beyond its cap", func(b *fixture) {
		b.cfg.Budget, b.cfg.ObserveOnly = watchdog.Budget{WallClock: time.Hour}, true
		wd := b.attach()
		openHold(b.t, wd, "approval", approval)
		b.pass(3*time.Hour + 30*time.Minute)
		require.Equal(b.t, 30*time.Minute, wd.Remaining())
	})
	runFixture(t, "it needs a cap", func(b *fixture) {
		for _, limit := range []watchdog.HoldLimit{{PausesWallClock: true}, {PausesWallClock: true, Cap: watchdog.NoLimit}} {
			_, err := b.attach().Hold(context.Background(), "approval", limit)
			require.ErrorIs(b.t, err, watchdog.ErrInvalid)
			require.ErrorContains(b.t, err, "Cap")
		}
	})
}

// A tripStore is transactional, fails as its test says, and notes what each append and each exchange took, by its
// kinds.
type tripStore struct {
	watchdog.Memory

	mu     sync.Mutex
	away   bool   // nothing is taken
	refuse string // an event of this kind is refused
	took   []string
}

// leave has the store take nothing, or come back.
func (s *tripStore) leave(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *tripStore) take(events []watchdog.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, strings.TrimPrefix(e.Type, "runtime.watchdog."))
	}
	if s.away || slices.Contains(kinds, s.refuse) {
		return errDiskFull
	}
	s.took = append(s.took, strings.Join(kinds, " "))
	return nil
}

func (s *tripStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.take(events); err != nil {
		return err
	}
	return s.Memory.Append(ctx, events...)
}

func (s *tripStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	for _, asked := range exchanges {
		var refused error
		x := *asked
		x.Decide = func(selected []watchdog.Event) []watchdog.Event {
			events := asked.Decide(selected)
			if refused = s.take(events); refused != nil {
				return nil
			}
			return events
		}
		err := s.Memory.Transact(ctx, &x)
		if asked.Kept = x.Kept; refused != nil || err != nil {
			return cmp.Or(refused, err)
		}
	}
	return nil
}

// TestTripWithPauses protects that whoever finds a cancel finds the pauses that explain it, and that what the store
// does not take of a pause keeps no stop from it.
func TestTripWithPauses(t *testing.T) {
	for _, transactional := range []bool{true, false} {
		for _, refuse := range []string{"", "hold", "release"} {
			runFixture(t, fmt.Sprintf("refused: %q, in one transaction: %v", refuse, transactional), func(b *fixture) {
				store := &tripStore{}
				b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget = store, true, hourly
				if !transactional {
					b.cfg.Store = struct{ watchdog.EventStore }{store}
				}
				wd := b.attach()
				store.leave(true) // an approval of ten minutes of which it takes nothing, and then the hour used up
				h := openHold(b.t, wd, "approval", approval)
				b.pass(10 * time.Minute)
				h.Close()
				b.pass(time.Hour)
				b.live(wd)
				store.leave(false)
				store.refuse = refuse
				b.pass(1)
				require.Equal(b.t, 10*time.Minute, b.stopped(wd).Paused)
				require.Equal(b.t, wd.Stop(), b.attach().Stop())
				require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, watchdog.EventCancel))
				if refuse != "" {
					require.ErrorIs(b.t, wd.Close(), errDiskFull)
					store.refuse = ""
				} else {
					require.Equal(b.t, []string{"hold release cancel"}, store.took)
				}
				require.NoError(b.t, wd.Close())
				for _, kind := range []string{watchdog.EventHold, watchdog.EventRelease, watchdog.EventCancel} {
					require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, kind))
				}
			})
		}
	}
}

// TestReleaseWhileRecording protects that a hold which is closed while the run's stop is being recorded is on record,
// though nobody looks at the run any more.
func TestReleaseWhileRecording(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.cfg.Budget = hourly
		wd := b.attach()
		h := openHold(b.t, wd, "approval", approval)
		synctest.Wait()
		hang := make(chan struct{})
		b.store.set(func(s *flakyStore) { s.hang = hang })
		go func() { _, _ = wd.Cancel(noOutput) }()
		synctest.Wait()
		require.True(b.t, h.Close())
		b.store.set(func(s *flakyStore) { s.hang = nil })
		close(hang)
		synctest.Wait()
		require.ErrorIs(b.t, context.Cause(wd.Context()), noOutput.Reason)
		b.pass(time.Second) // nobody polls
		require.Len(b.t, b.events(watchdog.EventRelease), 1)
	})
}
