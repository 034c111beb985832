package story_test

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
)

// TestOfReal tells the story of a run that a watchdog guards, in fake time.
func TestOfReal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchdog.Memory{}
		w, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: store, Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{
				WallClock: time.Hour, Idle: 10 * time.Minute, WarnAt: []float64{}, Reserve: 5 * time.Minute,
				Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveCancel}},
			}})
		require.NoError(t, err)
		tell := func() story.Story {
			synctest.Wait()
			events, err := store.Read(t.Context(), watchdog.AggregateType, "s-1")
			require.NoError(t, err)
			return story.Of(story.Record{RunID: "s-1", Events: events}, time.Now())
		}
		began := w.StartedAt()
		hold, err := w.Hold(t.Context(), "approval", watchdog.HoldLimit{Cap: 2 * time.Hour, PausesWallClock: true})
		require.NoError(t, err)
		time.Sleep(30 * time.Minute)
		hold.Close()
		require.NoError(t, w.Extend(30*time.Minute))
		w.Progress()
		w.Note("tool: grep")
		time.Sleep(10*time.Minute + time.Second)
		s := tell()
		require.Equal(t, story.Unknown, s.State)
		require.Len(t, s.Asked, 1, "its decision is not told besides")
		require.Equal(t, "asked for RETRY: idle, 10m of 10m", s.Asked[0].String())
		w.Progress()
		require.True(t, tell().Asked[0].Void)
		for range 9 {
			time.Sleep(5 * time.Minute)
			w.Progress()
		}
		time.Sleep(time.Hour)
		s = tell()
		stop := w.Stop()
		require.NotNil(t, stop)
		require.Equal(t, story.Stopped, s.State)
		require.Equal(t, began, s.StartedAt)
		require.Equal(t, stop.Code, s.End.Code)
		require.Equal(t, story.Span(stop.Elapsed), s.End.Used)
		require.Equal(t, "tool: grep", s.Noted)
		require.Equal(t, story.Span(30*time.Minute), s.Paused)
		require.Len(t, s.Holds, 1)
		require.Equal(t, `"approval" stopped the wall clock for 30m (at most 2h)`, s.Holds[0].String())
		require.Equal(t, "wall clock 1h30m (with 30m more)", s.Allowed[0].String())
		require.NoError(t, w.Close())
		w, err = watchdog.Resume(t.Context(), watchdog.Run{ID: "s-1", StartedAt: began}, watchdog.Config{Store: store})
		require.NoError(t, err)
		require.NoError(t, w.Complete())
		s = tell()
		require.Equal(t, story.Complete, s.State)
		require.Len(t, s.Before, 1)
		require.Equal(t, stop.Code, s.Before[0].Code)
		require.Empty(t, s.Asked, "what was asked in the window before is not told")
		require.NoError(t, w.Close())
	})
}

// TestLayersOfBefore checks that a layer that ended in the window before is not told of the present one.
func TestLayersOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchdog.Memory{}
		cfg := watchdog.Config{
			Store: store, Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{WallClock: time.Hour},
		}
		run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		w, err := watchdog.New(t.Context(), run, cfg)
		require.NoError(t, err)
		_, err = w.Layer("build", watchdog.Budget{WallClock: time.Minute})
		require.NoError(t, err)
		layers := func() []story.Layer {
			synctest.Wait()
			read := func(id string) story.Record {
				events, err := store.Read(t.Context(), watchdog.AggregateType, id)
				require.NoError(t, err)
				return story.Record{RunID: id, Events: events}
			}
			r := read("s-1")
			r.Layers = []story.Record{read("s-1/build")}
			return story.Of(r, time.Now()).Layers
		}
		time.Sleep(2 * time.Hour)
		require.Len(t, layers(), 1)
		require.NoError(t, w.Close())
		w, err = watchdog.Resume(t.Context(), run, cfg)
		require.NoError(t, err)
		require.Empty(t, layers())
		time.Sleep(time.Minute)
		again, err := w.Layer("build", watchdog.Budget{WallClock: time.Minute})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.Error(t, again.Context().Err())
		require.Len(t, layers(), 1)
		require.NoError(t, w.Close())
	})
}

// TestLarge protects who reads the story of a run that was asked very often: it takes as long for each event as for the
// first ones. A look through all that came before, for each event, takes minutes.
func TestLarge(t *testing.T) {
	if testing.Short() || racing.Enabled {
		t.Skip("it measures")
	}
	later := func(i int) time.Duration { return time.Duration(i) * time.Millisecond }
	others := slices.Repeat([]string{"00000000-0000-4000-8000-999999999999"}, 100)
	for name, c := range map[string]struct {
		n   int
		add func(s *script, i int)
	}{
		"directives that progress made void": {3000, func(s *script, i int) {
			s.add(later(i), watchdog.EventRetry, record.Trip{
				Reason: "idle_exceeded", SessionStartedAt: at(0), Directive: "retry",
				Used: record.UsedOf(0, 5*time.Second),
			})
			s.add(later(i), watchdog.EventProgress, record.Progress{SessionStartedAt: at(0), Resets: append(others, s.lastID())})
		}},
		"holds, each with a name of its own": {30_000, func(s *script, i int) {
			s.add(later(i), watchdog.EventRetry, record.Trip{
				Reason: "hold_exceeded", Hold: fmt.Sprint("tool ", i), SessionStartedAt: at(0), Directive: "retry",
				Used: record.UsedOf(0, 5*time.Second),
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := script{run: "s-1"}
			for i := range c.n {
				c.add(&s, i)
			}
			began := time.Now()
			told := story.Of(s.record(nil), told)
			require.Len(t, told.Stretches(), c.n+1, "a window, with a grace for each")
			require.Less(t, time.Since(began), time.Minute)
			require.Len(t, told.Asked, c.n)
		})
	}
}

// TestDocumented expects each field of the JSON in the documentation.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/events.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## The story of a run\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for name := range fieldsOf(reflect.TypeFor[story.Story](), map[string]bool{}) {
		require.Contains(t, section, "`"+name+"`")
	}
}

// fieldsOf are the JSON names of a struct and of those in it.
func fieldsOf(of reflect.Type, names map[string]bool) map[string]bool {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return names
	}
	for i := range of.NumField() {
		if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names[name] = true
			fieldsOf(of.Field(i).Type, names)
		}
	}
	return names
}
