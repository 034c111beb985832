package page_test

import (
	"html"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func TestStories(t *testing.T) {
	inRun := func(name string, events func(f *fixture, start time.Time), want ...string) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				start := time.Now()
				events(f, start)
				text := f.shown("?run=s-1")
				for _, part := range want {
					if absent, not := strings.CutPrefix(part, "!"); not {
						assert.NotContains(t, text, absent)
					} else {
						assert.Contains(t, text, part)
					}
				}
			})
		})
	}
	cancel := func(f *fixture, start time.Time, fields string) {
		f.event("s-1", watchdog.EventCancel, start, fields)
	}
	inRun("a run that was cancelled can be resumed", func(f *fixture, start time.Time) {
		cancel(f, start, `"reason":"cost_exceeded","spend":{"limit":"cost","currency":"EUR","used":4000000,"allowed":5000000}`)
	}, "it cost more than it may", "4.00 EUR of 5.00 EUR cost", "watchdog resume s-1")
	inRun("one that was resumed is not over", func(f *fixture, start time.Time) {
		cancel(f, start, `"reason":"idle_exceeded"`)
		f.event("s-1", watchdog.EventResume, time.Now(), "")
	}, "a fresh window", "!watchdog resume", "!Ended:")
	inRun("one that is complete needs no resume", func(f *fixture, start time.Time) {
		f.event("s-1", watchdog.EventComplete, start, `"reason":"complete","elapsed_seconds":90`)
	}, "Done:", "after 1m 30s", "!watchdog resume")
	inRun("a cancel that was wrong is said to be", func(f *fixture, start time.Time) {
		cancel(f, start, `"reason":"no_output"`)
		f.event("s-1", watchdog.EventCorrection, start, "")
	}, "The work had finished before its cancel", "!watchdog resume")
	inRun("an interrupt names its signal", func(f *fixture, start time.Time) {
		f.event("s-1", watchdog.EventInterrupt, start, `"signal":"SIGTERM"`)
	}, "something outside ended it", "SIGTERM")
	inRun("a code of the host is shown as it is", func(f *fixture, start time.Time) {
		cancel(f, start, `"reason":"approval_denied"`)
	}, "<bdi>approval_denied</bdi>")
	inRun("an event of another kind, or one that cannot be read, is no trouble", func(f *fixture, start time.Time) {
		f.event("s-1", "host.note", start, "")
		f.event("s-1", watchdog.EventWarning, start, `"fraction":"x","elapsed_seconds":{}`)
		f.event("s-1", watchdog.EventExtend, start, `"extension_seconds":"60","spend":[{"limit":"tokens"}]`)
		f.event("s-1", "runtime.watchdog.new_kind", start, "")
	}, "host.note", "by 1m", "new kind")
	inRun("a run that waits for an approval shows its hold", func(f *fixture, start time.Time) {
		f.begin("s-1", "h", 0, session.State{WallClock: 60, Holds: 1})
		f.event("s-1", watchdog.EventHold, start, `"hold":"approval","cap_seconds":3600`)
	}, `<rect class="band hold"`, "for at most 1h", "Holds open")
}

func TestResumeCommand(t *testing.T) {
	for runID, want := range map[string]string{
		"s-1": "s-1", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm -rf /)": "'$(rm -rf /)'", "-rf": "-- -rf", "é": "'é'",
		"x\u202ey": `$'x\u202ey'`, "x\u00a0'y\\": `$'x\u00a0\'y\\'`, "\U000e0001x": `$'\U000e0001x'`, "tenant/7:a": "tenant/7:a",
		"~": "'~'", "a*": "'a*'",
	} {
		inBubble(t, func(f *fixture) {
			f.event(runID, watchdog.EventCancel, time.Now(), `"reason":"idle_exceeded"`)
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
		"a count that is low":    {0, session.State{Spent: []session.Spent{{Limit: "turns", Used: 8, Allowed: 10}}}, []string{`"limit low"`}},
		"a count above its most": {0, session.State{Spent: []session.Spent{{Limit: "turns", Used: 18, Allowed: 10}}}, []string{`"limit spent"`, "<b>0</b>"}},
		"a limit of none":        {0, session.State{Spent: []session.Spent{{Limit: "turns"}}}, []string{`"limit spent"`}},
		"large counts":           {0, session.State{Spent: []session.Spent{{Limit: "tokens", Used: 1, Allowed: 2_000_000}}}, []string{"<b>1.99M</b> of 2M"}},
		"a limit for ever":       {0, session.State{WallClock: 1e300}, []string{`class="left" width="100"`}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.begin("s-1", "h", bar.age, bar.state)
				text := f.shown("")
				for _, part := range bar.want {
					if absent, not := strings.CutPrefix(part, "!"); not {
						assert.NotContains(t, text, absent)
					} else {
						assert.Contains(t, text, part)
					}
				}
			})
		})
	}
	t.Run("of another program's state there is none", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			_, _, err := f.db.Attach(f.Context(), session.Session{RunID: "s-1", State: []byte(`{"wall_clock_seconds":"x"}`)})
			f.must(err)
			assert.Contains(t, f.shown(""), "no limit is known")
		})
	})
	t.Run("a run without a lease is silent since its last event", func(t *testing.T) {
		inBubble(t, func(f *fixture) {
			_, _, err := f.db.Attach(f.Context(), session.Session{RunID: "s-1", State: []byte(`{"idle_seconds":100}`)})
			f.must(err)
			time.Sleep(30 * time.Second)
			assert.Contains(t, f.shown(""), `class="left" width="70"`)
		})
	})
}
