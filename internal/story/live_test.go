package story_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/golden"
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
			events, err := store.Read(t.Context(), event.AggregateType, "s-1")
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
				events, err := store.Read(t.Context(), event.AggregateType, id)
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
			s.add(later(i), event.Retry, record.Trip{
				Reason: "idle_exceeded", SessionStartedAt: at(0), Directive: "retry",
				Used: record.UsedOf(0, 5*time.Second),
			})
			s.add(later(i), event.Progress, record.Progress{SessionStartedAt: at(0), Resets: append(others, s.lastID())})
		}},
		"holds, each with a name of its own": {30_000, func(s *script, i int) {
			s.add(later(i), event.Retry, record.Trip{
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

// TestSentence says each event that the contract of the events has, and those of the stories.
func TestSentence(t *testing.T) {
	var got strings.Builder
	files, err := filepath.Glob("../../testdata/events/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var e watchdog.Event
		require.NoError(t, json.Unmarshal(text, &e))
		said := story.Sentence(e)
		require.NotContains(t, said, "runtime.watchdog", "%s is not told as one of another writer", file)
		fmt.Fprintf(&got, "%-22s %s\n", strings.TrimSuffix(filepath.Base(file), ".json"), said)
	}
	for _, e := range recordOf("foreign").Events {
		fmt.Fprintf(&got, "%-22s %s\n", "of another writer", story.Sentence(e))
	}
	for _, e := range slices.Concat(recordOf("swept").Events, recordOf("host_lost").Events) {
		fmt.Fprintf(&got, "%-22s %s\n", "of a sweeper", story.Sentence(e))
	}
	golden.Compare(t, "testdata/"+"sentences.txt", got.String())
}

// TestStretches places the parts of each story in time, from the start of the run.
func TestStretches(t *testing.T) {
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		s := story.Of(recordOf(name), told)
		for _, x := range s.Stretches() {
			require.False(t, x.Until.Before(x.Since), "%s: %v", name, x)
			line := fmt.Sprintf("%-14s %-7s %8v %8v  %-12s %s", name, x.Kind, x.Since.Sub(start).Round(time.Second),
				x.Until.Sub(start).Round(time.Second), x.State, strings.ToValidUTF8(x.Name[:min(len(x.Name), 20)], ""))
			fmt.Fprintln(&got, strings.TrimRight(line, " "))
		}
	}
	golden.Compare(t, "testdata/"+"stretches.txt", got.String())
}

// TestNothingVoid protects a warning, whose event nothing names: an ID that is empty takes nothing back.
func TestNothingVoid(t *testing.T) {
	s := script{run: "s-1"}
	s.add(0, event.Warning, record.Warning{Reason: "wall_clock", SessionStartedAt: at(0), Fraction: 0.8})
	s.add(time.Minute, event.Progress, record.Progress{SessionStartedAt: at(0), Resets: []string{""}})
	asked := story.Of(s.record(nil), told).Asked
	require.Len(t, asked, 1)
	require.False(t, asked[0].Void)
}

// commands are the words of run IDs in a command line.
var commands = map[string]string{
	"s-1": "s-1", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm -rf /)": "'$(rm -rf /)'", "-rf": "-- -rf", "é": "'é'",
	"x\u202ey": `$'x\u202ey'`, "x\u00a0'y\\": `$'x\u00a0\'y\\'`, "\U000e0001x": `$'\U000e0001x'`, "tenant/7:a": "tenant/7:a",
	"~": "'~'", "a*": "'a*'", "a\nb": `$'a\x0ab'`, "\x1b[31m'": `$'\x1b[31m\''`, "a\xffb": `$'a\xffb'`,
}

func TestNextLine(t *testing.T) {
	for runID, want := range commands {
		s := script{run: runID}
		s.add(time.Minute, event.Cancel, cancel(time.Minute, "idle_exceeded", time.Minute, time.Minute))
		require.Equal(t, "watchdog resume "+want, story.Of(s.record(nil), told).Next.Line())
	}
	require.Empty(t, story.Next{}.Line())
}

// TestShellQuote has shells read what is quoted. Fish cannot read escapes.
func TestShellQuote(t *testing.T) {
	words := slices.AppendSeq([]string{"=ls", "%self", `a\\b`, `a\`, `\'`, "!!", "{a,b}", "^a", "", "#a"}, maps.Keys(commands))
	for _, name := range []string{"bash", "zsh", "fish"} {
		shell, err := exec.LookPath(name)
		if err != nil {
			t.Log("there is no " + name)
			continue
		}
		line, want := `printf '%s\n'`, ""
		for _, word := range words {
			if quoted := story.ShellQuote(word); name != "fish" || !strings.HasPrefix(quoted, "$") {
				line, want = line+" "+quoted, want+word+"\n"
			}
		}
		read := exec.CommandContext(t.Context(), shell, "-c", line)
		read.Env = []string{"LC_ALL=C.UTF-8", "HOME=" + t.TempDir()}
		out, err := read.Output()
		require.NoError(t, err, name)
		require.Equal(t, want, string(out), name)
	}
}

// artifacts are what a guard can leave of a command, made from what package stall writes.
var artifacts = map[string][]string{ // replacements
	"command":    nil,
	"finished":   {`"complete": true`, `"complete": true, "finished": true`},
	"unfinished": {`"complete": true`, `"complete": false`, `"terminated": true`, `"terminated": false`},
	"ignored": {
		`"kind": "interrupt"`, `"kind": "ignore"`, `"sent": [`, `"sent": [], "was": [`, `"terminated": true`,
		`"terminated": false`,
	},
	"survivors": {
		`"terminated": true`, `"terminated": false`, `"ended_by": "SIGINT"`, `"ended_by": ""`, `"exit_code": 7`,
		`"exit_code": null`, `"processes": 1`, `"processes": 3, "missed": 2`, `"duration_ms": 0`,
		`"failed": "timeout", "duration_ms": 0`, `"kind": "terminal"`, `"kind": "no_output"`,
	},
}

func TestOfArtifact(t *testing.T) {
	text, err := os.ReadFile("../../stall/testdata/event.json")
	require.NoError(t, err)
	left := map[string]story.Left{}
	for name, replacements := range artifacts {
		for i := 0; i < len(replacements); i += 2 {
			require.Contains(t, string(text), replacements[i])
		}
		s, err := story.OfArtifact([]byte(strings.NewReplacer(replacements...).Replace(string(text))), told)
		require.NoError(t, err)
		compare(t, "artifact_"+name, s)
		left[name] = s.Command.Left
	}
	require.Equal(t, map[string]story.Left{
		"command": story.LeftNothing, "finished": story.LeftNothing, "unfinished": story.LeftUnknown,
		"ignored": story.LeftRunning, "survivors": story.LeftAlive,
	}, left)
	_, err = story.OfArtifact([]byte(`{"schema":"watchdog.stall.event/v9"}`), told)
	require.EqualError(t, err, `its schema is "watchdog.stall.event/v9", and this version reads "watchdog.stall.event/v1"`)
	_, err = story.OfArtifact([]byte(`no`), told)
	require.ErrorContains(t, err, "it is not the JSON of a stalled command")
}
