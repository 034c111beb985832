package page_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
)

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
		long := strings.Repeat("界", watchdog.MaxAggregateID)
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
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, nil))
			texts = append(texts, w.Body.String())
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
			for _, part := range test.want {
				if absent, not := strings.CutPrefix(part, "!"); not {
					assert.NotContains(t, answer, absent)
				} else {
					assert.Contains(t, answer, part)
				}
			}
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
	const machine, loopback, six = "192.0.2.7:8080", "127.0.0.1:8080", "[2001:db8::7]:8080"
	hosts := []string{"Watchdog.Example.", "localhost", "::1", "[2001:DB8:0::9]:80", "xn--bcher-kva.example:8443", "192.0.2.9"}
	inBubble(t, func(f *fixture) {
		f.cfg.Hosts = hosts
		f.begin("s-1", "worker-1", 0, session.State{})
		for host, c := range map[string]struct {
			local  string
			status int
		}{
			"watchdog.example":               {machine, http.StatusOK},
			"watchdog.example:1":             {machine, http.StatusOK},
			"watchdog.example:":              {machine, http.StatusOK},
			"WATCHDOG.example.:8080":         {machine, http.StatusOK},
			"localhost":                      {machine, http.StatusOK},
			"[::1]":                          {machine, http.StatusOK},
			"[::1]:8080":                     {machine, http.StatusOK},
			"[0:0:0:0:0:0:0:1]:8080":         {machine, http.StatusOK},
			"[2001:db8::9]":                  {machine, http.StatusOK},
			"XN--BCHER-KVA.example":          {machine, http.StatusOK},
			"192.0.2.9:80":                   {machine, http.StatusOK},
			"192.0.2.7":                      {machine, http.StatusOK}, // where the connection went to, as a health check has it
			"192.0.2.7:80":                   {machine, http.StatusOK},
			"[::ffff:192.0.2.7]:80":          {machine, http.StatusOK},
			"127.0.0.1:9":                    {loopback, http.StatusOK},
			"[2001:db8::7]:8080":             {six, http.StatusOK},
			"evil.example":                   {loopback, http.StatusMisdirectedRequest},
			"evil.example:8080":              {loopback, http.StatusMisdirectedRequest},
			"watchdog.example.evil.example":  {machine, http.StatusMisdirectedRequest},
			"evil.watchdog.example":          {machine, http.StatusMisdirectedRequest},
			"watchdog.example..":             {machine, http.StatusMisdirectedRequest},
			"watchdog.example@evil.example":  {machine, http.StatusMisdirectedRequest},
			"watchdog.example:80:evil":       {machine, http.StatusMisdirectedRequest},
			"watchdog.example, evil.example": {machine, http.StatusMisdirectedRequest},
			"127.0.0.1":                      {machine, http.StatusMisdirectedRequest},
			"127.0.0.1.":                     {loopback, http.StatusOK},
			"127.0.0.1.nip.example":          {loopback, http.StatusMisdirectedRequest},
			"192.0.2.8":                      {machine, http.StatusMisdirectedRequest},
			"bücher.example":                 {machine, http.StatusMisdirectedRequest},
			"[::1":                           {machine, http.StatusMisdirectedRequest},
			"":                               {machine, http.StatusMisdirectedRequest},
			".":                              {machine, http.StatusMisdirectedRequest},
			":8080":                          {machine, http.StatusMisdirectedRequest},
		} {
			w := asked(f.T, f.page(), host, c.local)
			beside := asked(f.T, f.page().Guard(http.NotFoundHandler()), host, c.local)
			if c.status == http.StatusOK {
				assert.Equal(t, c.status, w.Code, host)
				assert.Contains(t, w.Body.String(), "s-1")
				assert.Equal(t, http.StatusNotFound, beside.Code, host)
				continue
			}
			for _, refused := range []*httptest.ResponseRecorder{w, beside} {
				assert.Equal(t, c.status, refused.Code, host)
				assert.Contains(t, refused.Body.String(), "watchdog serve --host NAME, or page.Config.Hosts")
				assert.NotContains(t, refused.Body.String(), "evil")
				assert.NotContains(t, refused.Body.String(), "s-1")
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
