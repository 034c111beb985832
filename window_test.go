package watchdog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestAttach(t *testing.T) {
	t.Run("a restart keeps the window: the time the process was gone counts", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			require.NoError(t, b.attach().Close())
			b.pass(3 * time.Hour)
			wd := b.attach()
			require.Equal(t, 3*time.Hour, wd.Elapsed())
			require.Equal(t, time.Hour, wd.Remaining())
			b.pass(time.Hour + 1)
			b.stopped(wd)
		})
	})
	t.Run("a window that has its cancel event is fired from the start, with the stored stop", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.pass(5 * time.Hour)
			first := b.stopped(wd)
			b.pass(time.Hour)
			b.cfg.Budget.WallClock = 24 * time.Hour
			require.Equal(t, first, b.stopped(b.attach()))
			require.Len(t, b.events(watchdog.EventCancel), 1)
		})
	})
	t.Run("of two processes on one run both report the stop that was stored", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.PollOnly = true
			one, other := b.attach(), b.attach()
			b.pass(5 * time.Hour)
			first := b.stopped(one)
			b.pass(time.Minute)
			require.Equal(t, first, b.stopped(other))
			require.Len(t, b.events(watchdog.EventCancel), 1)
		})
	})
	t.Run("the process whose append comes second reports the stop that was stored first", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.PollOnly = true
			one := b.attach()
			b.pass(5 * time.Hour)
			var first *watchdog.Stop
			b.cfg.Store = &lateReader{EventStore: b.store, before: func() {
				b.pass(time.Second)
				first = b.stopped(one)
			}}
			other := b.attach() // it fires here, and has read the events before one appends
			require.Equal(t, first, b.stopped(other))
		})
	})
	t.Run("a cancel that something else wrote under an ID of its own is the window's", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.put(1, watchdog.EventCancel,
				`{"reason":"user_cancelled","session_started_at":"2026-05-01T12:00:00Z","fired_at":"2026-05-01T13:00:00Z"}`)
			b.pass(over)
			reason, fired := wd.Fired()
			require.True(t, fired)
			require.Equal(t, watchdog.StopReason("user_cancelled"), reason)
			require.Len(t, b.events(watchdog.EventCancel), 1)
		})
	})
	t.Run("a run whose clock was set back behind its start stays cancelled", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.clock.step(-8 * time.Hour)
			b.pass(over)
			require.Len(t, b.events(watchdog.EventCancel), 1)
			b.clock.step(8 * time.Hour)
			b.cfg.Budget.WallClock = 24 * time.Hour
			b.stopped(b.attach())
		})
	})
	t.Run("a crash between append and block loses nothing", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(5 * time.Hour) // the host is killed here, before it could persist anything
			require.Len(t, b.events(watchdog.EventCancel), 1)
			b.stopped(b.attach())
		})
	})
}

func TestResume(t *testing.T) {
	t.Run("a run resumed after its cancel gets a fresh window, recorded", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(5 * time.Hour)
			wd := b.resume()
			b.live(wd)
			require.Equal(t, noon.Add(5*time.Hour), wd.StartedAt())
			require.Len(t, b.events(watchdog.EventResume), 1)
			b.pass(4 * time.Hour)
			b.live(wd)
			b.pass(1)
			b.stopped(wd)
			require.Len(t, b.events(watchdog.EventCancel), 2, "one for each window")
		})
	})
	t.Run("a host that crashed before it persisted the new start attaches to the fresh window", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(5 * time.Hour)
			require.NoError(t, b.resume().Close())
			b.pass(time.Hour)
			wd := b.attach() // with the old start
			b.live(wd)
			require.Equal(t, time.Hour, wd.Elapsed())
		})
	})
	t.Run("a run that was not cancelled continues its window", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.pass(3 * time.Hour)
			wd := b.resume()
			require.Equal(t, time.Hour, wd.Remaining())
			require.Empty(t, b.events(watchdog.EventResume))
		})
	})
	t.Run("two processes that resume at once share one window", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(5 * time.Hour)
			late := &lateReader{EventStore: b.store}
			late.before = func() {
				late.before = nil
				b.pass(time.Second)
				b.resume()
				b.pass(time.Second)
			}
			b.cfg.Store = late
			wd := b.resume()
			require.Equal(t, noon.Add(5*time.Hour+time.Second), wd.StartedAt())
			require.Len(t, b.events(watchdog.EventResume), 1)
		})
	})
	t.Run("a resume that cannot be recorded is an error, and the run stays cancelled", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(5 * time.Hour)
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			_, err := watchdog.Resume(b.t.Context(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			b.stopped(b.attach())
		})
	})
	t.Run("with the clock set back behind the old window the fresh one begins now all the same", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.attach()
			b.pass(5 * time.Hour)
			b.clock.step(-8 * time.Hour)
			b.run.StartedAt = b.clock.Now()
			wd := b.resume()
			b.live(wd)
			require.Equal(t, noon.Add(-3*time.Hour), wd.StartedAt())
			b.pass(time.Hour)
			b.live(b.attach())
			b.pass(3*time.Hour + 1)
			b.stopped(wd)
		})
	})
}

// lateReader does something between its host's read and its append.
type lateReader struct {
	watchdog.EventStore
	before func()
}

func (s *lateReader) Append(ctx context.Context, events ...watchdog.Event) error {
	if s.before != nil {
		s.before()
	}
	return s.EventStore.Append(ctx, events...)
}

func TestWindow(t *testing.T) {
	at := func(d time.Duration) string { return noon.Add(d).Format(time.RFC3339Nano) }
	cancel := func(start, fired string) string {
		return fmt.Sprintf(`{"reason":"wall_clock_exceeded","session_started_at":%q,"fired_at":%q,"elapsed_seconds":14400,"configured_budget_seconds":14400,"by":"someone"}`, start, fired)
	}
	for _, c := range []struct {
		name   string
		events [][2]string // kind, payload
		start  time.Duration
		want   time.Duration
		fired  bool
	}{
		{name: "no events: the host's start"},
		{
			name:   "a cancel written with +00:00 and without digits",
			events: [][2]string{{watchdog.EventCancel, cancel("2026-05-01T12:00:00+00:00", "2026-05-01T16:00:01+00:00")}},
			fired:  true,
		},
		{
			name:   "a cancel written with nanoseconds and in another zone",
			events: [][2]string{{watchdog.EventCancel, cancel("2026-05-01T14:00:00.000000999+02:00", at(4*time.Hour))}},
			fired:  true,
		},
		{
			name:   "a resume that was stored before the cancel that it follows, by a host with another clock",
			events: [][2]string{{watchdog.EventResume, `{"session_started_at":"` + at(5*time.Hour) + `"}`}, {watchdog.EventCancel, cancel(at(0), at(4*time.Hour))}},
			want:   5 * time.Hour,
		},
		{
			name:   "the cancel of an earlier window is not this one's",
			events: [][2]string{{watchdog.EventCancel, cancel(at(-9*time.Hour), at(-5*time.Hour))}},
		},
		{
			name:   "a start later than the cancel is a window that the host has opened",
			events: [][2]string{{watchdog.EventCancel, cancel(at(0), at(4*time.Hour))}},
			start:  5 * time.Hour, want: 5 * time.Hour,
		},
		{
			name:   "a start that the host rounded up to whole seconds is the recorded one",
			events: [][2]string{{watchdog.EventResume, `{"session_started_at":"` + at(1500*time.Millisecond) + `"}`}},
			start:  2 * time.Second, want: 1500 * time.Millisecond,
		},
		{
			name:   "a rounded start does not open a cancelled window again",
			events: [][2]string{{watchdog.EventCancel, cancel(at(1500*time.Millisecond), at(4*time.Hour))}},
			start:  2 * time.Second, want: 1500 * time.Millisecond, fired: true,
		},
		{
			name:   "kinds that nobody knows are left alone",
			events: [][2]string{{"runtime.watchdog.other", `{}`}, {"session.created", `{"session_started_at":7}`}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inFixture(t, func(b *fixture) {
				b.clock.Add(6 * time.Hour)
				b.cfg.Budget.WallClock = 48 * time.Hour
				for i, e := range c.events {
					b.put(i, e[0], e[1])
				}
				b.run.StartedAt = noon.Add(c.start)
				wd := b.attach()
				_, fired := wd.Fired()
				require.Equal(t, c.fired, fired)
				require.Equal(t, noon.Add(c.want), wd.StartedAt())
			})
		})
	}
}

// put stores an event as another writer would.
func (b *fixture) put(i int, kind, payload string) {
	b.t.Helper()
	require.NoError(b.t, b.store.Memory.Append(context.Background(), watchdog.Event{
		ID: fmt.Sprintf("other-%d", i), AggregateType: watchdog.AggregateType, AggregateID: b.run.ID, Type: kind,
		Payload: json.RawMessage(payload), Timestamp: noon.Add(time.Duration(i) * time.Second),
	}))
}

func TestUnreadableEvent(t *testing.T) {
	for name, payload := range map[string]string{
		"a time that is none":      `{"session_started_at":"yesterday"}`,
		"no start":                 `{"reason":"wall_clock_exceeded"}`,
		"a number that is none":    `{"session_started_at":"2026-05-01T12:00:00Z","elapsed_seconds":"long"}`,
		"a number of another kind": `{"session_started_at":"2026-05-01T12:00:00Z","elapsed_seconds":[4]}`,
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(b *fixture) {
				b.put(7, watchdog.EventCancel, payload)
				_, err := watchdog.New(b.t.Context(), b.run, b.cfg)
				require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
				require.ErrorContains(t, err, "other-7")
				require.ErrorContains(t, err, "correct or delete that event")
			})
		})
	}
}
