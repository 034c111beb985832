package browser_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// The pages that are looked at.
var views = map[string]string{
	"list": "", "run": "?run=refactor-91ab", "live_run": "?run=fix-4821", "sweeper": "?view=sweeper", "error": "?run=none",
}

func TestLook(t *testing.T) {
	b := open(t, sweeper)
	b.fleet()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for name, query := range views {
			b.size(1280, 800)
			b.show(query)
			b.until(`document.readyState === "complete"`)
			b.shot(name + "_" + scheme)
			b.size(390, 844)
			b.until(`innerWidth === 390`)
			b.shot(name + "_" + scheme + "_390")
			b.size(1280, 800)
			b.until(`innerWidth === 1280`)
			require.Empty(t, eval[[]string](b, lowContrast), "%s, %s: texts with a contrast below 4.5", name, scheme)
			b.size(320, 640)
			b.until(`innerWidth === 320`)
			require.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth`), 320, "%s scrolls sideways", name)
			require.Empty(t, eval[[]string](b, sticksOut), "%s at 320 pixels: these stick out", name)
		}
	}
}

// sticksOut are the elements that are not wholly in the window, but for those that only screen readers get.
const sticksOut = `[...document.querySelectorAll("main *, header *")].filter((e) => {
	if (e.closest(".hidden, thead, svg, option, select")) return false;
	const box = e.getBoundingClientRect();
	return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map((e) => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40))`

// lowContrast are the texts whose contrast with what is behind them is below 4.5, by the computed styles.
const lowContrast = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
	const rgba = (color) => {
		canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = "rgba(0,0,0,0)"; canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
		return canvas.getImageData(0, 0, 1, 1).data;
	};
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const color = rgba(getComputedStyle(e).backgroundColor);
			if (color[3] === 255) return color;
		}
		return [255, 255, 255, 255];
	};
	const luminance = (c) => [0, 1, 2].map((i) => c[i] / 255)
		.map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const low = [];
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest("option")) continue;
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
		const style = getComputedStyle(e), svg = e instanceof SVGElement;
		if (svg && !(e instanceof SVGTextContentElement)) continue;
		const text = luminance(rgba(svg ? style.fill : style.color)), back = luminance(behind(e));
		const contrast = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
		if (contrast < 4.5) low.push(contrast.toFixed(2) + " " + e.tagName + "." + e.className + " " + e.textContent.slice(0, 40));
	}
	return low;
})()`

// TestContrastIsMeasured shows that lowContrast finds what it is for.
func TestContrastIsMeasured(t *testing.T) {
	b := open(t)
	b.show("")
	eval[bool](b, `(() => { const h = document.querySelector("h1"); h.className = "sub"; h.setAttribute("hidden", "");
		const p = document.createElement("p"); p.textContent = "pale"; p.style.color = "#999"; document.body.append(p);
		document.querySelector("main").append(p); return true; })()`)
	low := eval[[]string](b, lowContrast)
	require.Len(t, low, 1)
	require.Contains(t, low[0], "pale")
}

func TestScreenReader(t *testing.T) {
	b := open(t, sweeper)
	b.fleet()
	b.show("")
	b.until(isLive)
	heard := b.readOut()
	count := func(role, name string) (n int) {
		for _, s := range heard {
			if s.role == role && (name == "" || s.name == name) {
				n++
			}
		}
		return n
	}
	for _, landmark := range []struct{ role, name string }{
		{"banner", ""}, {"main", ""}, {"contentinfo", ""}, {"navigation", "Pages"}, {"search", "Filter runs"},
		{"heading", "Runs"}, {"status", ""}, {"group", "States"}, {"searchbox", "ID"}, {"textbox", "Host"},
		{"combobox", "Reason"}, {"combobox", "Order"}, {"checkbox", "running 5"}, {"checkbox", "stopped 3"},
		{"button", "Show"}, {"table", "Runs, the live ones first, then those that have ended"},
	} {
		require.Equal(t, 1, count(landmark.role, landmark.name), landmark)
	}
	require.Equal(t, 5, count("columnheader", ""))
	require.Equal(t, 10, count("rowheader", ""))
	require.Equal(t, 4, count("meter", "wall clock left"))
	require.Equal(t, 1, count("meter", "cost left"), "of each run the limit nearest its end")
	meters := slices.DeleteFunc(slices.Clone(heard), func(s said) bool { return s.role != "meter" })
	require.Len(t, meters, 5)
	for _, m := range meters {
		require.NotEmpty(t, m.name)
		require.NotEmpty(t, m.value)
	}
	for _, text := range eval[[]string](b, `[...document.querySelectorAll("[role=meter]")].map((e) => e.getAttribute("aria-valuetext"))`) {
		require.Regexp(t, " left of |^(active|held), at most ", text)
	}
	for _, s := range heard {
		if slices.Contains([]string{"link", "button", "textbox", "combobox", "heading", "table", "meter", "image"}, s.role) {
			require.NotEmpty(t, s.name, "an element without a name: %v", s)
		}
	}
	b.size(320, 640)
	heard = b.readOut()
	require.Equal(t, 10, count("rowheader", ""), "it stays a table when it is narrow")
	b.show("?run=refactor-91ab")
	heard = b.readOut()
	images := slices.DeleteFunc(slices.Clone(heard), func(s said) bool { return s.role != "image" })
	require.Len(t, images, 1)
	require.True(t, strings.HasPrefix(images[0].name, "Timeline of "), images)
	for _, heading := range []string{"refactor-91ab", "Timeline", "Layers", "Events"} {
		require.Equal(t, 1, count("heading", heading), heading)
	}
}

func TestKeyboard(t *testing.T) {
	b := open(t)
	b.fleet()
	b.show("")
	b.until(isLive)
	focused := `document.activeElement.textContent.trim() || document.activeElement.name`
	var order []string
	for range 19 {
		b.do(chromedp.KeyEvent("\t"))
		order = append(order, eval[string](b, focused))
		require.NotEqual(t, "none", eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`),
			"one sees where one is: %s", order)
	}
	require.Equal(t, "Skip to the content", order[0])
	require.Contains(t, order, "Skip to the runs")
	require.Contains(t, order, "host")
	require.Contains(t, order, "Show")
	require.Contains(t, order, "fix-4821")
	b.do(chromedp.Focus(`a[href="?run=fix-4821"]`))
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.querySelector("h1.run")?.textContent === "fix-4821"`)
}

// size sets the size of the window.
func (b *tab) size(width, height int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// scheme has the page be light or dark.
func (b *tab) scheme(name string) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	require.NoError(b, err)
}

// withoutScript turns scripts off.
func (b *tab) withoutScript() {
	b.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(b, err)
}

// A said is what a screen reader is told of an element.
type said struct{ role, name, value string }

// readOut is what a screen reader is told of the page.
func (b *tab) readOut() (all []said) {
	b.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(b, err)
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return trimmed(string(v.Value))
	}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		all = append(all, said{text(n.Role), text(n.Name), text(n.Value)})
	}
	return all
}

// trimmed is a JSON string without its quotes.
func trimmed(text string) string {
	if len(text) >= 2 && text[0] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}

const (
	liveRuns = 1000
	// serverVariable has the test binary serve the page with so many rows, in a process whose time can be measured.
	serverVariable = "WATCHDOG_TEST_SERVE"
)

// TestFigures measures the page with 1,000 live runs, for bench/README.md:
//
//	cd bench && GOWORK=off go test -run TestFigures -figures -v ./browser
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("skipped: it measures for a minute; use -figures")
	}
	b := open(t)
	for i := range liveRuns {
		b.begin(fmt.Sprintf("run-%04d", i), fmt.Sprintf("worker-%d", i%10), time.Duration(i)*10*time.Second, session.State{
			WallClock: 14400, Reserve: 600, Idle: 300, Phase: "tool: go test ./...",
			Spent: []session.Spent{{Limit: "tokens", Used: int64(i) * 1000, Allowed: 2_000_000}},
		})
	}
	for _, rows := range []int{page.DefaultRows, liveRuns} {
		server := b.serve(rows)
		b.url = server.url
		t.Logf("%d rows on a page: first paint after %v, the server answers within %v", rows, b.firstPaint(), b.serverAnswer())
		t.Logf("%d rows on a page: a stop is shown after %v", rows, b.stopsShown())
		server.stop()
	}
	server := b.serve(page.DefaultRows)
	defer server.stop()
	b.do(chromedp.Navigate("about:blank"))
	frames, leave := b.readers(server.url, 10)
	defer leave()
	time.Sleep(2 * time.Second)
	t.Logf("ten readers, nothing new: %.2f %% of a core", server.load(b.T, 20*time.Second))
	before := frames.Load()
	changing, stop := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.change(changing) }()
	t.Logf("ten readers, 100 rows change each second: %.2f %% of a core, %d events to all",
		server.load(b.T, 20*time.Second), frames.Load()-before)
	stop()
	<-done
}

// firstPaint is the median of when something was painted first.
func (b *tab) firstPaint() time.Duration {
	return b.median(7, func() time.Duration {
		b.show("")
		const painted = `performance.getEntriesByName("first-contentful-paint")[0]?.startTime`
		b.until(painted)
		return time.Duration(eval[float64](b, painted) * float64(time.Millisecond))
	})
}

// serverAnswer is how long the server took for the whole page.
func (b *tab) serverAnswer() time.Duration {
	return b.median(7, func() time.Duration {
		began := time.Now()
		response, err := http.Get(b.url) //nolint:gosec // it is this test's own
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
		return time.Since(began)
	})
}

// stopsShown is how long after its event stops of runs are shown: the median and the longest of ten.
func (b *tab) stopsShown() string {
	b.show("")
	b.until(isLive)
	var all []time.Duration
	for i := range 10 {
		runID := eval[string](b, `[...document.querySelectorAll("#runs > tr[data-live]")][3].dataset.run`)
		time.Sleep(time.Duration(37*i) * time.Millisecond) // at any moment between two looks
		eval[bool](b, `window.watching?.disconnect(), window.shownAt = 0, window.watching = new MutationObserver(() => { const tr = `+row(runID)+
			`; if (tr && !("live" in tr.dataset)) window.shownAt ||= Date.now(); }), window.watching.observe(document.body, {childList: true, subtree: true}), true`)
		require.NoError(b, cancelIn(b.Context(), b.store, runID))
		stored := time.Now()
		b.until("window.shownAt")
		all = append(all, time.UnixMilli(int64(eval[float64](b, "window.shownAt"))).Sub(stored))
	}
	slices.Sort(all)
	return fmt.Sprintf("%v, at most %v", all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
}

func (b *tab) median(n int, measure func() time.Duration) time.Duration {
	var all []time.Duration
	for range n {
		all = append(all, measure())
	}
	slices.Sort(all)
	return all[n/2].Round(time.Millisecond)
}

// readers connects so many readers, and counts the events that they get.
func (b *tab) readers(url string, n int) (*atomic.Int64, func()) {
	b.Helper()
	frames := &atomic.Int64{}
	ctx, cancel := context.WithCancel(b.Context())
	for range n {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?live", nil)
		require.NoError(b, err)
		response, err := http.DefaultClient.Do(request) //nolint:bodyclose // the goroutine closes it
		require.NoError(b, err)
		go func() {
			defer response.Body.Close()
			lines := bufio.NewScanner(response.Body)
			lines.Buffer(nil, 16<<20)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") {
					frames.Add(1)
				}
			}
		}()
	}
	return frames, cancel
}

// change writes the rows of 100 runs each second, as keepers do.
func (b *tab) change(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		var fresh [10][]session.Freshness
		for i := range 100 {
			run := (n*100 + i) % liveRuns
			fresh[run%10] = append(fresh[run%10], session.Freshness{
				RunID: fmt.Sprintf("run-%04d", run), Attempt: 1, Activity: time.Duration(n+1) * time.Second,
				State: fmt.Appendf(nil, `{"wall_clock_seconds":14400,"idle_seconds":300,"phase":"step %d"}`, n),
			})
		}
		for host, of := range fresh {
			_, _ = b.store.Freshen(ctx, fmt.Sprintf("lease-worker-%d", host), of) // ends with the context
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// A server is the page in a process of its own.
type server struct {
	url  string
	cmd  *exec.Cmd
	stop func()
}

func (b *tab) serve(rows int) *server {
	b.Helper()
	cmd := exec.Command(os.Args[0], b.path)
	cmd.Env = append(cmd.Environ(), fmt.Sprint(serverVariable, "=", rows))
	in, err := cmd.StdinPipe() // its end ends the server, whatever happens here
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	s := &server{cmd: cmd, stop: func() { _ = in.Close(); _ = cmd.Wait() }}
	_, err = fmt.Fscanln(out, &s.url)
	require.NoError(b, err)
	return s
}

// load is how much of a core the server uses, in percent.
func (s *server) load(t *testing.T, during time.Duration) float64 {
	t.Helper()
	before := s.used(t)
	time.Sleep(during)
	return 100 * float64(s.used(t)-before) / float64(during)
}

// used is the processor time of the server so far.
func (s *server) used(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+2:]))
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	require.NoError(t, err)
	return time.Duration(user+system) * time.Second / 100
}

// serveHere serves the page until standard input ends, and returns the exit status.
func serveHere(rows, path string) int {
	store, err := sqlite.Open(context.Background(), path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cfg := page.Config{Sessions: store, Events: store}
	_, _ = fmt.Sscan(rows, &cfg.Rows)
	p, err := page.New(cfg)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	server := httptest.NewServer(p)
	fmt.Println(server.URL + "/")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = p.Close()
	server.Close()
	_ = store.Close()
	return 0
}

// allRuns is how many runs BenchmarkPages has, one in five of them live.
const allRuns = 5000

// BenchmarkPages measures pages of a list of 5,000 runs in SQLite, for bench/README.md:
//
//	cd bench && GOWORK=off go test -run none -bench Pages ./browser
func BenchmarkPages(b *testing.B) {
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "watchdog.db"))
	require.NoError(b, err)
	defer func() { require.NoError(b, store.Close()) }()
	fill(b, store)
	p, err := page.New(page.Config{Sessions: store, Events: store, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	for name, query := range map[string]string{
		"first": "/", "last": "/?page=50", "search": "/?id=499", "stopped": "/?state=stopped", "nearest": "/?sort=left",
	} {
		b.Run(name, func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				w := httptest.NewRecorder()
				p.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, query, nil))
				require.Equal(b, http.StatusOK, w.Code)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// processorTime is what the process has used so far: on a busy machine it says more than a clock.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// fill fills a database with the runs of one host.
func fill(b *testing.B, store *sqlite.Store) {
	b.Helper()
	require.NoError(b, store.BeginLease(b.Context(), session.Lease{ID: "l", Host: "h", Promise: time.Minute, Beat: 1}))
	text, err := json.Marshal(session.State{
		WallClock: 14400, Reserve: 600, Idle: 300, Phase: "tool: go test ./...", Spent: []session.Spent{
			{Limit: "tokens", Used: 1000, Allowed: 2_000_000},
			{Limit: "cost", Currency: "EUR", Used: 5_320_000, Allowed: 6_400_000},
		},
	})
	require.NoError(b, err)
	var ends []session.Ending
	for i := range allRuns {
		_, s, err := store.Attach(b.Context(), session.Session{
			RunID: fmt.Sprintf("run-%04d", i), Host: "h", StartedAt: time.Now(), Lease: "l", State: text,
			Activity: session.NoActivity,
		})
		require.NoError(b, err)
		if i%5 > 0 {
			ends = append(ends, session.Ending{RunID: s.RunID, Attempt: 1, Status: session.Finished, Reason: "complete"})
		}
	}
	for len(ends) > 0 {
		n := min(len(ends), 500)
		_, err = store.End(b.Context(), ends[:n])
		require.NoError(b, err)
		ends = ends[n:]
	}
}
