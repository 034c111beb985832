package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// serve begins to serve a store. To end it sends SIGINT, and expects the exit status 0.
func serve(t *testing.T, args ...string) (url string, end func()) {
	t.Helper()
	cmd := programCmd(t, nil, append([]string{"serve", "--listen=127.0.0.1:0"}, args...)...)
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	_, after, found := strings.Cut(line, "the page is at ")
	require.True(t, found, line)
	url, _, _ = strings.Cut(after, ";")
	return url, func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		rest, _ := io.ReadAll(lines)
		require.NoError(t, cmd.Wait(), string(rest))
	}
}

// ask asks a server for a page, and returns the beginning of the answer.
func ask(t *testing.T, url string) (status int, body *bufio.Reader) {
	t.Helper()
	client := http.Client{Timeout: waitBound, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer.StatusCode, bufio.NewReader(answer.Body)
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	status, body := ask(t, url)
	all, err := io.ReadAll(body)
	require.NoError(t, err)
	return status, string(all)
}

func TestServe(t *testing.T) {
	t.Parallel()
	store, path := stalledStore(t)
	t.Run("the page alone sweeps nothing", func(t *testing.T) {
		url, end := serve(t, store, "--page")
		status, _ := get(t, url+"healthz")
		assert.Equal(t, http.StatusNotFound, status)
		status, text := get(t, url)
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, text, "stalled")
		_, text = get(t, url+"?view=sweeper")
		assert.Contains(t, text, "No sweeper runs in this process.")
		end()
		assert.Equal(t, session.Active, statusOf(t, path, "stalled"))
	})
	t.Run("the sweeper with its health and the page, which has its passes", func(t *testing.T) {
		settings := file(t, "watchdog.yaml", "sweep:\n  startup_delay: 1ms\n  interval: 1s\n")
		url, end := serve(t, store, "--config", settings)
		require.Eventually(t, func() bool { return statusOf(t, path, "stalled") == session.Cancelled }, waitBound,
			10*time.Millisecond)
		status, text := get(t, url+"healthz")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, text, `"status": "ok"`)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, text := get(t, url+"?view=sweeper")
			assert.Contains(c, text, `<td>cancelled</td><td><bdi>host-a</bdi></td>`)
			assert.Contains(c, text, "Passes</h2>")
		}, waitBound, 10*time.Millisecond)
		_, text = get(t, url+"?run=stalled")
		assert.Contains(t, text, "<code><bdi>watchdog resume stalled</bdi></code>")
		end()
	})
	t.Run("readers of the updates do not keep it from ending", func(t *testing.T) {
		url, end := serve(t, store, "--page")
		_, updates := ask(t, url+"?live")
		line, err := updates.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "retry: 2000\n", line)
		end()
		_, err = io.Copy(io.Discard, updates)
		require.NoError(t, err, "the answer is ended, not broken off")
	})
	t.Run("an address that is taken", func(t *testing.T) {
		url, end := serve(t, store, "--page")
		address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
		o := program(t, "serve", store, "--page", "--listen="+address)
		assert.Equal(t, 125, o.status)
		assert.Contains(t, o.stderr, "name a free address of this machine")
		end()
	})
}

// TestServeWritesNothing has the page show all that it has of a store to which nothing is written.
func TestServeWritesNothing(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, store string) {
		o := program(t, "serve", "--store="+store, "--page", "--listen=127.0.0.1:0")
		require.Equal(t, 125, o.status, "without tables")
		require.Contains(t, o.stderr, "none is created")
		filled := openStore(t, store)
		stopped(t, filled, "s-1")
		_, _, err := filled.Attach(t.Context(), session.Session{RunID: "live", StartedAt: time.Now(), Host: "host-b"})
		require.NoError(t, err)
		require.NoError(t, filled.Close())
		before := contentOf(t, store)
		url, end := serve(t, "--store="+store, "--page")
		_, updates := ask(t, url+"?live")
		_, text := get(t, url)
		assert.Contains(t, text, `<bdi>live</bdi>`)
		assert.Contains(t, text, `<bdi>s-1</bdi>`)
		_, text = get(t, url+"?run=s-1")
		assert.Contains(t, text, "a loop&#39;s results got worse")
		assert.Contains(t, text, "watchdog resume s-1")
		assert.Contains(t, text, "<bdi>s-1/build</bdi>")
		_, text = get(t, url+"?run=live")
		assert.Contains(t, text, "watchdog tail live")
		_, text = get(t, url+"?view=sweeper")
		assert.Contains(t, text, "grade_regressing")
		for line := ""; !strings.HasPrefix(line, "data: "); {
			line, err = updates.ReadString('\n')
			require.NoError(t, err)
			if strings.HasPrefix(line, "data: ") {
				assert.Contains(t, line, `"live"`)
			}
		}
		end()
		assert.Equal(t, before, contentOf(t, store))
	})
}

// contentOf is all that a store has: the files of SQLite, and the tables and rows of PostgreSQL.
func contentOf(t *testing.T, store string) string {
	t.Helper()
	path, isSQLite := strings.CutPrefix(store, "sqlite:")
	var all strings.Builder
	if isSQLite {
		names, err := filepath.Glob(path + "*")
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			fmt.Fprintf(&all, "%s %x\n", name, text)
		}
		return all.String()
	}
	conn, err := pgx.Connect(t.Context(), store)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `SELECT relname || query_to_xml('SELECT *, xmin FROM ' || oid::regclass,
		true, true, '')::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	return strings.Join(tables, "\n")
}
