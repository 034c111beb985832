package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
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
		b.event("s-1", event.Retry, start, 0, `"reason":"idle_exceeded","directive":"retry","measured_seconds":30,"configured_budget_seconds":30`)
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
	require.Contains(t, text, utc.In(zone).Format("15:04:05"), "the reader's zone")
	require.Regexp(t, ` (GMT\+\d|CES?T)$`, text, "which is named")
	require.Contains(t, eval[string](b, `document.querySelector("time").title`), utc.Format("2006-01-02 15:04:05 UTC"))
	require.Contains(t, eval[string](b, `document.querySelector("footer").innerText`), "Europe/Zurich")
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
			WallClock: 3600, Phase: short, Spent: []session.Spent{{Limit: "tool_calls", Tool: short, Currency: short, Used: 1, Allowed: 2}},
		})
		b.event(text, event.Cancel, time.Now(), 0, fmt.Sprintf(`"reason":%s,"note":%s,"hold":%s`, quoted(short), quoted(short), quoted(short)))
	}
	b.until(fmt.Sprintf("document.querySelectorAll('#runs > tr').length === %d", len(hostile)))
	check := func(at string) {
		require.False(t, eval[bool](b, `"owned" in window`), at)
		require.Zero(t, eval[int](b, `document.querySelectorAll("img, b b, main script, iframe").length`), at)
		require.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth - innerWidth`), 0, at)
	}
	for _, width := range []int64{1280, 320} {
		b.size(width, 900)
		check(fmt.Sprint("the list, by frames, at ", width))
	}
	b.show("")
	shown := eval[[]string](b, `[...document.querySelectorAll("#runs th > a > bdi")].map((e) => e.textContent)`)
	for _, text := range hostile {
		require.Contains(t, shown, text, "as text")
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
			require.True(t, strings.HasPrefix(url, b.url), url)
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

// begin begins a live run in the database, as the keeper of another host would.
func (b *tab) begin(runID, host string, age time.Duration, state session.State) session.Session {
	b.Helper()
	return b.beginIn("", runID, host, age, state)
}

// beginIn begins one inside of another.
func (b *tab) beginIn(parent, runID, host string, age time.Duration, state session.State) session.Session {
	b.Helper()
	id := "lease-" + host
	require.NoError(b, b.store.BeginLease(b.Context(), session.Lease{ID: id, Host: host, Promise: time.Minute, Beat: 1}))
	text, err := json.Marshal(state)
	require.NoError(b, err)
	_, s, err := b.store.Attach(b.Context(), session.Session{
		RunID: runID, Parent: parent, Host: host, StartedAt: time.Now().Add(-age), Lease: id, State: text, Activity: session.NoActivity,
	})
	require.NoError(b, err)
	time.Sleep(2 * time.Millisecond) // SQLite orders by milliseconds
	return s
}

// freshen has the keeper of a run say what is new of it.
func (b *tab) freshen(s session.Session, state session.State) {
	b.Helper()
	text, err := json.Marshal(state)
	require.NoError(b, err)
	_, err = b.store.Freshen(b.Context(), s.Lease, []session.Freshness{{
		RunID: s.RunID, Attempt: s.Attempt, Activity: time.Second, State: text,
	}})
	require.NoError(b, err)
}

func (b *tab) end(s session.Session, status session.Status, reason watchdog.StopReason) {
	b.Helper()
	_, err := b.store.End(b.Context(), []session.Ending{{RunID: s.RunID, Attempt: s.Attempt, Status: status, Reason: reason}})
	require.NoError(b, err)
}

// event appends an event that happened some time ago, and returns its ID.
func (b *tab) event(runID, kind string, start time.Time, ago time.Duration, fields string) (id string) {
	b.Helper()
	id = fmt.Sprintf("%s-%d", kind[len(kind)-3:], time.Now().UnixNano())
	payload := fmt.Sprintf(`{"session_started_at":%q`, start.UTC().Format("2006-01-02T15:04:05.000000Z"))
	if fields != "" {
		payload += "," + fields
	}
	require.NoError(b, b.store.Append(b.Context(), watchdog.Event{
		ID: id, AggregateType: event.AggregateType,
		AggregateID: runID, Type: kind, Payload: json.RawMessage(payload + "}"), Timestamp: time.Now().Add(-ago),
	}))
	return id
}

// fleet fills the database with runs of all kinds.
func (b *tab) fleet() {
	b.Helper()
	m := time.Minute
	b.end(b.begin("docs-7fd2", "worker-3", 62*m, session.State{}), session.Finished, "complete")
	b.end(b.begin("nightly-evals", "worker-2", 95*m, session.State{}), session.Interrupted, "")
	b.end(b.begin("crawl-0142", "worker-3", 40*m, session.State{}), session.Cancelled, watchdog.SessionIdleTimeout)
	b.end(b.begin("research-0c1e", "worker-2", 30*m, session.State{}), session.Cancelled, watchdog.CostExceeded)
	b.cancelledRun()
	b.begin("release-notes", "worker-1", 35*time.Second, session.State{WallClock: 3600, Idle: 300, Phase: "reading the log"})
	b.begin("triage-5520", "worker-1", 231*m, session.State{
		WallClock: 14400, Reserve: 900, Idle: 600, Warned: 1, WrappedUp: true, Phase: "writing the summary",
		Spent: []session.Spent{{Limit: "tokens", Used: 812_400, Allowed: 1_000_000, Reserve: 50_000}},
	})
	b.begin("migrate-billing", "worker-2", 98*m, session.State{
		WallClock: 14400, Reserve: 600, Idle: 300, Holds: 1, Phase: "waiting for an approval",
		Spent: []session.Spent{{Limit: "cost", Currency: "EUR", Used: 3_840_000, Allowed: 10_000_000}},
	})
	b.begin("fix-4821", "worker-1", 41*m, session.State{
		WallClock: 14400, Reserve: 600, Safety: 28800, Idle: 300, Phase: "tool: go test ./...",
		Spent: []session.Spent{
			{Limit: "tokens", Used: 241_250, Admitted: 2000, Allowed: 2_000_000, Reserve: 100_000},
			{Limit: "cost", Currency: "EUR", Used: 5_320_000, Allowed: 6_400_000},
		},
	})
	b.beginIn("fix-4821", "fix-4821-review", "worker-1", 3*m, session.State{WallClock: 900, Idle: 300, Phase: "reading the diff"})
}

// cancelledRun has events of many kinds and layers.
func (b *tab) cancelledRun() {
	b.Helper()
	const run = "refactor-91ab"
	m := time.Minute
	s := b.begin(run, "worker-2", 267*m, session.State{WallClock: 14400, Spent: []session.Spent{
		{Limit: "cost", Currency: "EUR", Used: 5_870_000, Allowed: 6_400_000},
	}})
	start := s.StartedAt
	opening := b.event(run, event.Hold, start, 220*m, `"hold":"approval","cap_seconds":3600,"opened_seconds":2820`)
	b.event(run, event.Release, start, 195*m, `"hold":"approval","released_seconds":4320,"opening":"`+opening+`"`)
	b.event(run, event.Retry, start, 140*m,
		`"reason":"idle_exceeded","elapsed_seconds":300,"configured_budget_seconds":300,"directive":"retry","attempt":1,"note":"tool: browser"`)
	b.event(run, event.Interrupt, start, 133*m, `"signal":"SIGTERM"`)
	b.event(run, event.Extend, start, 120*m, `"extension_seconds":1800,"configured_budget_seconds":14400,"elapsed_seconds":7320`)
	b.event(run, event.Warning, start, 50*m,
		`"reason":"wall_clock","elapsed_seconds":11520,"configured_budget_seconds":14400,"fraction":0.8,"remaining_seconds":2880`)
	b.event(run, event.Warning, start, 96*m, `"reason":"cost","fraction":0.8,`+
		`"spend":{"limit":"cost","currency":"EUR","used":5120000,"allowed":6400000}`)
	b.event(run, event.WrapUp, start, 12*m,
		`"reason":"wall_clock","elapsed_seconds":13800,"configured_budget_seconds":14400,"remaining_seconds":600,"note":"tool: go vet"`)
	b.event(run, event.Cancel, start, 2*m,
		`"reason":"wall_clock_exceeded","elapsed_seconds":14400,"configured_budget_seconds":14400,"note":"tool: go test ./...","paused_seconds":1500`)
	for i, name := range []string{"plan", "edit", "test"} {
		begun := start.Add(time.Duration(i*70) * m)
		end, fields := event.Complete, `"reason":"complete","elapsed_seconds":3600,`
		if name == "test" {
			end, fields = event.Cancel, `"reason":"no_output","elapsed_seconds":300,"configured_budget_seconds":300,`
		}
		b.event(run+"/"+name, end, begun, time.Since(begun.Add(65*m)), fields+fmt.Sprintf(`"parent":%q,"window":"w%d"`, run, i))
	}
	b.end(s, session.Cancelled, watchdog.WallClockExceeded)
}

// A passes is a sweeper that has had passes.
type passes struct{ stats sweep.Stats }

func (p passes) Stats() sweep.Stats { return p.stats }

// sweeper gives a page a sweeper that has had passes.
func sweeper(cfg *page.Config) {
	log := &page.PassLog{}
	for i := range 6 {
		log.Add(sweep.Pass{
			StartedAt: time.Now().Add(time.Duration(5*i-31) * time.Minute), Duration: time.Duration(8+3*i) * time.Millisecond,
			Tally: sweep.Tally{Checked: i, Found: i / 2, Cancelled: i / 3, Spared: i % 2},
		})
	}
	log.Add(sweep.Pass{
		StartedAt: time.Now().Add(-time.Minute), Duration: 21 * time.Millisecond, Tally: sweep.Tally{Checked: 4, Cancelled: 1},
		Cases: []sweep.Case{
			{Session: session.Session{RunID: "crawl-0142", Host: "worker-3"}, Handling: sweep.CaseCancelled, Silence: 11 * time.Minute, Threshold: 10 * time.Minute},
			{Session: session.Session{RunID: "fix-4821", Host: "worker-1"}, Handling: sweep.CaseSpared, Silence: 10 * time.Minute, Threshold: 10 * time.Minute},
		},
	})
	cfg.PassLog = log
	cfg.Sweeper = passes{sweep.Stats{
		Enabled: true, Running: true, Interval: 5 * time.Minute, Passes: 288, Next: time.Now().Add(4 * time.Minute),
		Tally: sweep.Tally{Checked: 412, Found: 19, Cancelled: 11, Spared: 6, Warned: 14, Deferred: 2, LeasesExpired: 1},
	}}
}

// cancelElsewhere has another process cancel a run, as a sweeper does: the event and the row in one transaction.
func (b *tab) cancelElsewhere(runID string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0], b.path)
	cmd.Env = append(cmd.Environ(), childVariable+"="+runID)
	text, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", text)
}

// cancelHere cancels a run, and returns the exit status.
func cancelHere(runID, path string) int {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	err = cancelIn(ctx, store, runID)
	if err = errors.Join(err, store.Close()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func cancelIn(ctx context.Context, store *sqlite.Store, runID string) error {
	s, err := store.Session(ctx, runID)
	if err != nil {
		return err
	}
	now := time.Now()
	events := sweep.StalledRun{
		RunID: runID, StartedAt: s.StartedAt, LastEventAt: s.LastEventAt, DecidedAt: now,
		Silence: 11 * time.Minute, Threshold: 10 * time.Minute,
	}.CancelEvents()
	did, err := store.Cancel(ctx, s, session.CancelRequest{By: "test", Reason: watchdog.SessionIdleTimeout, Events: events})
	if err == nil && did != session.Done {
		err = fmt.Errorf("the cancel of %s is %s", runID, did)
	}
	return err
}
