package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
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

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
)

// serve begins to serve a store. To end it sends SIGINT, and expects the exit status 0.
func serve(t *testing.T, args ...string) (url string, end func()) {
	t.Helper()
	url, _, end = serveAt(t, "127.0.0.1:0", args...)
	return url, end
}

// serveAt is serve at an address, with the program.
func serveAt(t *testing.T, listen string, args ...string) (url string, p *live, end func()) {
	t.Helper()
	p = begin(t, programCmd(t, nil, append([]string{"serve", "--listen=" + listen}, args...)...))
	p.says("; press Ctrl-C to end\n")
	_, after, found := strings.Cut(p.stderr.String(), "the page is at ")
	require.True(t, found)
	url, _, _ = strings.Cut(after, ";")
	return url, p, func() { p.signal(syscall.SIGINT); p.end().must(t, 0) }
}

// page is what the page of a store shows for a query.
func (s testStore) page(t *testing.T, query string) string {
	t.Helper()
	url, end := serve(t, "--store="+s.url, "--page")
	defer end()
	status, text := get(t, url+query)
	require.Equal(t, http.StatusOK, status)
	return text
}

// ask asks a server for a page under a name, its own for an empty one, and returns the beginning of the answer.
func ask(t *testing.T, url, host string) (status int, body *bufio.Reader) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	r.Host = host
	r.Header.Set("X-Forwarded-Host", "localhost")
	client := http.Client{Timeout: waitBound, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer.StatusCode, bufio.NewReader(answer.Body)
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	return getAs(t, url, "")
}

func getAs(t *testing.T, url, host string) (status int, text string) {
	t.Helper()
	status, body := ask(t, url, host)
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
		settings := file(t, "watchdog.yaml", "sweep:\n  startup_delay: 1ms\n") // no second pass can be late
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
		_, updates := ask(t, url+"?live", "")
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
		program(t, "serve", store, "--page", "--listen="+address).must(t, 125).says(t, "name a free address of this machine")
		end()
	})
}

// TestServeHosts asks under names that a page in somebody's browser could have been given.
func TestServeHosts(t *testing.T) {
	t.Parallel()
	store, _ := stalledStore(t)
	t.Run("only its own and those of --host are answered, at every path", func(t *testing.T) {
		url, end := serve(t, store, "--host", "dash.example", "--host=Other.Example")
		for _, host := range []string{"127.0.0.1", "localhost:9", "LOCALHOST.", "[::1]:80", "dash.example", "other.example:443"} {
			for _, path := range []string{"", "healthz", "?run=stalled"} {
				status, text := getAs(t, url+path, host)
				assert.Equal(t, http.StatusOK, status, "%s of %s: %s", path, host, text)
			}
		}
		for _, host := range []string{"evil.example", "evil.example:8080", "0.0.0.0", "192.0.2.1", "dash.example.evil.example"} {
			for _, path := range []string{"", "healthz", "?run=stalled", "?live", "?file=style.css", "nothing"} {
				status, text := getAs(t, url+path, host)
				assert.Equal(t, http.StatusMisdirectedRequest, status, "%s of %s", path, host)
				assert.Contains(t, text, "watchdog serve --host NAME")
				assert.NotContains(t, text, "stalled")
			}
		}
		end()
	})
	t.Run("a server on all addresses says so, and answers each of them", func(t *testing.T) {
		for _, listen := range []string{"0.0.0.0:0", ":0"} {
			url, p, end := serveAt(t, listen, store, "--page")
			p.says("other machines can reach this address, and whoever does sees all sessions")
			_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
			require.NoError(t, err)
			for _, own := range ownAddresses(t) {
				at := "http://" + net.JoinHostPort(own, port) + "/"
				status, _ := getAs(t, at, "")
				assert.Equal(t, http.StatusOK, status, at)
				status, _ = getAs(t, at, "evil.example")
				assert.Equal(t, http.StatusMisdirectedRequest, status, at)
			}
			end()
		}
	})
	t.Run("a server on this machine alone says nothing more", func(t *testing.T) {
		_, p, end := serveAt(t, "localhost:0", store, "--page")
		end()
		assert.Equal(t, 1, strings.Count(p.stderr.String(), "\n"))
	})
	t.Run("for programs it is a line of JSON", func(t *testing.T) {
		p := begin(t, programCmd(t, nil, "serve", "--json", "--listen=0.0.0.0:0", store, "--page"))
		p.says(`"msg":"other machines can reach this address`)
		p.signal(syscall.SIGINT)
		assert.Equal(t, 1, strings.Count(p.end().must(t, 0).stderr, "\n"))
	})
	t.Run("a name that no browser sends", func(t *testing.T) {
		program(t, "serve", store, "--page", "--listen=127.0.0.1:0", "--host=https://dash.example/").must(t, 125).
			says(t, "--host: ", `"https://dash.example/"; write a name as browsers send it`)
	})
}

// ownAddresses are addresses of this machine over IPv4, without those that only one interface knows.
func ownAddresses(t *testing.T) (all []string) {
	t.Helper()
	found, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range found {
		if network, is := a.(*net.IPNet); is && network.IP.To4() != nil {
			all = append(all, network.IP.String())
		}
	}
	require.NotEmpty(t, all)
	return all
}

// TestNothingIsWritten has the page, and the commands that read, show all that they have of a store to which nothing is
// written, and beside which nothing is made.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	eachURL(t, racing.Long, func(t *testing.T, store string) {
		program(t, "serve", "--store="+store, "--page", "--listen=127.0.0.1:0").must(t, 125).says(t, "none is created")
		filled := openStore(t, store)
		stopped(t, filled, "s-1")
		_, _, err := filled.Attach(t.Context(), session.Session{RunID: "live", StartedAt: time.Now(), Host: "host-b"})
		require.NoError(t, err)
		require.NoError(t, filled.Close())
		before := contentOf(t, store)
		url, end := serve(t, "--store="+store, "--page")
		_, updates := ask(t, url+"?live", "")
		_, text := get(t, url)
		assert.Contains(t, text, `<bdi>live</bdi>`)
		assert.Contains(t, text, `<bdi>s-1</bdi>`)
		_, text = get(t, url+"?run=s-1")
		assert.Contains(t, text, "its host or another guard stopped it")
		assert.Contains(t, text, "watchdog resume s-1")
		assert.Contains(t, text, "<bdi>s-1/build</bdi>")
		_, text = get(t, url+"?run=live")
		assert.Contains(t, text, "watchdog why live")
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
		for _, words := range [][]string{{"sessions"}, {"why", "s-1"}, {"why", "s-1"}} {
			program(t, append(words, "--store", store)...).must(t, 0)
		}
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
