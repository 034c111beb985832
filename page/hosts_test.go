package page_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
)

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
