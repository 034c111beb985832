// Package browser_test tests the page in Chromium. Without one the tests are skipped, and say so.
package browser_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

var (
	shots   = flag.String("shots", os.Getenv("WATCHDOG_SHOTS"), "write screenshots of the main states into this folder")
	figures = flag.Bool("figures", false, "measure the page with 1,000 live runs")
)

// patience is how long a test waits for what should come at once, on a busy machine.
const patience = time.Minute

// childVariable has the test binary be another process that opens the same database: see cancelElsewhere.
const childVariable = "WATCHDOG_TEST_CANCEL"

func TestMain(m *testing.M) {
	if run := os.Getenv(childVariable); run != "" {
		os.Exit(cancelHere(run, os.Args[len(os.Args)-1]))
	}
	if rows := os.Getenv(serverVariable); rows != "" {
		os.Exit(serveHere(rows, os.Args[len(os.Args)-1]))
	}
	flag.Parse()
	code := m.Run()
	browser.stop()
	os.Exit(code)
}

// browser is the one Chromium of all tests. Each has a context of its own in it, as a private window.
var browser chromium

type chromium struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

func (c *chromium) start() {
	path, err := exec.LookPath("chromium")
	if err != nil {
		c.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("no-pings", true),
		chromedp.Env("TZ=Europe/Zurich"),
	)
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancelTab := chromedp.NewContext(allocated)
	c.ctx, c.cancel = ctx, func() { _ = chromedp.Cancel(ctx); cancelTab(); cancel() }
	c.err = chromedp.Do(ctx)
}

func (c *chromium) stop() {
	if c.cancel != nil {
		c.cancel()
	}
}

// A tab is a page in a private window of the browser, over a page over a database in a file.
type tab struct {
	*testing.T
	ctx   context.Context
	store *sqlite.Store
	path  string
	page  *page.Page
	url   string
}

// open opens the database, the page under a prefix, and a tab that shows nothing yet.
func open(t *testing.T, change ...func(cfg *page.Config)) *tab {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("skipped: there is no chromium here; install it with apt-get install chromium")
	}
	browser.once.Do(browser.start)
	require.NoError(t, browser.err)
	b := &tab{T: t, path: filepath.Join(t.TempDir(), "watchdog.db")}
	var err error
	b.store, err = sqlite.Open(t.Context(), b.path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.store.Close()) })
	cfg := page.Config{Sessions: b.store, Events: b.store, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	b.page, err = page.New(cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/ops/watchdog/", b.page)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() { require.NoError(t, b.page.Close()) })
	b.url = server.URL + "/ops/watchdog/"
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, cancelTime := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancelTime)
	b.ctx = ctx
	return b
}

// do carries out steps in the browser.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.ctx, steps...))
}

// show shows the page of a query.
func (b *tab) show(query string) {
	b.Helper()
	b.do(chromedp.Navigate(b.url + query))
}

// eval is the value of an expression in the page. One that was asked for while the tab went from one page to the next,
// as it does after a click, is asked for again: what the browser says of the document that has gone is no answer.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	deadline := time.Now().Add(patience)
	for {
		value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
		var gone *cdproto.Error
		if errors.As(err, &gone) && gone.Code == goneCode && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		require.NoError(b, err, expression)
		return value
	}
}

// goneCode is the browser's for a document, a frame or an execution context that is there no longer.
const goneCode = -32000

// until waits for an expression to be true in a page that has been read to its end.
func (b *tab) until(expression string) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for !eval[bool](b, "document.readyState !== 'loading' && Boolean("+expression+")") {
		if time.Now().After(deadline) {
			b.shot("failed_" + filepath.Base(b.Name()))
			b.Fatalf("in vain: %s\n%s", expression, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shot writes a picture of the window, if pictures are wanted.
func (b *tab) shot(name string) {
	b.Helper()
	if *shots == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b, err)
	require.NoError(b, os.MkdirAll(*shots, 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o644))
}

// row is an expression for the row of a run in the list.
func row(runID string) string {
	return fmt.Sprintf("[...document.querySelectorAll('#runs > tr')].find((tr) => tr.dataset.run === %q)", runID)
}
