package lane_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

// times are when the calls were made.
func times(calls []call) (all []time.Duration) {
	for _, c := range calls {
		all = append(all, c.At)
	}
	return all
}

// TestRetry protects when what the store did not take is tried again, and for whom.
func TestRetry(t *testing.T) {
	const s = time.Second
	inBubble(t, "after a second, twice as long each time, and at most half a minute", func(t *testing.T, b *bench) {
		b.store.Refuse()
		noteAll(b.begin(1)...)
		time.Sleep(130 * s)
		require.Equal(t, []time.Duration{0, s, 3 * s, 7 * s, 15 * s, 31 * s, 61 * s, 91 * s, 121 * s}, times(b.store.Calls()))
		b.store.FailWith(nil)
		time.Sleep(30 * s)
		require.Equal(t, []time.Duration{151 * s}, times(b.store.Calls()))
		require.False(t, b.runs[0].Waiting())
		b.store.Refuse()
		noteAll(b.runs[0])
		time.Sleep(s)
		synctest.Wait()
		require.Equal(t, []time.Duration{160 * s, 161 * s}, times(b.store.Calls()), "the count is of one time away")
	})
	inBubble(t, "and after a second again once a caller had it taken", func(t *testing.T, b *bench) {
		r := b.begin(1)[0]
		b.store.Refuse()
		noteAll(r)
		time.Sleep(20 * s)
		b.store.FailWith(nil)
		require.NoError(t, r.Flush())
		b.store.Refuse()
		noteAll(r)
		synctest.Wait()
		b.store.Calls()
		time.Sleep(s)
		synctest.Wait()
		require.Equal(t, []time.Duration{21 * s}, times(b.store.Calls()))
	})
	inBubble(t, "one try for all: a store that is away is asked for one run", func(t *testing.T, b *bench) {
		b.store.FailWith(func(context.Context, call) error { return context.DeadlineExceeded })
		all := b.begin(20)
		for _, r := range all {
			noteAll(r)
			synctest.Wait()
		}
		require.Len(t, b.store.Calls(), 20)
		time.Sleep(3500 * time.Millisecond)
		require.Equal(t, []time.Duration{s, 3 * s}, times(b.store.Calls()))
		b.store.FailWith(nil)
		time.Sleep(4 * s)
		calls := b.store.Calls()
		require.Equal(t, []time.Duration{7 * s, 7 * s}, times(calls), "the first, and then the others together")
		require.Len(t, calls[0].Runs, 1)
		require.Len(t, calls[1].Runs, 19)
		requireStored(t, all...)
	})
	inBubble(t, "one that refuses is asked for four, those first that were tried least", func(t *testing.T, b *bench) {
		b.store.Refuse()
		all := b.begin(6)
		for _, r := range all {
			noteAll(r)
		}
		time.Sleep(3500 * time.Millisecond)
		b.store.Calls()
		young := b.begin(1)[0]
		b.store.FailWith(func(_ context.Context, c call) error {
			if len(c.Runs) > 1 || c.Runs[0] != young.node.Run {
				return errFull
			}
			return nil
		})
		young.Keep(errFull, young.node.Event(event.Overrun, time.Now(), "", record.Overrun{}))
		b.store.Calls()
		time.Sleep(s)
		synctest.Wait()
		require.Equal(t, names(young), b.store.Calls()[0].Runs)
		require.False(t, young.Waiting())
	})
	inBubble(t, "a run whose store hangs keeps no other from being tried once the store answers for one", func(t *testing.T, b *bench) {
		all := b.begin(3)
		hung, other, third := all[0], all[1], all[2]
		open := b.hang(hung.node.Run)
		defer close(open)
		noteAll(hung)
		time.Sleep(timeout)
		synctest.Wait()
		other.Keep(errFull, other.node.Event(event.Overrun, time.Now(), "", record.Overrun{}))
		require.True(t, hung.Busy())
		require.True(t, other.Waiting())
		noteAll(third)
		time.Sleep(2 * s)
		synctest.Wait()
		require.False(t, other.Waiting())
		require.True(t, hung.Waiting())
	})
	inBubble(t, "a store that hangs in a try is not asked again before it answers", func(t *testing.T, b *bench) {
		all := b.begin(3)
		b.refuse(all...)
		open := b.hang()
		time.Sleep(5 * time.Minute)
		require.Len(t, b.store.Calls(), 1)
		close(open)
		time.Sleep(30 * s)
		synctest.Wait()
		requireStored(t, all...)
	})
	inBubble(t, "one that hung, answered for another, and hangs again is asked for a run at a time", func(t *testing.T, b *bench) {
		all := b.begin(2)
		b.refuse(all...)
		open := b.hang()
		defer close(open)
		time.Sleep(20 * s)
		b.store.FailWith(nil)
		fresh := b.begin(1)[0]
		noteAll(fresh)
		synctest.Wait()
		require.False(t, fresh.Waiting())
		time.Sleep(30 * s)
		synctest.Wait()
		waiting := 0
		for _, r := range all {
			if r.Waiting() {
				waiting++
			}
		}
		require.Equal(t, 1, waiting, "only the one that the store has not answered")
	})
	inBubble(t, "nothing of a run that is closed", func(t *testing.T, b *bench) {
		b.store.Refuse()
		all := b.begin(2)
		for _, r := range all {
			noteAll(r)
		}
		synctest.Wait()
		b.store.Calls()
		all[0].close()
		require.True(t, all[0].Recorder.Closed())
		b.store.FailWith(nil)
		time.Sleep(10 * time.Minute)
		calls := b.store.Calls()
		require.Len(t, calls, 1)
		require.Equal(t, names(all[1]), calls[0].Runs)
		require.True(t, all[0].Waiting())
		all[0].TryLater()
		time.Sleep(10 * time.Minute)
		require.Empty(t, b.store.Calls())
		require.NoError(t, all[0].Flush())
		require.False(t, all[0].Waiting())
	})
	inBubble(t, "not in the middle of a try either", func(t *testing.T, b *bench) {
		b.store.Refuse()
		r := b.begin(1)[0]
		noteAll(r)
		synctest.Wait()
		b.store.FailWith(func(context.Context, call) error { r.close(); return errFull })
		time.Sleep(s)
		synctest.Wait()
		b.store.Calls()
		time.Sleep(time.Hour)
		require.Empty(t, b.store.Calls())
	})
	inBubble(t, "the last try says what is not recorded", func(t *testing.T, b *bench) {
		r := b.begin(1)[0]
		require.NoError(t, r.Flush())
		b.store.Refuse()
		noteAll(r)
		noteAll(r)
		synctest.Wait()
		err := r.Flush()
		require.EqualError(t, err, "2 of its events are not recorded, the last a runtime.watchdog.overrun: append events: disk full")
		require.ErrorIs(t, err, errFull)
	})
	inBubble(t, "an entry that is refused for good keeps none of its run's others from the store", func(t *testing.T, b *bench) {
		r := b.begin(1)[0]
		bad, _ := r.note()
		good, _ := r.note()
		b.store.FailWith(func(_ context.Context, c call) error { return nil })
		b.place.Store = journal.StoreOf(refusing{b.store, bad})
		require.ErrorIs(t, r.Flush(), errFull)
		require.True(t, good.Stored())
		require.ErrorIs(t, bad.Err(), errFull)
	})
}

// A refusing store refuses what has the events of an entry.
type refusing struct {
	*store
	entry *machine.Entry
}

func (s refusing) Append(ctx context.Context, events ...event.Event) error {
	for _, e := range events {
		if e.ID == s.entry.Events()[0].ID {
			return errFull
		}
	}
	return s.store.Append(ctx, events...)
}

func TestMain(m *testing.M) {
	clocks.Spread = func(most time.Duration) time.Duration { return most - 1 } // tries come when they are due
	goleak.VerifyTestMain(m)
}

// TestEnd protects what is recorded of a run's end by whoever decides on it.
func TestEnd(t *testing.T) {
	for _, steps := range []bool{false, true} {
		inSteps := fmt.Sprintf(" (takes steps: %v)", steps)
		inStore(t, "that the work is done"+inSteps, &store{Steps: steps}, func(t *testing.T, b *bench) {
			r := b.begin(1)[0]
			trip := &machine.Trip{Complete: true, At: event.Truncate(time.Now())}
			b.store.Refuse()
			_, err := r.RecordComplete(trip)
			require.EqualError(t, err, "append complete event: disk full")
			b.store.FailWith(nil)
			for range 2 {
				known, err := r.RecordComplete(trip)
				require.NoError(t, err)
				require.True(t, known.Complete())
			}
			require.Equal(t, []string{event.Complete}, b.keeps(r))
		})
		inStore(t, "that it was given more"+inSteps, &store{Steps: steps}, func(t *testing.T, b *bench) {
			r := b.begin(1)[0]
			extend := func() event.Event {
				return r.node.Event(event.Extend, time.Now(), "", record.Extend{
					SessionStartedAt: event.Stamp(r.node.StartedAt), ExtensionSeconds: 60,
				})
			}
			known, err := r.RecordExtension(extend(), time.Minute)
			require.NoError(t, err)
			require.Equal(t, time.Minute, known.Extended)
			known, err = r.RecordExtension(extend(), time.Minute)
			require.NoError(t, err)
			require.Equal(t, 2*time.Minute, known.Extended)
			endAll(r)
			synctest.Wait()
			known, err = r.RecordExtension(extend(), time.Minute)
			require.NoError(t, err)
			require.NotNil(t, known.Stop)
			require.Len(t, b.keeps(r), 3)
		})
	}
	inBubble(t, "an end that whoever decided on it records is left to that", func(t *testing.T, b *bench) {
		r := b.begin(1)[0]
		entry, _ := r.note()
		e, _ := r.decide()
		e.Here = true
		lane.Enqueue(&r.Recorder)
		synctest.Wait()
		require.Empty(t, r.ended)
		require.True(t, entry.Stored())
		require.Equal(t, []string{"append"}, b.store.Kinds())
	})
	inBubble(t, "an end that the store takes back is no stop", func(t *testing.T, b *bench) {
		r := b.begin(1)[0]
		extend := r.node.Event(event.Extend, time.Now(), "", record.Extend{
			SessionStartedAt: event.Stamp(r.node.StartedAt), ExtensionSeconds: 60,
		})
		require.NoError(t, b.store.Append(t.Context(), extend))
		e, _ := r.decide()
		e.Trip.On.Limit = "wall_clock"
		lane.Enqueue(&r.Recorder)
		synctest.Wait()
		require.Nil(t, r.end(t).known.Stop)
		require.Equal(t, time.Minute, r.end(t).known.Extended)
		require.Equal(t, []string{event.Extend}, b.keeps(r))
	})
	inBubble(t, "an answer that comes late counts", func(t *testing.T, b *bench) {
		all, open := b.begin(2), b.hang()
		noteAll(all...)
		time.Sleep(timeout)
		synctest.Wait()
		require.True(t, all[0].Waiting())
		b.store.Refuse()
		close(open)
		synctest.Wait()
		requireStored(t, all...)
	})
}

// TestInline protects that where the caller carries nothing else differs.
func TestInline(t *testing.T) {
	faults := map[string]func(ctx context.Context, c call) error{
		"answers":            nil,
		"refuses":            func(context.Context, call) error { return errFull },
		"panics":             func(context.Context, call) error { panic("secret") },
		"ends its goroutine": func(context.Context, call) error { runtime.Goexit(); return nil },
		"hangs":              func(ctx context.Context, _ call) error { <-ctx.Done(); return ctx.Err() },
	}
	for name, fault := range faults {
		for _, steps := range []bool{false, true} {
			t.Run(fmt.Sprintf("the store %s (takes steps: %v)", name, steps), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					came := map[bool]any{}
					for _, inline := range []bool{true, false} {
						came[inline] = carried(t, &store{Steps: steps}, inline, fault)
					}
					require.Equal(t, came[false], came[true])
				})
			})
		}
	}
	inStore(t, "nothing is tried again but by a caller", &store{}, func(t *testing.T, b *bench) {
		b.place.Inline = true
		b.store.Refuse()
		r := b.begin(1)[0]
		noteAll(r)
		require.Len(t, b.store.Calls(), 1)
		time.Sleep(time.Hour)
		require.Empty(t, b.store.Calls())
		b.store.FailWith(nil)
		require.True(t, r.WantAgain())
		require.False(t, r.WantAgain(), "somebody is at it")
		r.Carry(time.Now())
		require.False(t, r.Waiting())
		require.Nil(t, r.Underway())
		require.False(t, r.WantAgain())
	})
	inStore(t, "what is decided meanwhile is recorded by who carries", &store{}, func(t *testing.T, b *bench) {
		b.place.Inline = true
		r := b.begin(1)[0]
		b.store.FailWith(func(context.Context, call) error {
			b.store.FailWith(nil)
			_, begin := r.note()
			require.False(t, begin)
			return nil
		})
		noteAll(r)
		require.False(t, r.Waiting())
		require.Len(t, b.store.Calls(), 2)
		require.Len(t, r.tried, 2)
		hang := func(ctx context.Context, _ call) error { <-ctx.Done(); return ctx.Err() }
		b.store.FailWith(func(ctx context.Context, c call) error {
			b.store.FailWith(hang)
			time.Sleep(timeout / 2)
			r.note()
			return hang(ctx, c)
		})
		began := time.Now()
		noteAll(r)
		require.Equal(t, timeout, time.Since(began), "for as long as the caller has")
	})
}

// carried is what came of an end and an entry of two runs.
func carried(t *testing.T, s *store, inline bool, fault func(ctx context.Context, c call) error) (all []string) {
	b := newBench(t, s)
	b.place.Inline = inline
	b.store.FailWith(fault)
	runs := b.begin(2)
	for _, r := range runs {
		done := make(chan struct{})
		r.note()
		r.decide()
		go func() { // whose goroutine the store may end
			defer close(done)
			if inline {
				r.Carry(time.Now())
			} else {
				lane.Enqueue(&r.Recorder)
			}
		}()
		<-done
		time.Sleep(timeout + 500*time.Millisecond)
	}
	synctest.Wait()
	for _, r := range runs {
		r.close()
		end := r.end(t)
		require.NotNil(t, end.known.Stop)
		require.Nil(t, r.Underway())
		require.False(t, r.Busy())
		failed := end.err != nil
		all = append(all, fmt.Sprint(b.keeps(r), end.known.Stop.Reason, failed, r.Waiting(), len(r.tried), r.told > 0))
		if failed {
			all = append(all, fmt.Sprint(end.at))
		}
	}
	return all
}
