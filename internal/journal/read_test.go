package journal_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

// chain has so many windows opened, each two hours after the one before, which has its cancel and an extension. It
// returns the starts of all.
func (b *bench) chain(windows int) (starts []time.Time) {
	starts = append(starts, b.name.StartedAt)
	for range windows - 1 {
		b.fill(1)
		cancel, _ := b.cancel("wall_clock_exceeded")
		require.NoError(b.t, b.store.Append(b.t.Context(), cancel))
		time.Sleep(2 * time.Hour)
		starts = append(starts, b.resume())
	}
	return starts
}

// resume opens a window after the one that the run is in, and returns its start. The journals of before are done with.
func (b *bench) resume() time.Time {
	fresh := record.Truncate(time.Now())
	m := machine.Moment{Name: &b.name, At: time.Now()}
	require.NoError(b.t, b.store.Append(b.t.Context(), m.Resume(fresh)))
	b.name.StartedAt = fresh
	b.Journal = b.another()
	return fresh
}

// whole is the window that all events tell of.
func (b *bench) whole(hostStart time.Time) fold.Window {
	h := fold.Of(fold.WindowID{}, b.store.All(b.name.Run))
	return h.Current(hostStart)
}

// TestReadWindow protects which window a process finds that attaches, and what that costs.
func TestReadWindow(t *testing.T) {
	inBubble(t, "a run without events is in its first window", func(t *testing.T, b *bench) {
		found, err := b.ReadWindow(t.Context(), b.name.StartedAt)
		require.NoError(t, err)
		require.Equal(t, fold.Window{StartedAt: b.name.StartedAt}, found)
	})
	inBubble(t, "the chain of windows is followed to its end", func(t *testing.T, b *bench) {
		starts := b.chain(7)
		b.fill(2)
		time.Sleep(2 * time.Hour)
		for _, host := range starts {
			found, err := b.another().ReadWindow(t.Context(), host)
			require.NoError(t, err)
			require.Equal(t, starts[6], found.StartedAt)
			require.Equal(t, 2*time.Second, found.Extended)
			require.NotEmpty(t, found.OpenedBy)
			require.Nil(t, found.Stop)
		}
	})
	inBubble(t, "a start after an end opens a window", func(t *testing.T, b *bench) {
		starts := b.chain(2)
		cancel, _ := b.cancel("wall_clock_exceeded")
		require.NoError(t, b.store.Append(t.Context(), cancel))
		time.Sleep(3 * time.Hour)
		host := record.Truncate(time.Now())
		found, err := b.another().ReadWindow(t.Context(), host)
		require.NoError(t, err)
		require.Equal(t, host, found.StartedAt)
		require.Equal(t, host.Add(time.Microsecond), found.NextStart(host))
		found, err = b.another().ReadWindow(t.Context(), starts[0])
		require.NoError(t, err)
		require.NotNil(t, found.Stop)
	})
	cost := func(b *bench, host time.Time) map[string]int {
		b.store.Kinds()
		found, err := b.another().ReadWindow(b.t.Context(), host)
		require.NoError(b.t, err)
		require.Equal(b.t, b.name.StartedAt, found.StartedAt)
		calls := map[string]int{}
		for _, call := range b.store.Kinds() {
			calls[call]++
		}
		return calls
	}
	t.Run("a link of the chain costs an exchange", func(t *testing.T) {
		withStore(t, &store{}, func(t *testing.T, b *bench) {
			starts := b.chain(40)
			require.Equal(t, map[string]int{"select": 41}, cost(b, starts[0]))
			require.Equal(t, map[string]int{"select": 11}, cost(b, starts[30]))
		})
	})
	t.Run("a chain of more than a hundred windows is read whole", func(t *testing.T) {
		withStore(t, &store{}, func(t *testing.T, b *bench) {
			starts := b.chain(101)
			require.Equal(t, map[string]int{"select": 100, "read": 1}, cost(b, starts[0]))
			require.Equal(t, map[string]int{"select": 101}, cost(b, starts[1]))
		})
	})
	t.Run("a run with next to no events is read whole", func(t *testing.T) {
		withStore(t, &store{Sparse: true}, func(t *testing.T, b *bench) {
			require.Equal(t, map[string]int{"read": 1}, cost(b, b.chain(3)[0]))
		})
	})
	t.Run("a run that began just now is read at once, an older one from its checkpoint on", func(t *testing.T) {
		withStore(t, &store{}, func(t *testing.T, b *bench) {
			b.fill(20)
			require.Equal(t, map[string]int{"select": 2}, cost(b, b.name.StartedAt))
			time.Sleep(2 * time.Minute)
			require.Equal(t, map[string]int{"select": 2}, cost(b, b.name.StartedAt))
		})
	})
	inBubble(t, "a circle of windows comes to an end", func(t *testing.T, b *bench) {
		starts := b.chain(3)
		m := machine.Moment{Name: &b.name, At: time.Now()}
		require.NoError(t, b.store.Append(t.Context(), m.Resume(starts[0])))
		time.Sleep(2 * time.Hour)
		for _, host := range starts {
			found, err := b.another().ReadWindow(t.Context(), host)
			require.NoError(t, err)
			require.Equal(t, b.whole(host), found)
		}
	})
	inBubble(t, "a window that was opened later and began earlier is read from its own start", func(t *testing.T, b *bench) {
		time.Sleep(24 * time.Hour)
		b.name.StartedAt = record.Truncate(time.Now())
		host := b.name.StartedAt
		time.Sleep(10 * time.Minute)
		early := host.Add(-90 * time.Minute) // as a clock shows it that is wrong
		resume := b.event(record.EventResume, record.Resume{SessionStartedAt: record.Stamp(early), PreviousStartedAt: b.stamp()})
		b.name.StartedAt = early
		extend := b.extend(time.Hour)
		extend.Timestamp = early.Add(10 * time.Minute)
		require.NoError(t, b.store.Append(t.Context(), resume, extend))
		found, err := b.another().ReadWindow(t.Context(), host)
		require.NoError(t, err)
		require.Equal(t, b.whole(host), found)
		require.Equal(t, early, found.StartedAt)
		require.Equal(t, time.Hour, found.Extended)
	})
	inBubble(t, "a resume under another name is found at the end of the chain", func(t *testing.T, b *bench) {
		starts := b.chain(3)
		b.fill(1)
		for range 2 { // neither is found by its ID
			previous := b.stamp()
			time.Sleep(2 * time.Hour)
			fresh := record.Truncate(time.Now())
			event := b.event(record.EventResume, record.Resume{
				SessionStartedAt: record.Stamp(fresh), PreviousStartedAt: previous,
			})
			require.NoError(t, b.store.Append(t.Context(), event))
			b.name.StartedAt = fresh
		}
		time.Sleep(3 * time.Hour)
		for _, host := range starts {
			found, err := b.another().ReadWindow(t.Context(), host)
			require.NoError(t, err)
			require.Equal(t, b.name.StartedAt, found.StartedAt)
			require.True(t, slices.Contains(b.keeps(record.EventResume), found.OpenedBy))
		}
	})
}
