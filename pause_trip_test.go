package watchdog_test

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A tripStore fails or lies as its test says, and notes what each append and each transaction took, by its kinds.
type tripStore struct {
	watchdog.Memory
	away   bool   // nothing is taken
	lies   bool   // what is taken is said to have failed
	refuse string // an event of this kind is refused
	took   []string
}

func (s *tripStore) take(events []watchdog.Event) error {
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

func (s *tripStore) said(err error) error {
	if s.lies {
		return cmp.Or(err, errDiskFull)
	}
	return err
}

func (s *tripStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.take(events); err != nil {
		return err
	}
	return s.said(s.Memory.Append(ctx, events...))
}

func (s *tripStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if s.away {
		return errDiskFull
	}
	var refused error
	x := *exchanges[0]
	decide := x.Decide
	x.Decide = func(selected []watchdog.Event) []watchdog.Event {
		events := decide(selected)
		if refused = s.take(events); refused != nil {
			return nil
		}
		return events
	}
	err := s.Memory.Transact(ctx, &x)
	exchanges[0].Kept = x.Kept
	return s.said(cmp.Or(refused, err))
}

// TestTripWithPauses protects that whoever finds a cancel finds the pauses that explain it, and that what the store
// does not take of a pause keeps no stop from it.
func TestTripWithPauses(t *testing.T) {
	for _, transactional := range []bool{true, false} {
		inTrip := func(name string, test func(b *fixture, store *tripStore, wd *watchdog.Watchdog)) {
			runFixture(t, name+", in one transaction "+strconv.FormatBool(transactional), func(b *fixture) {
				store := &tripStore{}
				b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget = store, true, hourly
				if !transactional {
					b.cfg.Store = struct{ watchdog.EventStore }{store}
				}
				test(b, store, b.attach())
			})
		}
		// pause has an approval of ten minutes of which the store takes nothing, and then the hour used up.
		pause := func(b *fixture, store *tripStore, wd *watchdog.Watchdog) {
			store.away = true
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(10 * time.Minute)
			h.Close()
			b.pass(time.Hour)
			b.live(wd)
			store.away = false
		}
		trip := func(b *fixture, wd *watchdog.Watchdog) {
			b.pass(1)
			require.Equal(b.t, 10*time.Minute, b.stopped(wd).Paused)
			require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, watchdog.EventCancel))
		}
		inTrip("its own process's openings and releases go before the cancel", func(b *fixture, store *tripStore, wd *watchdog.Watchdog) {
			pause(b, store, wd)
			trip(b, wd)
			require.Equal(b.t, []string{"hold release cancel"}, store.took)
			require.NoError(b.t, wd.Close())
			require.Equal(b.t, []string{"hold release cancel"}, store.took, "nothing waits any more")
		})
		inTrip("an opening that the store has is of no use without its release", func(b *fixture, store *tripStore, wd *watchdog.Watchdog) {
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(10 * time.Minute)
			store.away = true
			h.Close()
			b.pass(time.Hour)
			b.live(wd)
			store.away = false
			trip(b, wd)
			require.Equal(b.t, []string{"hold", "release cancel"}, store.took)
		})
		for _, refuse := range []string{"hold", "release"} {
			inTrip("a "+refuse+" that is refused keeps no cancel from the store", func(b *fixture, store *tripStore, wd *watchdog.Watchdog) {
				pause(b, store, wd)
				store.refuse = refuse
				trip(b, wd)
				require.ErrorIs(b.t, wd.Close(), errDiskFull)
				store.refuse = ""
				require.NoError(b.t, wd.Close())
				require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, watchdog.EventHold))
				require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, watchdog.EventRelease))
				require.Equal(b.t, 1, countEvents(b.t, b.cfg.Store, watchdog.EventCancel))
			})
			inTrip("nor the run from an extension, a "+refuse+" that is", func(b *fixture, store *tripStore, wd *watchdog.Watchdog) {
				pause(b, store, wd)
				b.cfg.Budget.WallClock = 3 * time.Hour
				require.NoError(b.t, b.attach().Extend(time.Hour))
				store.refuse = refuse
				b.pass(1)
				b.live(wd)
				require.Equal(b.t, time.Hour-1, wd.Remaining())
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
		h, err := wd.Hold(context.Background(), "approval", approval)
		require.NoError(b.t, err)
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

// TestDroppedPauses protects that of what waits too long for a store a pause is dropped as a whole, and one that is
// open is not: with its opening alone others would have it last until its cap.
func TestDroppedPauses(t *testing.T) {
	inFixture(t, func(b *fixture) {
		store := &tripStore{}
		b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget = store, true, watchdog.Budget{WallClock: 100 * time.Hour}
		wd := b.attach()
		recorded, err := wd.Hold(b.t.Context(), "recorded", approval)
		require.NoError(b.t, err)
		store.away = true
		recorded.Close()
		_, err = wd.Hold(b.t.Context(), "open", approval)
		require.NoError(b.t, err)
		for i := range 100 {
			b.pass(time.Minute)
			h, err := wd.Hold(b.t.Context(), strconv.Itoa(i), approval)
			require.NoError(b.t, err)
			b.pass(time.Minute)
			h.Close()
		}
		require.Equal(b.t, 100*time.Hour, wd.Remaining(), "it counts all of them")
		store.away = false
		require.NoError(b.t, wd.Close())
		require.Equal(b.t, 2+31, countEvents(b.t, store, watchdog.EventHold))
		require.Equal(b.t, 1+31, countEvents(b.t, store, watchdog.EventRelease))
		opened, released := payloads(b.t, store, watchdog.EventHold), payloads(b.t, store, watchdog.EventRelease)
		for key, kept := range map[string]bool{"recorded": true, "68": false, "69": true, "99": true} {
			require.Equal(b.t, kept, strings.Contains(opened, `"hold":"`+key+`"`), key)
			require.Equal(b.t, kept, strings.Contains(released, `"hold":"`+key+`"`), key)
		}
		require.Contains(b.t, opened, `"hold":"open"`)
	})
}

// TestUntriedPauses protects releases that no try had in it yet from being dropped: the store may have the openings, of
// tries that it took and said to have failed.
func TestUntriedPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &triedStore{now: time.Now}
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: store, Logger: quiet,
		})
		require.NoError(t, err)
		store.away()
		var holds []*watchdog.Hold
		for i := range 50 {
			h, err := wd.Hold(t.Context(), strconv.Itoa(i), approval)
			require.NoError(t, err)
			synctest.Wait()
			holds = append(holds, h)
		}
		hang := make(chan struct{})
		store.set(func(s *triedStore) { s.err, s.hang = nil, hang })
		for _, h := range holds {
			h.Close()
		}
		store.set(func(s *triedStore) { s.hang = nil })
		close(hang)
		require.NoError(t, wd.Close())
		require.Equal(t, 50, countEvents(t, store, watchdog.EventHold))
		require.Equal(t, 50, countEvents(t, store, watchdog.EventRelease))
	})
}
