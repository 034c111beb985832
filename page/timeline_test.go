package page_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

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
			{Limit: "requests", Scope: "tenant", Used: 4, Allowed: 5},
		}})
		var openings []string
		for i := range 6 {
			openings = append(openings, f.event("s-1", watchdog.EventHold, start, fmt.Sprintf(`"hold":"h%d","cap_seconds":600`, i)))
		}
		time.Sleep(15 * time.Minute)
		f.event("s-1", watchdog.EventRelease, start, `"hold":"h0","opening":"`+openings[0]+`"`)
		f.event("s-1", watchdog.EventWarning, start,
			`"reason":"cost","fraction":0.5,"spend":{"limit":"cost","currency":"EUR","used":5000000,"allowed":10000000}`)
		f.event("s-1", watchdog.EventWarning, start,
			`"reason":"tokens","fraction":0.1,"spend":{"limit":"tokens","used":10,"allowed":100}`)
		f.event("s-1", watchdog.EventInterrupt, start, `"signal":"SIGTERM"`)
		time.Sleep(15 * time.Minute)
		f.event("s-1", watchdog.EventRetry, start,
			`"reason":"idle_exceeded","directive":"retry","measured_seconds":300,"configured_budget_seconds":300`)
		time.Sleep(30 * time.Minute)
		f.event("s-1", watchdog.EventWrapUp, start,
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
		require.Len(t, lines, 2, "of turns nothing is used, and of requests nothing is known but how many are left now")
		assert.Regexp(t, `^M0 100L0 100L25\.\d+ 50L100 10V100$`, lines[0][1])
	})
}

// TestLongTimeline protects readers of a run that opened one hold again and again: the picture has the last of them.
func TestLongTimeline(t *testing.T) {
	inBubble(t, func(f *fixture) {
		start := time.Now()
		for range 700 {
			f.event("s-1", watchdog.EventHold, start, `"hold":"approval","cap_seconds":1`)
		}
		text := f.shown(runQuery("s-1"))
		assert.Equal(t, 500, strings.Count(text, `<rect class="band hold"`))
		assert.Equal(t, 1, strings.Count(text, `<text class="lane"`))
	})
}
