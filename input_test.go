package watchdog_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

func TestInputInvalid(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(b *fixture)
		want  error
		says  string
	}{
		{"an empty ID", func(b *fixture) { b.run.ID = "" }, watchdog.ErrInvalid, ""},
		{"a blank ID", func(b *fixture) { b.run.ID = " \t" }, watchdog.ErrInvalid, ""},
		{"an ID beyond the column", func(b *fixture) { b.run.ID = strings.Repeat("é", 256) }, watchdog.ErrInvalid, "256"},
		{"a control character in the ID", func(b *fixture) { b.run.ID = "a\x00b" }, watchdog.ErrInvalid, `"a\x00b"`},
		{"an ID that is not UTF-8", func(b *fixture) { b.run.ID = "a\xff" }, watchdog.ErrInvalid, "UTF-8"},
		{"a control character in the parent", func(b *fixture) { b.run.Parent = "a\nb" }, watchdog.ErrInvalid, "parent"},
		{"a line separator for an ID", func(b *fixture) { b.run.ID = "\u2028" }, watchdog.ErrInvalid, `it "\u2028" is empty but for white space`},
		{"a paragraph separator", func(b *fixture) { b.run.ID = "\u2029" }, watchdog.ErrInvalid, `it "\u2029" is empty but for white space`},
		{"a line feed", func(b *fixture) { b.run.ID = "\n" }, watchdog.ErrInvalid, `it "\n" is empty but for white space`},
		{"many spaces", func(b *fixture) { b.run.ID = strings.Repeat(" ", 256) }, watchdog.ErrInvalid, `it "` + strings.Repeat(" ", 24) + `" is empty`},
		{"a parent of a line separator", func(b *fixture) { b.run.Parent = "\u2028" }, watchdog.ErrInvalid, `the parent of run s-1 "\u2028" is empty but`},
		{"a zero start", func(b *fixture) { b.run.StartedAt = time.Time{} }, watchdog.ErrInvalid, "s-1"},
		{"a start in the future", func(b *fixture) { b.run.StartedAt = noon.Add(watchdog.StartSkew + 1) }, watchdog.ErrInvalid, "2026-05-01T12:01:00Z"},
		{"a start before 1970", func(b *fixture) { b.run.StartedAt = time.Unix(-1, 0) }, watchdog.ErrInvalid, "1969"},
		{"a negative wall clock", func(b *fixture) { b.cfg.Budget.WallClock = -time.Second }, watchdog.ErrInvalid, "-1s"},
		{"a negative reserve", func(b *fixture) { b.cfg.Budget.Reserve = -time.Second }, watchdog.ErrInvalid, "-1s"},
		{"a reserve that leaves nothing", func(b *fixture) { b.cfg.Budget.Reserve = 4 * time.Hour }, watchdog.ErrInvalid, "4h0m0s"},
		{"a warning at nothing", func(b *fixture) { b.cfg.Budget.WarnAt = []float64{0} }, watchdog.ErrInvalid, "WarnAt"},
		{"a warning at the end", func(b *fixture) { b.cfg.Budget.WarnAt = []float64{1} }, watchdog.ErrInvalid, "WarnAt"},
		{"a warning at no number", func(b *fixture) { b.cfg.Budget.WarnAt = []float64{math.NaN()} }, watchdog.ErrInvalid, "NaN"},
		{"a warning twice", func(b *fixture) { b.cfg.Budget.WarnAt = []float64{0.5, 0.5} }, watchdog.ErrInvalid, "twice"},
		{"a negative record timeout", func(b *fixture) { b.cfg.RecordTimeout = -1 }, watchdog.ErrInvalid, "RecordTimeout"},
		{"a keeper and no store", func(b *fixture) { b.cfg.Store, b.cfg.Keeper = nil, &fakeKeeper{} }, watchdog.ErrInvalid, "set Store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFixture(t)
			c.spoil(b)
			for _, attach := range []attachFunc{watchdog.New, watchdog.Resume} {
				wd, err := attach(t.Context(), b.run, b.cfg)
				require.Nil(t, wd)
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, c.says)
			}
			require.Zero(t, b.store.appends)
		})
	}
	t.Run("a parent that has ended already", func(t *testing.T) {
		b := newFixture(t)
		parent, end := context.WithCancelCause(t.Context())
		end(errHostGone)
		_, err := watchdog.New(parent, b.run, b.cfg)
		require.ErrorIs(t, err, watchdog.ErrParentEnded)
		require.ErrorIs(t, err, errHostGone)
		require.Zero(t, b.store.appends)
	})
}

func TestInputAccepted(t *testing.T) {
	runFixture(t, "a start in another zone is kept in UTC, to the microsecond", func(b *fixture) {
		b.run.StartedAt = noon.Add(-1001).In(time.FixedZone("", 2*3600))
		require.Equal(b.t, noon.Add(-2*time.Microsecond), b.attach().StartedAt())
	})
	runFixture(t, "a start a little ahead counts from now", func(b *fixture) {
		b.run.StartedAt = noon.Add(watchdog.StartSkew)
		wd := b.attach()
		require.Zero(b.t, wd.Elapsed())
		b.pass(over)
		b.stopped(wd)
	})
	runFixture(t, "the longest ID there may be", func(b *fixture) {
		b.run.ID = strings.Repeat("é", watchdog.MaxAggregateID)
		b.attach()
		b.pass(over)
		require.Len(b.t, b.events(watchdog.EventCancel), 1)
	})
	t.Run("any character that is neither a control character nor only white space", func(t *testing.T) {
		for _, id := range []string{"a\u2028b", " a ", "\ufeff", "\u200b", "\u202ea"} {
			inFixture(t, func(b *fixture) {
				b.run.ID = id
				require.Equal(t, id, b.attach().ID())
			})
		}
	})
	runFixture(t, "the longest budget there may be", func(b *fixture) {
		b.cfg.Budget.WallClock = watchdog.NoLimit - 1
		b.live(b.attach())
	})
	runFixture(t, "a config that is changed later changes nothing", func(b *fixture) {
		b.cfg.Budget.WarnAt = []float64{0.5}
		b.attach()
		b.cfg.Budget.WarnAt[0] = 0.1
		b.pass(time.Hour)
		require.Empty(b.t, b.events(watchdog.EventWarning))
	})
}

func TestNoStore(t *testing.T) {
	t.Run("the zero run begins now, under an ID of its own and the default limits", func(t *testing.T) {
		for _, attach := range []attachFunc{watchdog.New, watchdog.Resume} {
			synctest.Test(t, func(t *testing.T) {
				wd, err := attach(t.Context(), watchdog.Run{}, watchdog.Config{Logger: quiet})
				require.NoError(t, err)
				defer wd.Close()
				require.Regexp(t, `^[0-9a-f-]{36}$`, wd.ID())
				require.Equal(t, time.Now().UTC(), wd.StartedAt())
				time.Sleep(watchdog.DefaultWallClock)
				require.NoError(t, wd.Context().Err())
				time.Sleep(time.Nanosecond)
				<-wd.Context().Done()
				require.Equal(t, wd.ID(), wd.Stop().RunID)
			})
		}
	})
	runSynced(t, "what its stop says can be done, and so of a layer of a run that has a store", func(t *testing.T) {
		wd := attachTo(context.Background(), t, watchdog.Run{ID: "s-1"}, watchdog.Config{})
		stored := attachTo(context.Background(), t, watchdog.Run{ID: "s-2", StartedAt: time.Now()}, watchdog.Config{Store: &watchdog.Memory{}})
		inner := openLayer(t, stored, "step", watchdog.Budget{WallClock: time.Hour})
		layer := openLayer(t, wd, "step", watchdog.Budget{WallClock: time.Hour})
		const then = ", in the window that started at 2000-01-01T00:00:00Z; begin again, or raise the limit if it needs longer"
		time.Sleep(time.Hour + 1)
		require.EqualError(t, layer.Stop(),
			"run s-1/step stopped: watchdog_wall_clock_exceeded: ran 1 h 0 min 0 s of 1 h"+then)
		require.ErrorContains(t, inner.Stop(), then)
		<-wd.Context().Done()
		require.ErrorContains(t, stored.Stop(), "; resume the run to go on")
		require.EqualError(t, context.Cause(wd.Context()),
			"run s-1 stopped: watchdog_wall_clock_exceeded: ran 4 h 0 min 0 s of 4 h"+then)
	})
	t.Run("nor does it name a limit where there was none, or one of time where it counts", func(t *testing.T) {
		const begin, more = "; begin again", "; begin again, or raise the limit if it needs more"
		for _, c := range []struct {
			then string
			end  func(wd *watchdog.Watchdog)
		}{
			{begin, func(wd *watchdog.Watchdog) {
				_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandTerminal})
				require.NoError(t, err)
			}},
			{begin, func(wd *watchdog.Watchdog) {
				for wd.Context().Err() == nil {
					wd.Step(loop.Step{Tool: "x", Input: []byte("a"), Outcome: []byte("b")})
					wd.Poll()
				}
			}},
			{more, func(wd *watchdog.Watchdog) {
				_, err := wd.Admit(t.Context(), "", watchdog.Amount{Turns: 2})
				require.ErrorIs(t, err, watchdog.TurnsExceeded)
			}},
		} {
			wd := guard(t, watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{Turns: 1}}})
			c.end(wd)
			<-wd.Context().Done()
			require.True(t, strings.HasSuffix(wd.Stop().Error(), c.then), "%v", wd.Stop())
			require.NoError(t, wd.Close())
		}
	})
	runFixture(t, "an ID and a start that are given count", func(b *fixture) {
		b.cfg.Store = nil
		b.pass(time.Hour)
		wd := b.attach()
		require.Equal(b.t, b.run.ID, wd.ID())
		require.Equal(b.t, noon, wd.StartedAt())
		require.Equal(b.t, 3*time.Hour, wd.Remaining())
	})
	t.Run("an ID or a start that is given can be wrong", func(t *testing.T) {
		b := newFixture(t)
		b.cfg.Store = nil
		for _, run := range []watchdog.Run{
			{ID: " "}, {ID: "a\x00b"}, {StartedAt: noon.Add(time.Hour)}, {StartedAt: time.Unix(-1, 0)}, {Parent: "a\nb"},
		} {
			_, err := watchdog.New(t.Context(), run, b.cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid, "%v", run)
		}
	})
	runFixture(t, "a run of the same name shares nothing with one before", func(b *fixture) {
		b.cfg.Store = nil
		wd := b.attach()
		require.NoError(b.t, wd.Complete())
		b.live(b.attach())
		stopped := b.attach()
		_, err := stopped.Cancel(watchdog.Cancellation{Reason: "host_gone"})
		require.NoError(b.t, err)
		b.live(b.attach())
		b.live(b.resume())
	})
}
