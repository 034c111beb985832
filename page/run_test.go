package page_test

import (
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestStories(t *testing.T) {
	inRun := func(name string, events func(f *fixture, start time.Time), want ...string) {
		bubble(t, name, func(f *fixture) {
			start := time.Now()
			events(f, start)
			shows(f.T, f.shown("?run=s-1"), want...)
		})
	}
	cancel := func(f *fixture, start time.Time, fields string) {
		f.event("s-1", event.Cancel, start, fields)
	}
	inRun("a run that was cancelled can be resumed", func(f *fixture, start time.Time) {
		cancel(f, start, `"reason":"cost_exceeded","spend":{"limit":"cost","currency":"EUR","used":4000000,"allowed":5000000}`)
	}, "a call did not fit in its limit: cost: ", "4.00 EUR of 5.00 EUR used", "watchdog resume s-1", `class="badge stopped"`)
	inRun("one that was resumed is not over", func(f *fixture, start time.Time) {
		cancel(f, start, `"reason":"idle_exceeded"`)
		f.event("s-1", event.Resume, time.Now(), "")
	}, "resumed in a fresh window", "!watchdog resume", "!Ended:", `<rect class="band stopped"`, "Windows before")
	inRun("one that is complete needs no resume", func(f *fixture, start time.Time) {
		f.event("s-1", event.Complete, start, `"reason":"complete","elapsed_seconds":90`)
	}, "Done:", "nothing is left to do", "!watchdog resume")
	inRun("a cancel that was wrong is said to be", func(f *fixture, start time.Time) {
		cancel(f, start, `"reason":"no_output"`)
		f.event("s-1", event.Correction, start, "")
	}, "it had finished by itself, and the stop came too late", "!watchdog resume", `<rect class="band finished"`)
	inRun("an event of another kind, or one that cannot be read, is no trouble", func(f *fixture, start time.Time) {
		f.event("s-1", "host.note", start, "")
		f.event("s-1", event.Warning, start, `"fraction":"x","elapsed_seconds":{}`)
		f.event("s-1", event.Extend, start, `"extension_seconds":"60","spend":[{"limit":"tokens"}]`)
		f.event("s-1", "runtime.watchdog.new_kind", start, "")
	}, "event host.note: of another writer", "given 1m of wall clock", "new_kind: of a kind that this version does not know")
	inRun("a start is not shown, nor a checkpoint of before", func(f *fixture, start time.Time) {
		f.event("s-1", event.Start, start, `"stored_at":"2026-05-01T12:00:00Z"`)
		f.event("s-1", "runtime.watchdog.checkpoint", start, `"format":1,"checkpointed_at":"2026-05-01T12:00:00Z"`)
		f.event("s-1", event.Extend, start, `"extension_seconds":"60"`)
	}, "given 1m of wall clock", "!checkpoint", "!written down")
	inRun("a run that waits for an approval shows its hold", func(f *fixture, start time.Time) {
		f.begin("s-1", "h", 0, session.State{WallClock: 60, Holds: 1})
		f.event("s-1", event.Hold, start, `"hold":"approval","cap_seconds":3600`)
	}, `<rect class="band hold"`, "for at most 1h", "Holds open", "watchdog why s-1")
	inRun("a run that is cancelled is over before its row says so", func(f *fixture, start time.Time) {
		f.begin("s-1", "h", 0, session.State{WallClock: 60})
		cancel(f, start, `"reason":"wall_clock_exceeded"`)
	}, `class="badge stopped"`, "Ended:", "watchdog resume s-1", "!data-limit")
	inRun("what could not be ended of a command is said to be alive", func(f *fixture, start time.Time) {
		cancel(f, start, `"reason":"no_output"`)
		f.event("s-1", event.Overrun, start,
			`"key":"build","layer":"command","elapsed_seconds":60,"abandoned":true,"survivors":2,"survivor_pids":[4711,4712]`)
		f.event("s-1/l", event.Overrun, start, `"layer":"command","abandoned":true,"parent":"s-1"`)
	}, "<dt>Left alive</dt><dd>2 processes of its command could not be ended (PID 4711, 4712)</dd>",
		"end what is left alive, then run the command again", `<span class="sub alert">processes of its command may be alive</span>`)
}

// TestLayerPages protects a run with more layers than one page reads: all of them can be reached.
func TestLayerPages(t *testing.T) {
	next := regexp.MustCompile(`and (\d+) more:</span> <a rel="next" href="([^"#]*)#layers">`)
	named := regexp.MustCompile(`<th scope="row"><a href="\?run=([^"]*)">`)
	const n = 2*story.MaxLayers + 5
	begin := func(f *fixture, n int) {
		f.event("s 1&x", event.Warning, time.Now(), "")
		start := time.Now()
		for i := range n {
			f.event(fmt.Sprintf("s 1&x/l-%02d", i), event.Cancel, start, `"reason":"no_output","parent":"s 1&x","window":"w"`)
		}
	}
	inBubble(t, func(f *fixture) {
		begin(f, n)
		var got, more []string
		for query := runQuery("s 1&x"); query != ""; {
			text := f.shown(query)
			on := named.FindAllStringSubmatch(text, -1)
			require.LessOrEqual(t, len(on), story.MaxLayers)
			for _, match := range on {
				got = append(got, match[1])
			}
			require.Equal(t, len(on) > 12, strings.Contains(text, fmt.Sprintf("%d more layers are not drawn.", len(on)-12)))
			if strings.Contains(query, "layers=") {
				require.Contains(t, text, `<a href="?run=s%201%26x#layers">First layers</a>`)
			}
			query = ""
			if link := next.FindStringSubmatch(text); link != nil {
				more, query = append(more, link[1]), html.UnescapeString(link[2])
			}
		}
		require.Equal(t, []string{"37", "5"}, more)
		require.Len(t, got, n)
		slices.Sort(got)
		require.Len(t, slices.Compact(got), n, "each once")
		require.Contains(t, f.shown(runQuery("s 1&x")+"&layers=~"), "None of these is of the present window.")
	})
	inBubble(t, func(f *fixture) {
		begin(f, story.MaxLayers)
		require.NotContains(t, f.shown(runQuery("s 1&x")), "More layers", "they are all on the page")
	})
	inBubble(t, func(f *fixture) {
		begin(f, n)
		f.event("s 1&x", event.Cancel, time.Now(), `"reason":"idle_exceeded"`)
		f.event("s 1&x", event.Resume, time.Now(), "")
		text := f.shown(runQuery("s 1&x"))
		require.Contains(t, text, "None of these is of the present window.")
		require.Contains(t, text, "and 37 more:", "which are not read, and so may be")
	})
}

// A wrapped hides a store's other methods, and says that it may be passed by.
type wrapped struct {
	session.Lister
	watchdog.EventStore
}

func (w wrapped) Unwrap() watchdog.EventStore { return w.EventStore }

// TestWrapped protects a host that wraps its store: the page has all that it has over the store itself.
func TestWrapped(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fleet()
		f.sweeper()
		over := wrapped{f.db, f.db}
		f.cfg.Sessions, f.cfg.Events = over, over
		f.made = nil
		compare(t, "run_cancelled.html", f.shown("?run=s-cancelled"))
		compare(t, "sweeper.html", f.shown("?view=sweeper"))
	})
}

func TestNextCommand(t *testing.T) {
	for runID, want := range map[string]string{"a b": "'a b'", "-rf": "-- -rf", "x\u202ey": `$'x\u202ey'`} {
		inBubble(t, func(f *fixture) {
			f.event(runID, event.Cancel, time.Now(), `"reason":"idle_exceeded"`)
			require.Contains(t, html.UnescapeString(f.shown(runQuery(runID))), "<code><bdi>watchdog resume "+want+"</bdi></code>")
		})
	}
}

func TestBars(t *testing.T) {
	for name, bar := range map[string]struct {
		age   time.Duration
		state session.State
		want  []string
	}{
		"a new one is full":   {0, session.State{WallClock: 100}, []string{`class="left" width="100"`, "<b>1m 40s</b> of 1m 40s", `x1="20"`}},
		"it burns down":       {40 * time.Second, session.State{WallClock: 100}, []string{`class="left" width="60"`, `<div class="limit">`}},
		"at the warning":      {80 * time.Second, session.State{WallClock: 100}, []string{`width="20"`, `"limit warned"`}},
		"before the warning":  {79 * time.Second, session.State{WallClock: 100}, []string{`width="21"`, `"limit"`}},
		"warnings of its own": {50 * time.Second, session.State{WallClock: 100, WarnAt: []float64{0.5, 0.9}}, []string{`x1="50"`, `x1="10"`, `"limit warned"`}},
		"without warnings":    {90 * time.Second, session.State{WallClock: 100, WarnAt: []float64{}}, []string{`"limit low"`, "!<line"}},
		"in the reserve":      {90 * time.Second, session.State{WallClock: 100, Reserve: 10}, []string{`class="reserve" y="7" width="10"`, `"limit reserve"`}},
		"spent":               {101 * time.Second, session.State{WallClock: 100}, []string{`class="left" width="0"`, `"limit spent"`, "<b>0s</b>"}},
		"paused":              {50 * time.Second, session.State{WallClock: 100, Paused: 50}, []string{`class="left" width="100"`}},
		"idle, active":        {0, session.State{Idle: 300}, []string{"<b>active</b>, at most 5m", "!data-limit"}},
		"idle, held":          {0, session.State{Idle: 300, Holds: 1}, []string{"<b>held</b>, at most 5m"}},
		"safety":              {time.Hour, session.State{Safety: 100}, []string{`class="left" width="100"`}},
		"a count": {0, session.State{Spent: []session.Spent{{Limit: "input_tokens", Used: 50, Admitted: 25, Allowed: 100}}},
			[]string{"input tokens", `width="25"`, "<b>25</b> of 100"}},
		"a count with warnings of its own": {0, session.State{Spent: []session.Spent{{Limit: "turns", Used: 5, Allowed: 10, WarnAt: []float64{0.5, 0.9}}}},
			[]string{`x1="50"`, `x1="10"`, `"limit warned"`}},
		"a count in its reserve": {0, session.State{Spent: []session.Spent{{Limit: "tokens", Used: 70, Allowed: 100, Reserve: 30}}},
			[]string{`class="reserve" y="7" width="30"`, `"limit reserve"`}},
		"a cost in its reserve": {0, session.State{Spent: []session.Spent{{Limit: "cost", Currency: "EUR", Used: 5_000_000, Allowed: 5_500_000, Reserve: 550_000}}},
			[]string{`class="reserve" y="7" width="10"`, `"limit reserve"`, "<b>0.50</b> of 5.50 EUR"}},
		"a reserve of more than all": {0, session.State{Spent: []session.Spent{{Limit: "tokens", Allowed: 100, Reserve: 300}}},
			[]string{`class="reserve" y="7" width="100"`}},
		"a count above its most": {0, session.State{Spent: []session.Spent{{Limit: "turns", Used: 18, Allowed: 10}}}, []string{`"limit spent"`, "<b>0</b>"}},
		"a limit of none":        {0, session.State{Spent: []session.Spent{{Limit: "turns"}}}, []string{`"limit spent"`}},
		"large counts":           {0, session.State{Spent: []session.Spent{{Limit: "tokens", Used: 1, Allowed: 2_000_000}}}, []string{"<b>1.99M</b> of 2M"}},
		"a limit for ever":       {0, session.State{WallClock: 1e300}, []string{`class="left" width="100"`}},
	} {
		bubble(t, name, func(f *fixture) {
			f.begin("s-1", "h", bar.age, bar.state)
			shows(f.T, f.shown(""), bar.want...)
		})
	}
	bubble(t, "of another program's state there is none", func(f *fixture) {
		_, _, err := f.db.Attach(f.Context(), session.Session{RunID: "s-1", State: []byte(`{"wall_clock_seconds":"x"}`)})
		f.must(err)
		assert.Contains(f, f.shown(""), "no limit is known")
	})
	bubble(t, "a run without a lease is silent since its last event", func(f *fixture) {
		_, _, err := f.db.Attach(f.Context(), session.Session{RunID: "s-1", State: []byte(`{"idle_seconds":100}`)})
		f.must(err)
		time.Sleep(30 * time.Second)
		assert.Contains(f, f.shown(""), `class="left" width="70"`)
	})
}

// TestNotThere protects readers from what is not there: a legend of marks that no bar has, and a hold that is open after
// the end.
func TestNotThere(t *testing.T) {
	const reserve, warned = "kept for wrapping up", "where the run is warned"
	inBubble(t, func(f *fixture) {
		for _, c := range []struct {
			state           session.State
			reserve, warned bool
		}{
			{session.State{Idle: 300}, false, false}, {session.State{WallClock: 60}, false, true},
			{session.State{WallClock: 60, Reserve: 5, WarnAt: []float64{}}, true, false},
			{session.State{Idle: 300, Spent: []session.Spent{{Limit: "turns", Allowed: 9, Reserve: 1}}}, true, true},
		} {
			s := f.begin("s-1", "worker-1", 0, c.state)
			text := f.shown(runQuery("s-1"))
			assert.Equal(t, c.reserve, strings.Contains(text, reserve), "%+v", c.state)
			assert.Equal(t, c.warned, strings.Contains(text, warned), "%+v", c.state)
			f.end(s, session.Finished, "")
			assert.NotContains(t, f.shown(runQuery("s-1")), "legend")
		}
		s := f.begin("s-2", "worker-1", 0, session.State{Holds: 2})
		assert.Contains(t, f.shown(runQuery("s-2")), "<dt>Holds open</dt><dd>2</dd>")
		f.end(s, session.Cancelled, watchdog.HoldExceeded)
		assert.NotContains(t, f.shown(runQuery("s-2")), "Holds open")
	})
}

func TestSweeperSentence(t *testing.T) {
	for _, c := range []struct {
		last sweep.Pass
		want string
	}{
		{sweep.Pass{}, "</span></p>"},
		{sweep.Pass{Tally: sweep.Tally{Checked: 1}}, "looked at one run and ended none.</p>"},
		{sweep.Pass{Tally: sweep.Tally{Checked: 9, Cancelled: 2, Spared: 1}}, "looked at 9 runs and cancelled 2, spared 1.</p>"},
		{sweep.Pass{DryRun: true}, "looked at 0 runs and ended none, all of it a dry run.</p>"},
		{sweep.Pass{Tally: sweep.Tally{Checked: 3, Warned: 3}, Err: errors.New("hunter2")},
			"looked at 3 runs and warned 3, and ended early. What it warned is cancelled when its grace is over, unless"},
	} {
		inBubble(t, func(f *fixture) {
			if c.want != "</span></p>" {
				c.last.StartedAt = time.Now()
			}
			f.cfg.Sweeper = passes{sweep.Stats{Last: c.last}}
			shown := f.shown("?view=sweeper")
			assert.Contains(t, shown, c.want)
			assert.NotContains(t, shown, "hunter2")
		})
	}
}

var (
	laneLabel = regexp.MustCompile(`<text class="lane".*?<tspan[^>]*>(.*?)</tspan>`)
	meterLine = regexp.MustCompile(`<svg class="meter".*?<path d="([^"]*)"/></svg>`)
)

// TestTimeline draws the attempts, holds and graces of a run, and how it used up its cost.
func TestTimeline(t *testing.T) {
	inBubble(t, func(f *fixture) {
		start := time.Now()
		f.begin("s-1", "worker-1", 0, session.State{WallClock: 7200, Spent: []session.Spent{
			{Limit: "cost", Currency: "EUR", Used: 9_000_000, Allowed: 10_000_000}, {Limit: "turns", Allowed: 5},
		}})
		var openings []string
		for i := range 6 {
			openings = append(openings, f.event("s-1", event.Hold, start, fmt.Sprintf(`"hold":"h%d","cap_seconds":600`, i)))
		}
		time.Sleep(15 * time.Minute)
		f.event("s-1", event.Release, start, `"hold":"h0","opening":"`+openings[0]+`"`)
		f.event("s-1", event.Warning, start,
			`"reason":"cost","fraction":0.5,"spend":{"limit":"cost","currency":"EUR","used":5000000,"allowed":10000000}`)
		f.event("s-1", event.Warning, start,
			`"reason":"tokens","fraction":0.1,"spend":{"limit":"tokens","used":10,"allowed":100}`)
		f.event("s-1", event.Interrupt, start, `"signal":"SIGTERM"`)
		time.Sleep(15 * time.Minute)
		f.event("s-1", event.Retry, start,
			`"reason":"idle_exceeded","directive":"retry","measured_seconds":300,"configured_budget_seconds":300`)
		time.Sleep(30 * time.Minute)
		f.event("s-1", event.WrapUp, start,
			`"reason":"wall_clock","elapsed_seconds":3600,"configured_budget_seconds":4000,"remaining_seconds":400`)
		text := f.shown(runQuery("s-1"))
		var labels []string
		for _, match := range laneLabel.FindAllStringSubmatch(text, -1) {
			labels = append(labels, html.UnescapeString(match[1]))
		}
		require.Equal(t, []string{
			"attempts", `hold "h0"`, `hold "h1"`, `hold "h2"`, "others", "RETRY for idle", "WRAP_UP for wall clock",
			"cost, 1.00 of 10.00 EUR left", "tokens, 90 of 100 left",
		}, labels)
		shared := regexp.MustCompile(`<rect class="band hold" x="[^"]*" y="178"`)
		assert.Len(t, shared.FindAllString(text, -1), 3, "h3 to h5")
		assert.Contains(t, text, "<title>attempt, interrupted by SIGTERM</title>")
		assert.Regexp(t, `<rect class="band running" x="50\.\d+%"[^>]*><title>attempt 1, running</title>`, text, "from its first sign")
		assert.Regexp(t, `<rect class="band grace" [^>]* width="8\.\d+%"[^>]*><title>RETRY for idle`, text, "five minutes of an hour")
		lines := meterLine.FindAllStringSubmatch(text, -1)
		require.Len(t, lines, 2, "of turns nothing is used")
		assert.Regexp(t, `^M0 100L0 100L25\.\d+ 50L100 10V100$`, lines[0][1])
	})
}

// TestLongTimeline protects readers of a run that opened one hold again and again: the picture has the last of them.
func TestLongTimeline(t *testing.T) {
	inBubble(t, func(f *fixture) {
		start := time.Now()
		for range 700 {
			f.event("s-1", event.Hold, start, `"hold":"approval","cap_seconds":1`)
		}
		text := f.shown(runQuery("s-1"))
		assert.Equal(t, 500, strings.Count(text, `<rect class="band hold"`))
		assert.Equal(t, 1, strings.Count(text, `<text class="lane"`))
	})
}
