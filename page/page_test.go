package page_test

import (
	"bufio"
	"context"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestNew(t *testing.T) {
	db := &session.Memory{}
	for name, cfg := range map[string]page.Config{
		"no sessions":      {},
		"too many rows":    {Sessions: db, Rows: 1001},
		"negative rows":    {Sessions: db, Rows: -1},
		"negative readers": {Sessions: db, MaxReaders: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := page.New(cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
		})
	}
	p, err := page.New(page.Config{Sessions: db})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close(), "closing again does nothing")
}

// A passes is a sweeper that has had passes.
type passes struct{ stats sweep.Stats }

func (p passes) Stats() sweep.Stats { return p.stats }

// sweeper gives the page a sweeper that has had two passes.
func (f *fixture) sweeper() {
	log := &page.PassLog{}
	log.Add(sweep.Pass{StartedAt: time.Now(), Duration: 12 * time.Millisecond, Err: errors.New("password=hunter2")})
	last := sweep.Pass{
		StartedAt: time.Now().Add(5 * time.Minute), Duration: 34 * time.Millisecond,
		Tally: sweep.Tally{Checked: 2, Found: 1, Cancelled: 1},
		Cases: []sweep.Case{{
			Session: session.Session{RunID: "s-swept", Host: "worker-9"}, Handling: sweep.CaseCancelled,
			Silence: 12 * time.Minute, Threshold: 10 * time.Minute, Resumed: true,
		}},
	}
	log.Add(last)
	f.cfg.PassLog = log
	f.cfg.Sweeper = passes{sweep.Stats{
		Enabled: true, Running: true, Interval: 5 * time.Minute, Passes: 2, Tally: last.Tally,
		Next: time.Now().Add(10 * time.Minute),
	}}
}

func TestPages(t *testing.T) {
	for name, c := range map[string]struct{ query, title, refresh string }{
		"list.html":          {"", "Runs", "10"},
		"run_live.html":      {"?run=s-build", "s-build", "10"},
		"run_cancelled.html": {"?run=s-cancelled", "s-cancelled", ""},
		"sweeper.html":       {"?view=sweeper", "Sweeper", "30"},
	} {
		bubble(t, name, func(f *fixture) {
			f.fleet()
			f.sweeper()
			text := f.shown(c.query)
			compare(f.T, name, text)
			assert.Contains(f, text, "<title>"+c.title+" · Watchdog</title>")
			assert.Equal(f, c.refresh != "", strings.Contains(text, `http-equiv="refresh" content="`+c.refresh+`"`))
			assert.Equal(f, !strings.HasPrefix(name, "run_"), strings.Contains(text, `aria-current="page">`+c.title+"<"))
		})
	}
	bubble(t, "of a layer", func(f *fixture) {
		f.fleet()
		shows(f.T, f.shown("?run=s-cancelled%2Fbuild"),
			`<a href="?">All runs</a> › <a href="?run=s-cancelled"><bdi>s-cancelled</bdi></a></p>`,
			`no output for 5 min 0 s of 5 min. <span class="sub"><bdi>watchdog_no_output, by the guard of its command</bdi></span>`,
			"<dt>Allowed</dt><dd><bdi>no output 5m</bdi></dd>", "<span>run the command again when what blocked it is gone</span>",
			`<svg class="mark cancel" x="100%"`, `<span class="dot cancel"`)
	})
	bubble(t, "of runs that have ended, where new ones do not belong", func(f *fixture) {
		f.fleet()
		assert.Contains(f, f.shown(""), " data-first ")
		assert.NotContains(f, f.shown("?state=ended"), " data-first ")
	})
}

// TestPageHostLost: the page of the sweeper says of a run that its host was lost, and of no other.
func TestPageHostLost(t *testing.T) {
	inBubble(t, func(f *fixture) {
		died := session.Session{RunID: "s-1", Status: session.Active, Expired: session.ExpiredLease{ID: "5f0a"}}
		f.cfg.PassLog = &page.PassLog{}
		f.cfg.PassLog.Add(sweep.Pass{Cases: []sweep.Case{
			{Session: died, Handling: sweep.CaseCancelled},
			{Session: session.Session{RunID: "s-2", Status: session.Active}, Handling: sweep.CaseCancelled},
		}})
		f.cfg.Sweeper = passes{}
		shown := f.shown("?view=sweeper")
		assert.Equal(t, 1, strings.Count(shown, "cancelled, its host was lost"))
		assert.Equal(t, 2, strings.Count(shown, "<td>cancelled"))
	})
}

func TestEmptyPages(t *testing.T) {
	inBubble(t, func(f *fixture) {
		assert.Contains(t, f.shown(""), "No run yet.")
		assert.Contains(t, f.shown("?host=nowhere"), "No run matches.")
		assert.Contains(t, f.shown("?view=sweeper"), "No sweeper runs in this process.")
	})
}

func TestErrorPages(t *testing.T) {
	bubble(t, "a reader is told what was wrong", func(f *fixture) {
		for query, status := range map[string]int{
			"?run=s-1": http.StatusNotFound, "?run=": http.StatusNotFound, "?view=nosuch": http.StatusNotFound,
			"?file=doc.go": http.StatusNotFound, "?file=": http.StatusNotFound,
			"?state=asleep": http.StatusBadRequest, "?after=l1": http.StatusBadRequest, "?after=x1+a": http.StatusBadRequest,
			"?after=%ff": http.StatusBadRequest,
		} {
			assert.Equal(f, status, f.get(query).Code, query)
		}
	})
	bubble(t, "what a store says is logged and not shown", func(f *fixture) {
		f.db.set(errors.New("dial postgres://user:hunter2@db"), 0)
		w := f.get("")
		require.Equal(f, http.StatusServiceUnavailable, w.Code)
		require.Contains(f, w.Body.String(), "The database does not answer.")
		require.NotContains(f, w.Body.String(), "hunter2")
		require.Contains(f, f.log.String(), "hunter2")
	})
}

func TestReadOnly(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "WATCH"} {
			w := ask(f.page(), method, "/")
			assert.Equal(t, http.StatusMethodNotAllowed, w.Code, method)
			assert.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
		for _, query := range []string{"", "?live", "?file=page.css", "?view=sweeper"} {
			w := ask(f.page(), http.MethodHead, "/"+query)
			assert.Equal(t, http.StatusOK, w.Code, query)
			assert.Empty(t, w.Body.String(), query)
		}
	})
}

func TestPolicy(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fleet()
		f.sweeper()
		for _, query := range []string{"", "?run=s-build", "?view=sweeper", "?run=none", "?file=page.js", "?file=none"} {
			header := f.get(query).Header()
			assert.Equal(t, "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "+
				"base-uri 'none'; form-action 'self'; frame-ancestors 'none'", header.Get("Content-Security-Policy"))
			assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
			assert.Equal(t, "no-referrer", header.Get("Referrer-Policy"))
		}
	})
}

var (
	linked  = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	foreign = regexp.MustCompile(`(?:https?:)?//`)
)

// TestRelative protects a page under a prefix, and readers without another network: every link is a query of the page
// itself, no element has a style or a handler of its own, and no file names another server.
func TestRelative(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fleet()
		f.sweeper()
		for _, query := range []string{"", "?state=ended", "?run=s-build", "?run=s-cancelled", "?view=sweeper", "?run=none"} {
			text := f.get(query).Body.String()
			links := linked.FindAllStringSubmatch(text, -1)
			assert.NotEmpty(t, links)
			for _, link := range links {
				assert.Regexp(t, `^[?#]`, link[1], query)
			}
			assert.NotRegexp(t, `\sstyle=|<style|\son\w+=|<script[^>]*>[^<]`, text, query)
		}
		for _, name := range []string{"page.css", "page.js"} {
			text := strings.ReplaceAll(f.shown("?file="+name), "\n//", "\n")
			text = regexp.MustCompile(`(?m)\s// .*$|^// .*$`).ReplaceAllString(text, "")
			assert.NotRegexp(t, foreign, text, name)
			assert.NotRegexp(t, `@import|url\(|eval\(|Function\(`, text, name)
		}
		assert.Less(t, len(f.shown("?file=page.js")), 15<<10, "the script stays small")
	})
}

// TestPrefix mounts the page in all the ways that hosts do, and follows the links as a browser would.
func TestPrefix(t *testing.T) {
	for name, mounted := range map[string]func(http.Handler) (string, http.Handler){
		"at the root":                    func(h http.Handler) (string, http.Handler) { return "/", h },
		"under a prefix":                 mountedAt("/ops/watchdog/", ""),
		"under a prefix without a slash": mountedAt("/ops/watchdog", ""),
		"under a prefix of odd characters": func(h http.Handler) (string, http.Handler) {
			return "/ops 1/wät;v=1/%2e%2e~'\"<b>&#39;{{.}}/?/#/", h
		},
		"at a place that looks like another server": func(h http.Handler) (string, http.Handler) {
			return "//evil.example/javascript:alert(1)/", h
		},
		"with StripPrefix":                     mountedAt("/watchdog/", "/watchdog"),
		"with StripPrefix that leaves nothing": mountedAt("/watchdog", "/watchdog"),
	} {
		bubble(t, name, func(f *fixture) {
			f.fleet()
			f.begin("../s?1/..%2f#x", "worker-1", 0, session.State{})
			at, handler := mounted(f.page())
			seen := map[string]bool{}
			follow(f.T, handler, &url.URL{Scheme: "http", Host: "example.com", Path: at}, seen)
			assert.Greater(f, len(seen), 10)
		})
	}
}

// mountedAt has a mux serve a handler, without a prefix of its paths.
func mountedAt(path, prefix string) func(http.Handler) (string, http.Handler) {
	return func(h http.Handler) (string, http.Handler) {
		mux := http.NewServeMux()
		mux.Handle(path, http.StripPrefix(prefix, h))
		return path, mux
	}
}

// follow asks for a page and for all that it links.
func follow(t *testing.T, handler http.Handler, at *url.URL, seen map[string]bool) {
	t.Helper()
	at.Fragment = ""
	if seen[at.String()] {
		return
	}
	seen[at.String()] = true
	w := ask(handler, http.MethodGet, at.String())
	require.Equal(t, http.StatusOK, w.Code, at)
	if at.Query().Has("run") {
		require.Contains(t, w.Body.String(), `<h1 class="run">`)
	}
	for _, link := range linked.FindAllStringSubmatch(w.Body.String(), -1) {
		next, err := at.Parse(html.UnescapeString(link[1]))
		require.NoError(t, err)
		follow(t, handler, next, seen)
	}
}

func TestFiles(t *testing.T) {
	inBubble(t, func(f *fixture) {
		link := regexp.MustCompile(`\?file=page\.css&amp;v=\w+`).FindString(f.shown(""))
		w := f.get(html.UnescapeString(link))
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
		require.Equal(t, "text/css; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "no-store", f.get("?file=page.css&v=old").Header().Get("Cache-Control"))
	})
}

// TestEndedTimes ends runs that gave no sign of life for a while, and asks how long they lasted.
func TestEndedTimes(t *testing.T) {
	inBubble(t, func(f *fixture) {
		quiet := f.begin("s-quiet", "worker-1", 0, session.State{})
		time.Sleep(3 * time.Second)
		_, err := f.db.End(f.Context(), []session.Ending{{
			RunID: quiet.RunID, Attempt: quiet.Attempt, Status: session.Finished, Reason: "complete", Age: 3 * time.Second,
		}})
		f.must(err)
		end := time.Now()
		time.Sleep(time.Hour)
		list := f.shown("")
		assert.Contains(t, list, "<span>lasted 3s</span>")
		assert.Contains(t, list, end.UTC().Format(time.RFC3339))
		run := f.shown(runQuery("s-quiet"))
		assert.Contains(t, run, "<dt>Lasted</dt><dd>3s</dd>")
		assert.Contains(t, run, "<dt>Ended</dt>")
		assert.NotContains(t, run, "Last sign of life")
	})
	inBubble(t, func(f *fixture) { // the row of another program, which does not say when the run ended
		f.must(f.db.Put(f.Context(), session.Session{
			RunID: "s-other", Status: session.Finished, CreatedAt: time.Now(), StartedAt: time.Now(), Attempt: 1,
			LastEventAt: time.Now().Add(2 * time.Second),
		}))
		time.Sleep(time.Hour)
		assert.Contains(t, f.shown(""), "<span>last sign after 2s</span>")
		assert.Contains(t, f.shown(runQuery("s-other")), "<dt>Last sign of life</dt>")
	})
}

func TestWithoutEvents(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fleet()
		f.cfg.Events = nil
		require.Contains(t, f.shown("?run=s-cancelled"), "This page has no store of events.")
	})
	inBubble(t, func(f *fixture) {
		f.fleet()
		f.cfg.Sessions = justLister{f.db}
		require.Contains(t, f.shown(""), "s-build")
		require.Contains(t, f.shown("?run=s-cancelled"), "watchdog resume s-cancelled")
		require.Equal(t, http.StatusNotFound, f.get("?run=s-build").Code, "it has no events, and its row cannot be asked for")
	})
}

// A justLister can list sessions and nothing else.
type justLister struct{ session.Lister }

// TestHostileQueries asks for what no store can have. None is asked: a database answers as if it had a fault, which a
// reader would be told, and which would fill its host's log.
func TestHostileQueries(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for _, text := range []string{"\x00", "a\x00b", "\xff", "\xed\xa0\x80", "\xc0\xaf", "界\xe7"} {
			for _, key := range []string{"run", "host", "reason", "state", "layers", "after", "view", "file", "x"} {
				assert.Equal(t, http.StatusBadRequest, f.get("?"+key+"="+url.QueryEscape(text)).Code, "%s=%q", key, text)
			}
		}
		for _, query := range []string{
			strings.Repeat("a&", 500_000), "run=" + strings.Repeat("x", 1_000_000), strings.Repeat("%00", 300_000), "live&" + strings.Repeat("&", 1<<20),
		} {
			w := f.get("?" + query)
			assert.Equal(t, http.StatusRequestURITooLong, w.Code, query[:20])
			assert.Less(t, w.Body.Len(), 5000, "nothing of it comes back")
		}
		assert.Zero(t, f.db.takeLists())
		assert.Empty(t, f.log.String())
	})
	bubble(t, "the longest names have room", func(f *fixture) {
		long := strings.Repeat("界", event.MaxAggregateID)
		f.begin(long, long, 0, session.State{})
		assert.Contains(f, f.shown(runQuery(long)+"&layers="+url.QueryEscape(long)), long)
		assert.Contains(f, f.shown("?state=running&host="+url.QueryEscape(long)), long)
	})
	bubble(t, "what is no query is passed over", func(f *fixture) {
		f.begin("s-1", "worker-1", 0, session.State{})
		for _, query := range []string{"?%zz", "?;", "?a;b=c", "?=", "?&&&", "?run%3Ds-2", "?RUN=s-2", "?constructor=1", "?host=&host=x"} {
			assert.Contains(f, f.shown(query), "s-1", query)
		}
	})
}

// TestMountedTwice mounts one page at two places, and two pages over one store: none knows of the others.
func TestMountedTwice(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.fleet()
		mux := http.NewServeMux()
		mux.Handle("/a/", f.page())
		mux.Handle("/a/b/c/", http.StripPrefix("/a/b", f.page()))
		second, err := page.New(f.cfg)
		f.must(err)
		mux.Handle("/second/", second)
		var texts []string
		for _, at := range []string{"/a/", "/a/b/c/", "/second/"} {
			follow(t, mux, &url.URL{Scheme: "http", Host: "example.com", Path: at}, map[string]bool{})
			texts = append(texts, ask(mux, http.MethodGet, at).Body.String())
		}
		require.Equal(t, texts[0], texts[1])
		require.Equal(t, texts[0], texts[2])
		r := f.join("")
		f.must(second.Close())
		time.Sleep(time.Second)
		require.Len(t, r.events(), 1, "closing one leaves the other's readers alone")
		r.leave()
	})
}

// exchange sends bytes to a server of the page, and returns what comes until it closes the connection or says nothing
// more for a while.
func exchange(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	if !errors.Is(err, net.ErrClosed) {
		require.NoError(t, err)
	}
	return string(answer)
}

// TestRawRequests speaks to a real server as browsers do not.
func TestRawRequests(t *testing.T) {
	db := &database{}
	p, err := page.New(page.Config{Sessions: db, Events: db, MaxReaders: 1})
	require.NoError(t, err)
	server := httptest.NewServer(p)
	defer server.Close()
	defer func() { require.NoError(t, p.Close()) }()
	at := server.Listener.Addr().String()
	for name, test := range map[string]struct {
		request string
		want    []string
		body    bool
	}{
		"HTTP/1.0":                {"GET / HTTP/1.0\r\n\r\n", []string{"HTTP/1.0 200", "Content-Length: "}, true},
		"no gzip":                 {"GET / HTTP/1.0\r\nAccept-Encoding: gzip, identity;q=0\r\n\r\n", []string{" 200", "<!DOCTYPE html>", "!Content-Encoding"}, true},
		"a range":                 {"GET / HTTP/1.0\r\nRange: bytes=0-3\r\n\r\n", []string{" 200", "!Content-Range"}, true},
		"POST":                    {"POST /?live HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", []string{" 405", "Allow: GET, HEAD"}, true},
		"a body that never comes": {"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5000000\r\n\r\n", []string{" 405"}, true},
		"OPTIONS of all":          {"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", []string{"HTTP/1.1 "}, false},
		"another server's page": {"GET http://evil.example/?host=%3Cscript%3E HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
			[]string{" 200", "&lt;script&gt;", "!evil.example", "!<script>"}, true},
		"a page of a frame": {"GET /?view=sweeper HTTP/1.0\r\nX-Forwarded-Host: evil.example\r\nX-Original-URL: /admin\r\n\r\n",
			[]string{" 200", "!evil.example", "frame-ancestors 'none'"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			answer := exchange(t, at, test.request)
			shows(t, answer, test.want...)
			_, body, _ := strings.Cut(answer, "\r\n\r\n")
			assert.Equal(t, test.body, body != "")
		})
	}
	t.Run("updates by HTTP/1.0 come as they are", func(t *testing.T) {
		conn, err := net.Dial("tcp", at)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = io.WriteString(conn, "GET /?live HTTP/1.0\r\nLast-Event-ID: x\r\n\r\n")
		require.NoError(t, err)
		lines := bufio.NewScanner(conn)
		var got []string
		for len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "data: ") {
			require.True(t, lines.Scan(), "%v %v", got, lines.Err())
			got = append(got, lines.Text())
		}
		assert.Equal(t, "HTTP/1.0 200 OK", got[0])
		assert.NotContains(t, strings.Join(got, "\n"), "chunked")
		assert.Empty(t, got[len(got)-3], "an event begins after a line that is empty")
	})
}

// asked asks a handler under a name, on a connection to an address of this machine.
func asked(t *testing.T, handler http.Handler, host, local string) *httptest.ResponseRecorder {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", local)
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, at), http.MethodGet, "/", nil)
	r.Host = host
	r.Header.Set("X-Forwarded-Host", "watchdog.example")
	r.Header.Set("Forwarded", "host=watchdog.example")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestHosts(t *testing.T) {
	const machine, loopback = "192.0.2.7:8080", "127.0.0.1:8080"
	hosts := []string{"Watchdog.Example.", "localhost", "::1", "[2001:DB8:0::9]:80", "xn--bcher-kva.example:8443", "192.0.2.9"}
	inBubble(t, func(f *fixture) {
		f.cfg.Hosts = hosts
		f.begin("s-1", "worker-1", 0, session.State{})
		for _, c := range []struct {
			local   string
			own     []string // names that are answered
			foreign []string
		}{
			{
				machine,
				[]string{
					"watchdog.example", "watchdog.example:1", "watchdog.example:", "WATCHDOG.example.:8080", "localhost", "[::1]",
					"[::1]:8080", "[0:0:0:0:0:0:0:1]:8080", "[2001:db8::9]", "XN--BCHER-KVA.example", "192.0.2.9:80",
					"192.0.2.7", "192.0.2.7:80", "[::ffff:192.0.2.7]:80", // where the connection went to, as a health check has it
				},
				[]string{
					"watchdog.example.evil.example", "evil.watchdog.example", "watchdog.example..", "watchdog.example@evil.example",
					"watchdog.example:80:evil", "watchdog.example, evil.example", "127.0.0.1", "192.0.2.8", "bücher.example", "[::1",
					"", ".", ":8080",
				},
			},
			{
				loopback, []string{"127.0.0.1:9", "127.0.0.1."},
				[]string{"evil.example", "evil.example:8080", "127.0.0.1.nip.example"},
			},
			{"[2001:db8::7]:8080", []string{"[2001:db8::7]:8080"}, nil},
		} {
			for _, host := range c.own {
				w, beside := asked(f.T, f.page(), host, c.local), asked(f.T, f.page().Guard(http.NotFoundHandler()), host, c.local)
				assert.Equal(t, http.StatusOK, w.Code, host)
				assert.Contains(t, w.Body.String(), "s-1")
				assert.Equal(t, http.StatusNotFound, beside.Code, host)
			}
			for _, host := range c.foreign {
				for _, handler := range []http.Handler{f.page(), f.page().Guard(http.NotFoundHandler())} {
					refused := asked(f.T, handler, host, c.local)
					assert.Equal(t, http.StatusMisdirectedRequest, refused.Code, host)
					assert.Contains(t, refused.Body.String(), "watchdog serve --host NAME, or page.Config.Hosts")
					assert.NotContains(t, refused.Body.String(), "evil")
					assert.NotContains(t, refused.Body.String(), "s-1")
				}
			}
		}
	})
}

// Without names any is answered, as before.
func TestAnyHost(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for _, host := range []string{"evil.example", "", "watchdog.example:8080"} {
			assert.Equal(t, http.StatusOK, asked(f.T, f.page(), host, "127.0.0.1:80").Code, host)
			assert.Equal(t, http.StatusNotFound, asked(f.T, f.page().Guard(http.NotFoundHandler()), host, "127.0.0.1:80").Code)
		}
	})
}

// A config is copied, and one that no browser could ask for is an error.
func TestConfigOfHosts(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.Hosts = []string{"watchdog.example"}
		f.page()
		f.cfg.Hosts[0] = "evil.example"
		assert.Equal(t, http.StatusMisdirectedRequest, asked(f.T, f.page(), "evil.example", "127.0.0.1:80").Code)
	})
	for _, host := range []string{
		"", ".", ":8080", "*", "*.example", "https://watchdog.example", "watchdog.example/page", "a b", "bücher.example", "[::1", "a,b", "a@b",
	} {
		_, err := page.New(page.Config{Sessions: &database{}, Hosts: []string{"localhost", host}})
		require.ErrorIs(t, err, watchdog.ErrInvalid, host)
		assert.ErrorContains(t, err, "Hosts", host)
	}
}
