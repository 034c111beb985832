package modelproxy_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
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

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// TestCause checks what a client is told of a call that has no answer, and that one that was never sent costs nothing.
func TestCause(t *testing.T) {
	const unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority; if you trust it, " +
		"name the file of its authority in NODE_EXTRA_CA_CERTS"
	for api, form := range map[modelproxy.API]string{
		modelproxy.Anthropic: `{"type":"error","error":{"type":"api_error","message":%q}}`,
		modelproxy.OpenAI:    `{"error":{"type":"server_error","code":null,"param":null,"message":%q}}`,
		modelproxy.Gemini:    `{"error":{"code":502,"status":"UNAVAILABLE","message":%q}}`,
	} {
		t.Run("in the form of "+string(api), func(t *testing.T) {
			f := start(t, watchdog.Spend{Tokens: 100_000}, nil)
			server := quietTLS(t, nil)
			f.through(server.URL, nil, nil, nil)
			got := f.call(api)
			assert.Equal(t, 502, got.status)
			assert.Equal(t, "application/json", got.header.Get("Content-Type"))
			assert.Empty(t, got.header.Get("X-Should-Retry"), "a client may try again")
			why := fmt.Sprintf("watchdog: no answer from %s: %s", server.Listener.Addr(), unknown)
			assert.JSONEq(t, fmt.Sprintf(form, why), got.text)
			assert.Zero(t, f.used(0))
			lost, first := f.proxy.Unanswered()
			assert.EqualValues(t, 1, lost)
			assert.Equal(t, why, first)
			assert.Empty(t, f.proxy.Refused())
		})
	}
	const secret = "words of an answer"
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"a dial":       {&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}, "dial tcp: connection refused"},
		"an end":       {io.EOF, "the connection ended"},
		"a refusal":    {errors.New("stream error: stream ID 1; REFUSED_STREAM; received from peer"), "stream error: stream ID 1; REFUSED_STREAM; received from peer"},
		"a wrong port": {http.ErrSchemeMismatch, "http: server gave HTTP response to HTTPS client"},
		"what a server said is not repeated": {
			fmt.Errorf("net/http: HTTP/1.x transport connection broken: malformed HTTP status code %q", secret), "the connection broke",
		},
		"nor its last words": {
			fmt.Errorf("http2: server sent GOAWAY and closed the connection; LastStreamID=1, debug=%q", secret), "the connection broke",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, watchdog.Spend{Tokens: 100_000}, nil)
			f.through("https://api.example", roundTrip(func(*http.Request) (*http.Response, error) { return nil, c.err }), nil, nil)
			got := f.call(modelproxy.Anthropic)
			_, first := f.proxy.Unanswered()
			assert.Equal(t, "watchdog: no answer from api.example: "+c.says, first)
			assert.Contains(t, got.text, "no answer from api.example: ")
			assert.NotContains(t, got.text, secret)
		})
	}
	t.Run("a client that goes away is not counted", func(t *testing.T) {
		f := start(t, watchdog.Spend{Tokens: 100_000}, nil)
		began := make(chan struct{})
		f.through("https://api.example", roundTrip(func(req *http.Request) (*http.Response, error) {
			close(began)
			<-req.Context().Done()
			return nil, req.Context().Err()
		}), nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.proxy.URL(modelproxy.Anthropic)+"/v1/messages",
			strings.NewReader(calls[modelproxy.Anthropic].body))
		require.NoError(t, err)
		go func() { <-began; cancel() }()
		_, err = f.client.Do(req) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, f.proxy.Close())
		lost, _ := f.proxy.Unanswered()
		assert.Zero(t, lost)
	})
}
