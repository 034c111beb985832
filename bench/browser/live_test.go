package browser_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
)

const isLive = `document.querySelector("#link").textContent === "live"`

// live shows a page that is told of news, and marks it, so that a reload would be noticed.
func (b *tab) live(query string) {
	b.Helper()
	b.show(query)
	b.until(isLive)
	eval[bool](b, "window.marked = true")
}

func (b *tab) requireNoReload() {
	b.Helper()
	require.True(b, eval[bool](b, "window.marked === true"), "the page was loaded again")
}

func TestLive(t *testing.T) {
	t.Run("a run appears, its bar moves, and it turns when another process cancels it", func(t *testing.T) {
		b := open(t)
		b.live("")
		b.begin("s-1", "worker-1", 10*time.Second, session.State{WallClock: 60, Reserve: 10, Phase: "thinking"})
		b.until(row("s-1"))
		width := fmt.Sprintf("Number(%s.querySelector('.bar .left').getAttribute('width'))", row("s-1"))
		first := eval[float64](b, width)
		require.InDelta(t, 83, first, 15)
		b.until(fmt.Sprintf("%s < %v", width, first-3))
		b.shot("one_run")
		b.cancelElsewhere("s-1")
		b.until(row("s-1") + ".classList.contains('cancelled')")
		require.Contains(t, eval[string](b, row("s-1")+".innerText"), "watchdog_idle_timeout")
		b.until(`document.querySelector("#news").textContent.includes("s-1")`)
		b.requireNoReload()
		b.shot("one_run_cancelled")
	})
	t.Run("a row says the new phase and the end, and a count follows", func(t *testing.T) {
		b := open(t)
		s := b.begin("s-1", "worker-1", 0, session.State{WallClock: 3600, Phase: "reading"})
		b.live("")
		b.freshen(s, session.State{WallClock: 3600, Phase: "writing"})
		b.until(row("s-1") + `.innerText.includes("writing")`)
		b.end(s, session.Finished, "complete")
		b.until(row("s-1") + `.innerText.includes("complete")`)
		b.until(`document.querySelector("#count-running").textContent === "0"`)
		require.Equal(t, "1", eval[string](b, `document.querySelector("#count-complete").textContent`))
		b.requireNoReload()
	})
	t.Run("the bar of a counted limit moves, and has its marks", func(t *testing.T) {
		b := open(t)
		tokens := session.Spent{Limit: "tokens", Used: 200, Allowed: 1000, Reserve: 100, WarnAt: []float64{0.5, 0.75}}
		s := b.begin("s-1", "worker-1", 0, session.State{Spent: []session.Spent{tokens}})
		for i, at := range []struct{ query, bar string }{
			{"", row("s-1") + ".querySelector('.limit')"}, {"?run=s-1", "document.querySelector('.limits .limit')"},
		} {
			b.live(at.query)
			width := fmt.Sprintf("Number(%s.querySelector('.left').getAttribute('width'))", at.bar)
			left := 80 - 40*float64(i)
			require.InDelta(t, left, eval[float64](b, width), 0)
			for _, used := range []int64{500, 600, 920}[i : 2+i] {
				tokens.Used = used
				b.freshen(s, session.State{Spent: []session.Spent{tokens}})
				b.until(fmt.Sprintf("%s === %v", width, 100-float64(used)/10))
			}
			require.Equal(t, []string{"50", "25"}, eval[[]string](b, fmt.Sprintf(
				"[...%s.querySelectorAll('line.warning')].map((mark) => mark.getAttribute('x1'))", at.bar)))
			require.Equal(t, "10", eval[string](b, at.bar+".querySelector('rect.reserve').getAttribute('width')"))
			require.Equal(t, []string{"limit warned", "limit reserve"}[i], eval[string](b, at.bar+".className"))
			seen := fmt.Sprintf("[...%s.querySelectorAll('line.warning, rect.reserve')].every((mark) => "+
				"mark.getBoundingClientRect().height > 0)", at.bar)
			require.True(t, eval[bool](b, seen), "the marks can be seen")
			fill := func(part string) string {
				return eval[string](b, fmt.Sprintf("getComputedStyle(%s.querySelector('%s')).fill", at.bar, part))
			}
			require.NotEqual(t, fill(".left"), fill(".reserve"), "whatever the bar's colour is")
			b.requireNoReload()
		}
	})
	t.Run("the page of a run tells of its events and its end", func(t *testing.T) {
		b := open(t)
		start := b.begin("s-1", "worker-1", time.Minute, session.State{WallClock: 3600}).StartedAt
		b.live("?run=s-1")
		b.event("s-1", watchdog.EventRetry, start, 0, `"reason":"idle_exceeded","directive":"retry","measured_seconds":30,"configured_budget_seconds":30`)
		b.until(`document.querySelector(".events")?.innerText.includes("asked for RETRY")`)
		b.cancelElsewhere("s-1")
		b.until(`document.querySelector(".next")?.innerText.includes("watchdog resume s-1")`)
		b.requireNoReload()
	})
	t.Run("only what the filter wants appears", func(t *testing.T) {
		b := open(t)
		b.show("?host=worker-2")
		b.until(isLive)
		b.begin("s-1", "worker-1", 0, session.State{})
		b.begin("s-2", "worker-2", 0, session.State{})
		b.until(row("s-2"))
		require.False(t, eval[bool](b, "Boolean("+row("s-1")+")"))
	})
	t.Run("a filter takes effect at once, and is in the address", func(t *testing.T) {
		b := open(t)
		b.fleet()
		b.live("?host=")
		shown := func(n int) string { return fmt.Sprintf("document.querySelectorAll('#runs > tr').length === %d", n) }
		b.do(chromedp.Click("input[value=stopped]"))
		b.until(shown(3))
		require.Equal(t, "?state=stopped", eval[string](b, "location.search"))
		require.Equal(t, "stopped", eval[string](b, "document.activeElement.value"), "the focus stays")
		b.do(chromedp.Click("input[value=interrupted]"))
		b.until(shown(4))
		b.do(chromedp.SendKeys("input[name=id]", "E"))
		b.until(shown(3))
		b.until(`document.querySelector("#news").textContent === "3 runs on this page"`)
		require.LessOrEqual(t, eval[float64](b, `document.querySelector("#news").offsetWidth`), 1.0, "for screen readers")
		require.Equal(t, "2", eval[string](b, `document.querySelector("#count-stopped").textContent`))
		require.Equal(t, "4", eval[string](b, `document.querySelector("#count-running").textContent`), "also of what is not shown")
		b.requireNoReload()
		b.do(chromedp.Reload())
		b.until(shown(3))
		require.True(t, eval[bool](b, `document.querySelector("input[value=stopped]").checked`))
		b.do(chromedp.Click(".filter > a"))
		b.until(shown(10))
	})
	t.Run("a run inside another appears under it", func(t *testing.T) {
		b := open(t)
		b.begin("s-1", "worker-1", 0, session.State{})
		b.begin("s-2", "worker-1", 0, session.State{})
		b.live("")
		s := b.beginIn("s-1", "s-3", "worker-1", 0, session.State{})
		b.until(row("s-3"))
		b.freshen(s, session.State{Phase: "reading"})
		b.until(row("s-3") + `.innerText.includes("reading")`)
		const order = `[...document.querySelectorAll("#runs > tr")].map((tr) => (tr.dataset.depth || "") + tr.dataset.run)`
		require.Equal(t, []string{"s-2", "s-1", "1s-3"}, eval[[]string](b, order))
		b.requireNoReload()
		b.show("")
		require.Equal(t, []string{"s-2", "s-1", "1s-3"}, eval[[]string](b, order))
	})
	t.Run("a server that was away is found again, with what happened meanwhile", func(t *testing.T) {
		b := open(t)
		s := b.begin("s-1", "worker-1", 0, session.State{})
		b.live("")
		eval[bool](b, `Object.defineProperty(document, "hidden", {value: true, configurable: true}) && document.dispatchEvent(new Event("visibilitychange"))`)
		b.end(s, session.Finished, "complete")
		b.begin("s-2", "worker-1", 0, session.State{})
		time.Sleep(time.Second)
		require.False(t, eval[bool](b, "Boolean("+row("s-2")+")"), "a hidden page has no stream")
		eval[bool](b, `Object.defineProperty(document, "hidden", {value: false, configurable: true}) && document.dispatchEvent(new Event("visibilitychange"))`)
		b.until(row("s-2"))
		b.until(row("s-1") + `.innerText.includes("complete")`)
		b.requireNoReload()
	})
	t.Run("a page without updates says so", func(t *testing.T) {
		b := open(t)
		require.NoError(t, b.page.Close())
		b.show("")
		b.until(`document.querySelector("#link").textContent.startsWith("updates every")`)
	})
}

func TestTimes(t *testing.T) {
	b := open(t)
	b.begin("s-1", "worker-1", 0, session.State{})
	b.show("")
	b.until(`document.querySelector("time").dataset.here !== undefined`)
	at := eval[string](b, `document.querySelector("time").dateTime`)
	utc, err := time.Parse(time.RFC3339, at)
	require.NoError(t, err)
	zone, err := time.LoadLocation("Europe/Zurich")
	require.NoError(t, err)
	text := eval[string](b, `document.querySelector("time").textContent`)
	assert.Contains(t, text, utc.In(zone).Format("15:04:05"), "the reader's zone")
	assert.Regexp(t, ` (GMT\+\d|CES?T)$`, text, "which is named")
	assert.Contains(t, eval[string](b, `document.querySelector("time").title`), utc.Format("2006-01-02 15:04:05 UTC"))
	assert.Contains(t, eval[string](b, `document.querySelector("footer").innerText`), "Europe/Zurich")
}

func TestWithoutScript(t *testing.T) {
	b := open(t, sweeper)
	b.withoutScript()
	b.fleet()
	b.show("")
	text := func() string { return eval[string](b, "document.body.innerText") }
	require.Contains(t, text(), "fix-4821")
	require.Contains(t, text(), "UTC")
	require.Equal(t, "10", eval[string](b, `document.querySelector("meta[http-equiv=refresh]").content`))
	b.shot("without_script")
	b.do(chromedp.Click("input[value=stopped]"), chromedp.Click("form button"))
	b.until(`location.search.includes("state=stopped")`)
	require.NotContains(t, text(), "fix-4821")
	b.do(chromedp.Click(`a[href="?run=refactor-91ab"]`))
	b.until(`document.querySelector("h1.run")`)
	require.Contains(t, text(), "watchdog resume refactor-91ab")
	b.do(chromedp.Click(`nav a[href="?view=sweeper"]`))
	b.until(`document.querySelector("#passes")`)
	require.Contains(t, text(), "crawl-0142")
}

// hostile are texts that others choose.
var hostile = []string{
	`<script>window.owned = 1</script>`, `"><img src=x onerror="window.owned=1">`, `' onmouseover='window.owned=1`,
	`javascript:window.owned=1`, `{{.}}`, `${window.owned=1}`, `</script></title></svg><b>bold</b>`, "\u202egnp.exe", `../../?x=1&y=2#z`,
	strings.Repeat("界", 250), strings.Repeat("W", 250), "a\u0301\u0301\u0301", "&lt;b&gt;", "-rf", "\u2028\u2029x",
	"__proto__", "constructor", "\u200f\u202bhere",
}

func TestHostileTexts(t *testing.T) {
	b := open(t)
	b.show("")
	b.until(isLive)
	for _, text := range hostile {
		short := string([]rune(text)[:min(len([]rune(text)), 190)])
		b.begin(text, short, 0, session.State{
			WallClock: 3600, Phase: short, Spent: []session.Spent{{Limit: "tool_calls", Tool: short, Scope: short, Currency: short, Used: 1, Allowed: 2}},
		})
		b.event(text, watchdog.EventCancel, time.Now(), 0, fmt.Sprintf(`"reason":%s,"note":%s,"hold":%s`, quoted(short), quoted(short), quoted(short)))
	}
	b.until(fmt.Sprintf("document.querySelectorAll('#runs > tr').length === %d", len(hostile)))
	check := func(at string) {
		assert.False(t, eval[bool](b, `"owned" in window`), at)
		assert.Zero(t, eval[int](b, `document.querySelectorAll("img, b b, main script, iframe").length`), at)
		assert.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth - innerWidth`), 0, at)
	}
	for _, width := range []int64{1280, 320} {
		b.size(width, 900)
		check(fmt.Sprint("the list, by frames, at ", width))
	}
	b.show("")
	shown := eval[[]string](b, `[...document.querySelectorAll("#runs th > a > bdi")].map((e) => e.textContent)`)
	for _, text := range hostile {
		assert.Contains(t, shown, text, "as text")
	}
	check("the list")
	b.shot("hostile_narrow")
	links := eval[[]string](b, `[...document.querySelectorAll("#runs th > a")].map((a) => a.getAttribute("href"))`)
	for i, link := range links {
		b.show(link)
		require.Equal(t, shown[i], eval[string](b, `document.querySelector("h1.run").textContent`))
		check(link)
	}
	b.size(1280, 900)
	b.show("")
	b.shot("hostile")
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// TestNoOtherServer has the browser report whatever the policy forbids, and all that it asked for.
func TestNoOtherServer(t *testing.T) {
	b := open(t, sweeper)
	b.fleet()
	for _, query := range []string{"", "?run=refactor-91ab", "?view=sweeper"} {
		b.show(query)
		b.until(`document.readyState === "complete"`)
		asked := eval[[]string](b, `performance.getEntriesByType("resource").map((e) => e.name)`)
		require.NotEmpty(t, asked)
		for _, url := range asked {
			assert.True(t, strings.HasPrefix(url, b.url), url)
		}
	}
}

func TestFewRows(t *testing.T) {
	b := open(t, func(cfg *page.Config) { cfg.Rows = 2 })
	b.fleet()
	b.show("")
	b.until(isLive)
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll("#runs > tr").length`))
	b.do(chromedp.Click("a[rel=next]"))
	b.until(`location.search.includes("page=2")`)
	require.Contains(t, eval[string](b, "document.body.innerText"), "page 2 of 5")
	b.size(1280, 400)
	b.shot("pages")
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll("#runs > tr").length`))
}
