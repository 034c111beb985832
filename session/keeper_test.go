package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func TestAKeepersConfig(t *testing.T) {
	store := &session.Memory{}
	for name, cfg := range map[string]session.KeeperConfig{
		"has a store":                                    {},
		"has no negative threshold":                      {Store: store, Threshold: -1},
		"has no negative pace":                           {Store: store, Pace: -1},
		"has no negative poll":                           {Store: store, Poll: -1},
		"has no negative record timeout":                 {Store: store, RecordTimeout: -1},
		"looks four times in a threshold":                {Store: store, Threshold: time.Minute, Pace: 15*time.Second + 1},
		"has no threshold shorter than the default pace": {Store: store, Threshold: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := session.NewKeeper(cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
		})
	}
	t.Run("may have a threshold that is off, or a pace of a quarter of it", func(t *testing.T) {
		for _, cfg := range []session.KeeperConfig{{Store: store, Threshold: watchdog.NoLimit}, {Store: store, Threshold: time.Minute, Pace: 15 * time.Second}} {
			_, err := session.NewKeeper(cfg)
			require.NoError(t, err)
		}
	})
}

func TestARowBeginsWithTheAttach(t *testing.T) {
	t.Run("and says which run it is, where, and when", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.attach("s-1")
			now := time.Now().UTC()
			require.Equal(t, session.Session{
				RunID: "s-1", Status: session.Active, CreatedAt: now, LastEventAt: now, StartedAt: now, Host: "here", Attempt: 1,
			}, b.row("s-1"))
			require.Equal(t, 1, b.the().Live())
		})
	})
	t.Run("and is not written again before it is behind", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			b.after(time.Hour)
			b.db.counted()
			wd := b.attach("s-1")
			b.after(time.Minute - time.Second)
			wd.Activity()
			b.after(time.Second)
			calls, _ := b.db.counted()
			require.Zero(t, calls["Freshen"])
		})
	})
	t.Run("under a parent, and with a threshold of its own", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.RunThreshold = func(runID string) time.Duration {
				return map[string]time.Duration{"s-1": time.Hour, "s-2": watchdog.NoLimit}[runID]
			}
			for i := range 3 {
				wd, err := watchdog.New(context.Background(), watchdog.Run{ID: name(i), StartedAt: time.Now(), Parent: "p"}, b.watched(b.the()))
				require.NoError(t, err)
				defer wd.Close()
			}
			require.Equal(t, "p", b.row("s-0").Parent)
			require.Zero(t, b.row("s-0").Threshold)
			require.Equal(t, time.Hour, b.row("s-1").Threshold)
			require.EqualValues(t, watchdog.NoLimit, b.row("s-2").Threshold)
		})
	})
	for name, own := range map[string]time.Duration{"negative": -1, "too short for the pace": 4*time.Second - 1} {
		t.Run("not with a threshold that is "+name, func(t *testing.T) {
			inBed(t, func(b *bed) {
				b.cfg.RunThreshold = func(string) time.Duration { return own }
				_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, b.watched(b.the()))
				require.ErrorIs(t, err, watchdog.ErrInvalid)
				require.Zero(t, b.the().Live())
			})
		})
	}
	t.Run("in the window that a resume opens", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			start := wd.StartedAt()
			b.after(time.Minute)
			b.swept("s-1")
			b.after(time.Minute)
			b.requireSwept(wd)
			resumed, err := watchdog.Resume(context.Background(), watchdog.Run{ID: "s-1", StartedAt: start}, b.watched(b.the()))
			require.NoError(t, err)
			defer resumed.Close()
			row := b.row("s-1")
			require.Equal(t, start.Add(2*time.Minute), row.StartedAt)
			require.Equal(t, start, row.CreatedAt)
			require.Equal(t, session.Active, row.Status)
			require.Empty(t, row.Reason)
			require.Equal(t, watchdog.Attempt{Number: 2}, resumed.Attempt())
			b.after(time.Minute)
			b.requireRunning(resumed)
		})
	})
	t.Run("or the watchdog is not made, where the database is down or hangs", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.db.spoil(func(ctx context.Context, call string) error {
				if call == "Attach" {
					<-ctx.Done()
				}
				return ctx.Err()
			})
			b.cfg.RecordTimeout = time.Second
			begun := time.Now()
			_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: begun}, b.watched(b.the()))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "begin an attempt of run s-1")
			require.Equal(t, time.Second, time.Since(begun))
			require.Zero(t, b.the().Live())
		})
	})
}

func TestARowSaysHowTheRunEnded(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(b *bed, wd *watchdog.Watchdog, endParent context.CancelFunc)
		status session.Status
		reason watchdog.StopReason
	}{
		"closed": {func(_ *bed, wd *watchdog.Watchdog, _ context.CancelFunc) { wd.Close() }, session.Finished, ""},
		"stopped by a limit": {
			func(b *bed, _ *watchdog.Watchdog, _ context.CancelFunc) { b.after(watchdog.DefaultWallClock + 1) }, session.Cancelled, watchdog.WallClockExceeded,
		},
		"stopped by a guard": {
			func(_ *bed, wd *watchdog.Watchdog, _ context.CancelFunc) {
				_, _ = wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
			}, session.Cancelled, watchdog.CommandNoOutput,
		},
		"interrupted":                {func(_ *bed, wd *watchdog.Watchdog, _ context.CancelFunc) { _ = wd.Interrupt("SIGINT") }, session.Interrupted, ""},
		"with its parent":            {func(_ *bed, _ *watchdog.Watchdog, endParent context.CancelFunc) { endParent() }, session.Interrupted, ""},
		"not, as long as it goes on": {func(b *bed, _ *watchdog.Watchdog, _ context.CancelFunc) { b.after(time.Hour) }, session.Active, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(b *bed) {
				b.running()
				ctx, endParent := context.WithCancel(context.Background())
				defer endParent()
				wd, err := watchdog.New(ctx, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, b.watched(b.the()))
				require.NoError(t, err)
				defer wd.Close()
				c.end(b, wd, endParent)
				b.after(time.Second)
				require.Equal(t, c.status, b.row("s-1").Status)
				require.Equal(t, c.reason, b.row("s-1").Reason)
				require.Equal(t, c.status == session.Active, b.the().Live() == 1)
			})
		})
	}
	t.Run("with a run around it that was stopped: that is not its own stop", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			outer := b.attach("s-1")
			inner, err := watchdog.New(outer.Context(), watchdog.Run{ID: "s-2", StartedAt: time.Now()}, b.watched(b.the()))
			require.NoError(t, err)
			defer inner.Close()
			_, err = outer.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
			require.NoError(t, err)
			b.after(time.Second)
			require.Equal(t, session.Cancelled, b.row("s-1").Status)
			require.Equal(t, session.Interrupted, b.row("s-2").Status)
			require.Empty(t, b.row("s-2").Reason)
		})
	})
	t.Run("also where the keeper ends right after it", func(t *testing.T) {
		inBed(t, func(b *bed) {
			stop := b.run(b.the())
			require.NoError(t, b.attach("s-1").Close())
			stop()
			require.Equal(t, session.Finished, b.row("s-1").Status)
		})
	})
	t.Run("but for a keeper whose database does not answer any more", func(t *testing.T) {
		inBed(t, func(b *bed) {
			stop := b.run(b.the())
			wd := b.attach("s-1")
			b.after(2 * time.Minute)
			b.db.spoil(func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) })
			require.NoError(t, wd.Close())
			begun := time.Now()
			stop()
			require.LessOrEqual(t, time.Since(begun), 2*watchdog.DefaultRecordTimeout)
			require.Equal(t, session.Active, b.row("s-1").Status)
			require.Equal(t, 1, b.log.count("level=ERROR"))
		})
	})
}

// overtaken is a database whose first attach answers late.
type overtaken struct {
	*database
	attached bool
}

func (s *overtaken) Attach(ctx context.Context, row session.Session) (before, after session.Session, err error) {
	first := !s.attached
	s.attached = true
	before, after, err = s.database.Attach(ctx, row)
	if first {
		time.Sleep(time.Second) // the bubble's
	}
	return before, after, err
}

func TestAttemptsAreCounted(t *testing.T) {
	lost := func(b *bed) (n int) {
		events, err := b.db.Memory.Read(context.Background(), watchdog.AggregateType, "s-1")
		require.NoError(b, err)
		for _, e := range events {
			if e.Type == watchdog.EventInterrupt {
				n++
			}
		}
		return n
	}
	t.Run("from one that was finished to the next", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			for n := 1; n < 4; n++ {
				wd := b.attach("s-1")
				require.Equal(t, watchdog.Attempt{Number: n}, wd.Attempt())
				wd.Close()
				b.after(time.Minute)
			}
			require.Equal(t, 3, b.row("s-1").Attempt)
			require.Zero(t, lost(b))
		})
	})
	t.Run("and none was lost of those that this process ended and has not written down yet, or still runs", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			b.attach("s-1").Close()
			require.Equal(t, watchdog.Attempt{Number: 2}, b.attach("s-1").Attempt())
			wd := b.attach("s-1")
			require.Equal(t, watchdog.Attempt{Number: 3}, wd.Attempt())
			b.after(time.Minute)
			require.Equal(t, 1, b.the().Live(), "the latest")
			require.Equal(t, session.Active, b.row("s-1").Status)
			wd.Close()
			b.after(time.Second)
			require.Equal(t, session.Finished, b.row("s-1").Status)
			require.Zero(t, lost(b))
		})
	})
	t.Run("the next is kept also where it begins while the end of the one before is written", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			b.attach("s-1").Close()
			b.db.spoil(func(_ context.Context, call string) error {
				if call == "End" {
					time.Sleep(2 * time.Second) // the bubble's
				}
				return nil
			})
			b.after(time.Second)
			require.Equal(t, watchdog.Attempt{Number: 2}, b.attach("s-1").Attempt())
			b.after(time.Minute)
			require.Equal(t, 1, b.the().Live())
		})
	})
	t.Run("of two that begin at once the later is kept", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.cfg.Store = &overtaken{database: b.db}
			b.running()
			first := make(chan *watchdog.Watchdog)
			go func() { first <- b.attach("s-1") }()
			synctest.Wait()
			second := b.attach("s-1")
			require.Equal(t, 1, (<-first).Attempt().Number)
			require.Equal(t, 2, second.Attempt().Number)
			second.Close()
			b.after(time.Second)
			require.Equal(t, session.Finished, b.row("s-1").Status)
		})
	})
	t.Run("a host that died has lost its own, and the next attach says so", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.attach("s-1") // its keeper never runs
			b.after(time.Hour)
			stop := b.run(b.another("there"))
			defer stop()
			k := b.another("there")
			wd := b.attachTo(k, "s-1")
			require.Equal(t, watchdog.Attempt{Number: 2, Lost: true}, wd.Attempt())
			require.Equal(t, 1, lost(b))
			require.Equal(t, "there", b.row("s-1").Host)
		})
	})
	t.Run("a run that another attempt took over is not kept any longer, and its end is not the other's", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.running()
			wd := b.attach("s-1")
			b.after(time.Minute)
			other := b.attachTo(b.another("there"), "s-1")
			require.True(t, other.Attempt().Lost)
			wd.Activity()
			b.after(time.Minute)
			wd.Activity()
			b.after(time.Second)
			require.Zero(t, b.the().Live())
			require.Equal(t, 1, b.log.count("another attempt at it was begun"))
			b.requireRunning(wd)
			wd.Close()
			b.after(time.Minute)
			require.Equal(t, session.Active, b.row("s-1").Status)
			require.Equal(t, 2, b.row("s-1").Attempt)
		})
	})
}
