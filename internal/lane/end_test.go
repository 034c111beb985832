package lane_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

// TestEnd protects what is recorded of a run's end by whoever decides on it.
func TestEnd(t *testing.T) {
	for _, steps := range []bool{false, true} {
		inSteps := fmt.Sprintf(" (takes steps: %v)", steps)
		inStore(t, "that the work is done"+inSteps, &store{Steps: steps}, func(t *testing.T, b *bench) {
			r := b.begin(1)[0]
			trip := &machine.Trip{Complete: true, At: record.Truncate(time.Now())}
			b.store.Refuse()
			_, err := r.RecordComplete(trip)
			require.EqualError(t, err, "append complete event: disk full")
			b.store.FailWith(nil)
			for range 2 {
				known, err := r.RecordComplete(trip)
				require.NoError(t, err)
				require.True(t, known.Complete())
			}
			require.Equal(t, []string{record.EventComplete}, b.keeps(r))
		})
		inStore(t, "that it was given more"+inSteps, &store{Steps: steps}, func(t *testing.T, b *bench) {
			r := b.begin(1)[0]
			extend := func() machine.Event {
				return r.node.Event(record.EventExtend, time.Now(), "", record.Extend{
					SessionStartedAt: record.Stamp(r.node.StartedAt), ExtensionSeconds: 60,
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
		extend := r.node.Event(record.EventExtend, time.Now(), "", record.Extend{
			SessionStartedAt: record.Stamp(r.node.StartedAt), ExtensionSeconds: 60,
		})
		require.NoError(t, b.store.Append(t.Context(), extend))
		e, _ := r.decide()
		e.Trip.On.Limit = "wall_clock"
		lane.Enqueue(&r.Recorder)
		synctest.Wait()
		require.Nil(t, r.end(t).known.Stop)
		require.Equal(t, time.Minute, r.end(t).known.Extended)
		require.Equal(t, []string{record.EventExtend}, b.keeps(r))
	})
	inBubble(t, "an answer that comes late counts", func(t *testing.T, b *bench) {
		open, all := make(chan struct{}), b.begin(2)
		b.hangUntil(open)
		noteAll(all...)
		time.Sleep(timeout)
		synctest.Wait()
		require.True(t, all[0].Waiting())
		b.store.Refuse()
		close(open)
		synctest.Wait()
		for _, r := range all {
			require.False(t, r.Waiting())
		}
	})
	inBubble(t, "a checkpoint is written aside, and after what is being recorded", func(t *testing.T, b *bench) {
		r := b.begin(1)[0]
		r.Appended(2 * journal.CheckpointAfter)
		r.CheckpointSoon()
		synctest.Wait()
		require.Equal(t, []string{"transact"}, b.store.Kinds())
		require.Nil(t, r.Underway())
		r.CheckpointSoon()
		synctest.Wait()
		require.Empty(t, b.store.Calls(), "little is known since")
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
