package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/notify"
)

const (
	hookSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretSet    = "WATCHDOG_NOTIFY_SECRET=" + hookSecret
	secretCanary = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// A hook is a server that gets notices. It refuses those that the secret did not sign.
type hook struct {
	*httptest.Server
	status atomic.Int64 // of each answer; 0 for 204

	mu  sync.Mutex
	got []told
}

// told is a notice as a receiver reads it.
type told struct {
	Type string
	Data struct {
		ID, Reason string
		RunID      string `json:"run_id"`
		Parent     string
		Cancels    int
	}
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if _, err := notify.Verify(r.Header, body, hookSecret); err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if status := h.status.Load(); status != 0 {
		w.WriteHeader(int(status))
		return
	}
	var n told
	_ = json.Unmarshal(body, &n)
	h.mu.Lock()
	h.got = append(h.got, n)
	h.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// address has a path that is a secret.
func (h *hook) address() string { return h.URL + "/path-canary" }

func (h *hook) told() []told {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got
}

// types are those of what was told.
func (h *hook) types() (types []string) {
	for _, n := range h.told() {
		types = append(types, n.Type)
	}
	return types
}

// quiet expects an outcome that has no part of a secret.
func quiet(t *testing.T, o outcome) outcome {
	t.Helper()
	assert.NotContains(t, o.stdout+o.stderr, "canary")
	assert.NotContains(t, o.stdout+o.stderr, secretCanary)
	return o
}

// signed runs the program with the secret of the notices, of which it expects no part.
func signed(t *testing.T, args ...string) outcome {
	t.Helper()
	return quiet(t, programIn(t, []string{secretSet}, args...))
}

func TestNotifyTest(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	host := strings.TrimPrefix(h.URL, "http://")
	t.Run("one notice is sent, and what was answered is said", func(t *testing.T) {
		o := signed(t, "notify", "--test", "--webhook", h.address())
		assert.Equal(t, outcome{stdout: "the webhook at " + host + " took a test notice, with 204 No Content\n"}, o)
		assert.Equal(t, []string{"watchdog.test"}, h.types())
	})
	t.Run("as JSON", func(t *testing.T) {
		o := signed(t, "notify", "--test", "--json", "--webhook", h.address())
		assert.JSONEq(t, `{"host":"`+host+`","status":204,"taken":true}`, o.stdout)
	})
	t.Run("a secret in a file, and a webhook in the configuration", func(t *testing.T) {
		secrets := file(t, "secret", hookSecret+"\n")
		settings := file(t, "watchdog.yaml", "sweep:\n  notify: {webhook: '"+h.address()+"', secret_file: '"+secrets+"'}\n")
		quiet(t, program(t, "notify", "--test", "--config", settings)).must(t, 0)
		quiet(t, program(t, "notify", "--test", "--webhook", h.address(), "--webhook-secret-file", secrets)).must(t, 0)
		variables := []string{secretSet, "WATCHDOG_NOTIFY_WEBHOOK=" + h.address()}
		quiet(t, programIn(t, variables, "notify", "--test")).must(t, 0)
	})
	t.Run("what is wrong is said", func(t *testing.T) {
		const other = "WATCHDOG_NOTIFY_SECRET=whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
		for want, test := range map[string]struct{ variable, line string }{
			"answered 401 Unauthorized: see whether it has the same secret":     {other, "--webhook " + h.address()},
			"set WATCHDOG_NOTIFY_SECRET":                                        {"", "--webhook " + h.address()},
			"secret 1 of 1 is no base64":                                        {"WATCHDOG_NOTIFY_SECRET=canary!", "--webhook " + h.address()},
			"no webhook is named":                                               {secretSet, ""},
			"--test sends one notice, and --follow goes on":                     {secretSet, "--follow --webhook " + h.address()},
			"--webhook: a value that is not shown is http to hooks.example.com": {secretSet, "--webhook http://hooks.example.com/canary"},
			"connection refused":                                                {secretSet, "--webhook http://127.0.0.1:1/canary"},
		} {
			args := append([]string{"notify", "--test"}, strings.Fields(test.line)...)
			o := quiet(t, programIn(t, []string{test.variable}, args...)).must(t, 125).says(t, want)
			assert.Empty(t, o.stdout)
		}
	})
	t.Run("what is wrong as JSON", func(t *testing.T) {
		o := signed(t, "notify", "--test", "--json", "--webhook", "http://127.0.0.1:1/canary").must(t, 125)
		var report struct {
			Taken bool
			Error string
		}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &report))
		assert.False(t, report.Taken)
		assert.Contains(t, report.Error, "connection refused")
	})
}

func TestNotifyRun(t *testing.T) {
	t.Parallel()
	eachURL(t, racing.Long, func(t *testing.T, store string) {
		h := newHook(t)
		variables := []string{secretSet, "WATCHDOG_STORE=" + store}
		run := func(id, limit string, words ...string) outcome {
			args := append([]string{"run", "--id", id, "--webhook", h.address(), "--wall-clock", limit, "--"}, words...)
			return quiet(t, programIn(t, variables, args...))
		}
		assert.Equal(t, 124, run("told", "1s", "sleep", "60").status)
		require.Equal(t, []string{"watchdog.stop"}, h.types(), "the run, and not its command besides")
		assert.Equal(t, "told", h.told()[0].Data.RunID)
		assert.Equal(t, "watchdog_wall_clock_exceeded", h.told()[0].Data.Reason)

		o := run("done", "1h", "env").must(t, 0)
		assert.NotContains(t, o.stdout, "WATCHDOG_NOTIFY_SECRET", "a command does not get the secret")
		assert.Len(t, h.told(), 1, "that it is complete was not asked for")

		h.status.Store(503)
		run("later", "1s", "sleep", "60").must(t, 124).says(t, "the webhook is not told yet")
		o = quiet(t, programIn(t, variables, "notify", "--webhook", h.address()))
		assert.Contains(t, o.stdout, "0 delivered, ", "it pauses")
		h.status.Store(0)
		require.Eventually(t, func() bool {
			o := quiet(t, programIn(t, variables, "notify", "--json", "--webhook", h.address()))
			return o.status == 0 && strings.Contains(o.stdout, `"delivered":1`)
		}, waitBound, 500*time.Millisecond)
		assert.Equal(t, "later", h.told()[1].Data.RunID)
		assert.Len(t, h.told(), 2)
	})
	t.Run("without a store nobody is told, and that is said", func(t *testing.T) {
		const address = "https://hooks.example.com/canary"
		signed(t, "run", "--webhook", address, "--", "true").must(t, 125).says(t, "--webhook needs --store")
		quiet(t, programIn(t, []string{secretSet, "WATCHDOG_NOTIFY_WEBHOOK=" + address}, "run", "--", "true")).must(t, 0).
			says(t, "the webhook is not told of this run")
	})
	t.Run("a receiver that hangs delays the end for seconds only", func(t *testing.T) {
		release := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		defer server.Close()
		defer close(release)
		store := "sqlite:" + t.TempDir() + "/runs.db"
		began := time.Now()
		signed(t, "run", "--store", store, "--webhook", server.URL, "--wall-clock", "1s", "--", "sleep", "60").must(t, 124).
			says(t, "did not answer within 5s")
		assert.Less(t, time.Since(began), waitBound)
	})
}

func TestNotifySweep(t *testing.T) {
	t.Parallel()
	t.Run("a pass tells of its cancels and its alert", func(t *testing.T) {
		h := newHook(t)
		store, _ := stalledStore(t)
		settings := file(t, "watchdog.yaml", "sweep:\n  alert_within: 1h\n")
		signed(t, "sweep", store, "--once", "--config", settings, "--webhook", h.address()).must(t, 0)
		require.ElementsMatch(t, []string{"watchdog.sweeper_cancel", "watchdog.alert"}, h.types())
		for _, n := range h.told() {
			assert.True(t, n.Data.RunID == "stalled" || n.Data.Cancels == 1)
		}
	})
	t.Run("a dry run tells nobody, and says so", func(t *testing.T) {
		h := newHook(t)
		store, _ := stalledStore(t)
		signed(t, "sweep", store, "--once", "--dry-run", "--webhook", h.address()).must(t, 0).
			says(t, "the webhook is not told")
		assert.Empty(t, h.told())
	})
	t.Run("serve tells, and what sweep could not", func(t *testing.T) {
		h := newHook(t)
		h.status.Store(500)
		store, _ := stalledStore(t)
		signed(t, "sweep", store, "--once", "--webhook", h.address()).must(t, 125).says(t, "the webhook is not told yet")
		h.status.Store(0)
		secrets := file(t, "secret", hookSecret)
		_, end := serve(t, store, "--webhook="+h.address(), "--webhook-secret-file="+secrets)
		require.Eventually(t, func() bool { return len(h.told()) == 1 }, waitBound, 100*time.Millisecond)
		assert.Equal(t, "stalled", h.told()[0].Data.RunID)
		end()
	})
	t.Run("a page delivers nothing", func(t *testing.T) {
		store, _ := stalledStore(t)
		quiet(t, program(t, "serve", store, "--page", "--webhook=https://hooks.example.com/canary")).must(t, 125).
			says(t, "--page only shows")
	})
}

func TestNotifyFollow(t *testing.T) {
	t.Parallel()
	eachURL(t, racing.Long, func(t *testing.T, store string) {
		h := newHook(t)
		variables := []string{
			secretSet, "WATCHDOG_STORE=" + store, "WATCHDOG_NOTIFY_WEBHOOK=" + h.address(), "WATCHDOG_NOTIFY_COMPLETES=true",
		}
		db := openStore(t, store)
		stopped(t, db, "other") // by a host without an outbox: nobody is told
		require.NoError(t, db.Close())
		p := begin(t, programCmd(t, variables, "notify", "--follow"))
		p.says("press Ctrl-C to end")
		programIn(t, variables, "resume", "other").must(t, 0)
		programIn(t, variables, "complete", "other").must(t, 0)
		assert.Eventually(t, func() bool { return len(h.told()) > 0 }, waitBound, 100*time.Millisecond)
		p.signal(syscall.SIGINT)
		quiet(t, p.end().must(t, 0))
		assert.Equal(t, []string{"watchdog.complete"}, h.types())
		assert.Equal(t, "other", h.told()[0].Data.RunID)
	})
}
