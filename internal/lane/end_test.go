package lane_test

import (
	"fmt"
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
		t.Run(fmt.Sprintf("that the work is done (takes steps: %v)", steps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &store{Steps: steps})
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
		})
		t.Run(fmt.Sprintf("that it was given more (takes steps: %v)", steps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, &store{Steps: steps})
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
