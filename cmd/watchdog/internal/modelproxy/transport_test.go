package modelproxy_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// through has the fixture's calls go to another upstream, with more of an environment.
func (f *fixture) through(url string, base http.RoundTripper, logger *slog.Logger, env map[string]string) {
	f.Helper()
	require.NoError(f, f.proxy.Close())
	proxy, err := modelproxy.Start(f.wd.Context(), &watchdoghttp.Meter{Base: base, Logger: logger},
		func(name string) (string, bool) {
			if strings.HasSuffix(name, "_BASE_URL") {
				return url, true
			}
			value, set := env[name]
			return value, set
		})
	require.NoError(f, err)
	f.proxy = proxy
}

func quietTLS(t *testing.T, serve http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(serve)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// TestTrust checks which certificates are trusted: those of the machine, and what clients are told to.
func TestTrust(t *testing.T) {
	answer := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, calls[modelproxy.OpenAI].answer)
	}
	server := quietTLS(t, answer)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return path
	}
	certificate := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	other, missing := write("other.pem", []byte("none\n")), filepath.Join(dir, "missing.pem")
	for name, c := range map[string]struct {
		env    map[string]string
		status int
		says   []string
	}{
		"neither":                     {nil, 502, nil},
		"empty ones":                  {map[string]string{"NODE_EXTRA_CA_CERTS": "", "SSL_CERT_FILE": ""}, 502, nil},
		"that of Node":                {map[string]string{"NODE_EXTRA_CA_CERTS": certificate}, 200, nil},
		"that of OpenSSL":             {map[string]string{"SSL_CERT_FILE": certificate}, 200, nil},
		"one beside one without any":  {map[string]string{"NODE_EXTRA_CA_CERTS": other, "SSL_CERT_FILE": certificate}, 200, []string{"NODE_EXTRA_CA_CERTS", "no certificate"}},
		"one beside one that is gone": {map[string]string{"NODE_EXTRA_CA_CERTS": certificate, "SSL_CERT_FILE": missing}, 200, []string{"SSL_CERT_FILE", "no such file"}},
		"one that is gone":            {map[string]string{"NODE_EXTRA_CA_CERTS": missing}, 502, []string{"NODE_EXTRA_CA_CERTS", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, watchdog.Spend{Tokens: 100_000}, nil)
			var logged bytes.Buffer
			f.through(server.URL, nil, slog.New(slog.NewTextHandler(&logged, nil)), c.env)
			assert.Equal(t, c.status, f.call(modelproxy.OpenAI).status)
			for _, says := range c.says {
				assert.Contains(t, logged.String(), says)
			}
			if c.says == nil {
				assert.NotContains(t, logged.String(), "certificate")
			}
		})
	}
	t.Run("what the machine trusts stays trusted", func(t *testing.T) {
		want, err := x509.SystemCertPool()
		require.NoError(t, err)
		want.AddCert(server.Certificate())
		roots := modelproxy.Trusted(func(name string) (string, bool) { return certificate, name == "NODE_EXTRA_CA_CERTS" }, nil)
		assert.True(t, want.Equal(roots))
	})
}
