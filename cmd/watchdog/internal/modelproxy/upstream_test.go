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
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// TestPaths has where requests go, and whether they count: by the path that is sent.
func TestPaths(t *testing.T) {
	const ownAnthropic, ownOpenAI = "https://api.anthropic.com", "https://api.openai.com/v1"
	const ownGemini = "https://generativelanguage.googleapis.com"
	for name, c := range map[string]struct {
		api       modelproxy.API
		base      string // empty: the variable is not set
		path      string // that a client puts after its base
		sent      string // empty: refused
		uncounted bool
	}{
		"as the SDK has it":                       {modelproxy.Anthropic, "", "/v1/messages", ownAnthropic + "/v1/messages", false},
		"as the AI SDK has it":                    {modelproxy.Anthropic, "", "/messages", ownAnthropic + "/v1/messages", false},
		"the own base, written out":               {modelproxy.Anthropic, ownAnthropic + "/", "/messages", ownAnthropic + "/v1/messages", false},
		"a base with the version":                 {modelproxy.Anthropic, ownAnthropic + "/v1", "/messages", ownAnthropic + "/v1/messages", false},
		"a version is not repeated":               {modelproxy.Anthropic, ownAnthropic + "/v1/", "/v1/messages", ownAnthropic + "/v1/messages", false},
		"a gateway with the version":              {modelproxy.Anthropic, "https://g/a/v1", "/messages", "https://g/a/v1/messages", false},
		"a gateway without":                       {modelproxy.Anthropic, "https://g/a", "/v1/messages", "https://g/a/v1/messages", false},
		"a gateway that might take what is":       {modelproxy.Anthropic, "https://g/a", "/messages", "", false},
		"another version in the base of gateways": {modelproxy.Gemini, "https://g/v1", "/v1beta/models/m:generateContent", "https://g/v1/v1beta/models/m:generateContent", false},
		"OpenAI's base has the version":           {modelproxy.OpenAI, "", "/responses", ownOpenAI + "/responses", false},
		"and a client has it, too":                {modelproxy.OpenAI, "", "/v1/chat/completions", ownOpenAI + "/chat/completions", false},
		"a gateway of OpenAI's without":           {modelproxy.OpenAI, "https://g", "/chat/completions", "https://g/chat/completions", false},
		"old completions of such a gateway":       {modelproxy.OpenAI, "https://g", "/completions", "", false},
		"a deployment":                            {modelproxy.OpenAI, "https://g/openai/deployments/d", "/chat/completions", "https://g/openai/deployments/d/chat/completions", false},
		"messages of a thread":                    {modelproxy.OpenAI, "", "/threads/t/messages", ownOpenAI + "/threads/t/messages", true},
		"Gemini's SDK":                            {modelproxy.Gemini, "", "/v1beta/models/m:generateContent", ownGemini + "/v1beta/models/m:generateContent", false},
		"Gemini without the version":              {modelproxy.Gemini, "", "/models/m:generateContent", ownGemini + "/v1beta/models/m:generateContent", false},
		"Gemini of a version of its own":          {modelproxy.Gemini, "", "/v1alpha/models/m:generateContent", ownGemini + "/v1alpha/models/m:generateContent", false},
		"an upload, with its version inside":      {modelproxy.Gemini, "", "/upload/v1beta/files", ownGemini + "/upload/v1beta/files", true},
		"what is beside the version":              {modelproxy.Anthropic, "", "/api/hello", ownAnthropic + "/api/hello", true},
		"counting tokens":                         {modelproxy.Anthropic, "", "/messages/count_tokens", ownAnthropic + "/v1/messages/count_tokens", true},
		"an escape stays":                         {modelproxy.OpenAI, "https://g/a%2Fb", "/files/x%2Fy", "https://g/a%2Fb/files/x%2Fy", true},
		"a name with a version in it":             {modelproxy.Gemini, "", "/models/v1x:generateContent", ownGemini + "/v1beta/models/v1x:generateContent", false},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				sent = append(sent, req.URL.String())
				return &http.Response{
					StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: req,
				}, nil
			})
			f := start(t, watchdog.Spend{Requests: 10}, nil)
			f.serve(&watchdoghttp.Meter{
				Base: base, Models: map[string]watchdoghttp.Maximum{"*": {Input: 100, Output: 100}},
			}, at(c.base))
			proxy := f.proxy
			resp, err := http.Post(proxy.URL(c.api)+c.path+"?x=a%2Fb", "application/json", strings.NewReader(
				`{"model":"m","messages":[],"input":"x","contents":[]}`)) // of any API
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, proxy.Close(), "which settles the call")
			if c.sent == "" {
				require.Empty(t, sent)
				require.Len(t, proxy.Refused(), 1)
				require.EqualValues(t, 1, proxy.Refused()[0].Count)
				require.Contains(t, proxy.Refused()[0].First, "not written as the API has it")
				return
			}
			want, err := url.Parse(c.sent + "?x=a%2Fb")
			require.NoError(t, err)
			require.Equal(t, []string{want.String()}, sent)
			require.Equal(t, !c.uncounted, proxy.Calls() == 1, "it is a call")
			require.Equal(t, !c.uncounted, f.used(0) == 1, "it is metered")
		})
	}
}

func TestEnviron(t *testing.T) {
	f := start(t, watchdog.Spend{}, nil)
	own := []string{
		"ANTHROPIC_BASE_URL=" + f.proxy.URL(modelproxy.Anthropic), "OPENAI_BASE_URL=" + f.proxy.URL(modelproxy.OpenAI),
		"GOOGLE_GEMINI_BASE_URL=" + f.proxy.URL(modelproxy.Gemini),
	}
	for name, c := range map[string]struct{ env, want []string }{
		"what else there is stays": {
			[]string{"A=B", "OPENAI_BASE_URL=https://gateway", "no_proxy=x.example", "ANTHROPIC_BASE_URL="},
			append([]string{"A=B", "no_proxy=x.example"}, own...),
		},
		"Claude Code signs nothing with an API key": {
			[]string{"ANTHROPIC_API_KEY=x"}, append(append([]string{"ANTHROPIC_API_KEY=x"}, own...), "CLAUDE_CODE_ATTRIBUTION_HEADER=0"),
		},
		"but as it is told": {
			[]string{"ANTHROPIC_API_KEY=x", "CLAUDE_CODE_ATTRIBUTION_HEADER=1"},
			append([]string{"ANTHROPIC_API_KEY=x", "CLAUDE_CODE_ATTRIBUTION_HEADER=1"}, own...),
		},
		"nor without a key": {[]string{"ANTHROPIC_API_KEY="}, append([]string{"ANTHROPIC_API_KEY="}, own...)},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, f.proxy.Environ(c.env)) })
	}
}

// TestDirect has what clients reach without a proxy, as the variables say in their environment.
func TestDirect(t *testing.T) {
	const all = "127.0.0.1,localhost,::1"
	f := start(t, watchdog.Spend{}, nil)
	last := func(env []string, name string) (value string, set bool) {
		for _, pair := range env {
			if of, is, _ := strings.Cut(pair, "="); of == name {
				value, set = is, true
			}
		}
		return value, set
	}
	for _, proxy := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "Https_Proxy"} {
		for name, c := range map[string]struct {
			env          []string
			upper, lower string
		}{
			"neither is set":                  {nil, all, all},
			"the upper is missing":            {[]string{"no_proxy=x.example"}, "x.example," + all, "x.example," + all},
			"the lower is missing":            {[]string{"NO_PROXY=x.example"}, "x.example," + all, "x.example," + all},
			"an empty one is missing":         {[]string{"NO_PROXY=", "no_proxy=x.example"}, "x.example," + all, "x.example," + all},
			"a blank one is missing":          {[]string{"NO_PROXY= ", "no_proxy=x.example"}, "x.example," + all, "x.example," + all},
			"each keeps its own":              {[]string{"NO_PROXY=x", "no_proxy=y"}, "x," + all, "y," + all},
			"the last of a name counts":       {[]string{"no_proxy=a", "no_proxy=x.example"}, "x.example," + all, "x.example," + all},
			"a lone star stays":               {[]string{"NO_PROXY=*", "no_proxy=x"}, "*", "x," + all},
			"and is copied":                   {[]string{"no_proxy=*"}, "*", "*"},
			"a star in a list is not alone":   {[]string{"no_proxy=*,x"}, "*,x," + all, "*,x," + all},
			"nor is one that curl would miss": {[]string{"no_proxy= *"}, " *," + all, " *," + all},
			"what is named is not doubled":    {[]string{"NO_PROXY=127.0.0.1,x", "no_proxy=" + all}, "127.0.0.1,x,localhost,::1", all},
			"in any case and with blanks":     {[]string{"NO_PROXY=LocalHost , ::1"}, "LocalHost , ::1,127.0.0.1", "LocalHost , ::1,127.0.0.1"},
			"a list with a comma at its end":  {[]string{"NO_PROXY=x, "}, "x," + all, "x," + all},
			"a list of blanks, which Go and Python take for one name": {
				[]string{"NO_PROXY=x 127.0.0.1"}, "x 127.0.0.1," + all, "x 127.0.0.1," + all,
			},
			"a port is another name": {[]string{"NO_PROXY=localhost:80"}, "localhost:80," + all, "localhost:80," + all},
		} {
			t.Run(proxy+": "+name, func(t *testing.T) {
				env := f.proxy.Environ(append([]string{proxy + "=http://p"}, c.env...))
				upper, _ := last(env, "NO_PROXY")
				lower, _ := last(env, "no_proxy")
				require.Equal(t, c.upper, upper)
				require.Equal(t, c.lower, lower)
			})
		}
	}
	t.Run("without a proxy both stay as they are", func(t *testing.T) {
		env := f.proxy.Environ([]string{"HTTPS_PROXY=", "no_proxy=x"})
		_, set := last(env, "NO_PROXY")
		require.False(t, set)
		lower, _ := last(env, "no_proxy")
		require.Equal(t, "x", lower)
	})
}

// TestHint has what Gemini CLI is told, which refuses to start otherwise.
func TestHint(t *testing.T) {
	const chosen = `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`
	for name, c := range map[string]struct {
		command  string
		settings string
		env      string
		want     bool
	}{
		"Gemini CLI without settings":          {"gemini -p x", "", "", true},
		"by its path":                          {"/usr/bin/gemini", "", "", true},
		"with other settings":                  {"gemini", `{"ui": {}}`, "", true},
		"from the registry":                    {"npx -y @google/gemini-cli@1.2.3 -p x", "", "", true},
		"in a shell":                           {"sh -c exec gemini -p x", "", "", true},
		"with a variable of its own":           {"env A=B gemini", "", "", true},
		"with settings that choose":            {"gemini", chosen, "", false},
		"which calls Vertex AI":                {"gemini", "", "GOOGLE_GENAI_USE_VERTEXAI", false},
		"which calls for an account":           {"gemini", "", "GOOGLE_GENAI_USE_GCA", false},
		"another command":                      {"claude -p gemini", "", "", false},
		"another command in a shell":           {"sh -c echo gemini", "", "", false},
		"nothing but what starts something":    {"sh", "", "", false},
		"a command with the name in its own":   {"geminid", "", "", false},
		"settings that cannot choose anything": {"gemini", "nothing", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			settings := filepath.Join(home, ".gemini", "settings.json")
			if c.settings != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(settings), 0o700))
				require.NoError(t, os.WriteFile(settings, []byte(c.settings), 0o600))
			}
			for _, variable := range []string{"HOME", "GEMINI_CLI_HOME"} {
				hint := modelproxy.Hint(strings.Split(c.command, " "), func(name string) (string, bool) {
					switch name {
					case variable:
						return home, true
					case c.env:
						return "true", true
					case "HOME":
						return "/nowhere", true
					}
					return "", false
				})
				if !c.want {
					require.Empty(t, hint)
					continue
				}
				require.Contains(t, hint, settings)
				require.Contains(t, hint, "gemini-api-key")
			}
		})
	}
}

// at is an environment in which all APIs are at one base, or no variable is set for an empty one.
func at(base string) map[string]string {
	env := map[string]string{}
	for _, name := range modelproxy.Variables() {
		if base != "" {
			env[name] = base
		}
	}
	return env
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
			env := at(server.URL)
			maps.Copy(env, c.env)
			f.serve(&watchdoghttp.Meter{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, env)
			require.Equal(t, c.status, f.call(modelproxy.OpenAI).status)
			for _, says := range c.says {
				require.Contains(t, logged.String(), says)
			}
			if c.says == nil {
				require.NotContains(t, logged.String(), "certificate")
			}
		})
	}
	t.Run("what the machine trusts stays trusted", func(t *testing.T) {
		want, err := x509.SystemCertPool()
		require.NoError(t, err)
		want.AddCert(server.Certificate())
		roots := modelproxy.Trusted(func(name string) (string, bool) { return certificate, name == "NODE_EXTRA_CA_CERTS" }, nil)
		require.True(t, want.Equal(roots))
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
			f.serve(&watchdoghttp.Meter{}, at(server.URL))
			got := f.call(api)
			require.Equal(t, 502, got.status)
			require.Equal(t, "application/json", got.header.Get("Content-Type"))
			require.Empty(t, got.header.Get("X-Should-Retry"), "a client may try again")
			why := fmt.Sprintf("watchdog: no answer from %s: %s", server.Listener.Addr(), unknown)
			require.JSONEq(t, fmt.Sprintf(form, why), got.text)
			require.Zero(t, f.used(0))
			lost, first := f.proxy.Unanswered()
			require.EqualValues(t, 1, lost)
			require.Equal(t, why, first)
			require.Empty(t, f.proxy.Refused())
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
			fails := roundTrip(func(*http.Request) (*http.Response, error) { return nil, c.err })
			f.serve(&watchdoghttp.Meter{Base: fails}, at("https://api.example"))
			got := f.call(modelproxy.Anthropic)
			_, first := f.proxy.Unanswered()
			require.Equal(t, "watchdog: no answer from api.example: "+c.says, first)
			require.Contains(t, got.text, "no answer from api.example: ")
			require.NotContains(t, got.text, secret)
		})
	}
	t.Run("a client that goes away is not counted", func(t *testing.T) {
		f := start(t, watchdog.Spend{Tokens: 100_000}, nil)
		began := make(chan struct{})
		f.serve(&watchdoghttp.Meter{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			close(began)
			<-req.Context().Done()
			return nil, req.Context().Err()
		})}, at("https://api.example"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-began; cancel() }()
		_, err := f.client.Do(f.request(ctx, modelproxy.Anthropic)) //nolint:bodyclose // there is none
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, f.proxy.Close())
		lost, _ := f.proxy.Unanswered()
		require.Zero(t, lost)
	})
}

// BenchmarkFirstByte is how much later the first byte of a stream comes through the proxy: calls by turns with and
// without it, and the difference of their medians. A call is short, or a conversation of 80 KB that grows.
func BenchmarkFirstByte(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		for _, chunk := range stream(1) {
			_, _ = io.WriteString(w, chunk)
			w.(http.Flusher).Flush()
		}
	}))
	defer upstream.Close()
	short := calls[modelproxy.Anthropic].body
	turn := `{"role":"assistant","content":"` + strings.Repeat("so it is ", 220) + `"},{"role":"user","content":"go on"},`
	for name, body := range map[string]string{
		"short": short, "80KB": strings.Replace(short, `"messages":[`, `"messages":[`+strings.Repeat(turn, 40), 1),
	} {
		b.Run("of="+name, func(b *testing.B) {
			proxy, end := metering(b, upstream.URL)
			defer end()
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			var took [2][]time.Duration
			for b.Loop() {
				for way, base := range []string{upstream.URL, proxy.URL(modelproxy.Anthropic)} {
					took[way] = append(took[way], firstByte(b, client, base, body))
				}
			}
			direct, through := middle(took[0]), middle(took[1])
			b.ReportMetric(float64(direct.Microseconds()), "direct-us")
			b.ReportMetric(float64((through - direct).Microseconds()), "added-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// metering starts the proxy of a run that may use as much as it likes.
func metering(tb testing.TB, to string) (proxy *modelproxy.Proxy, end func()) {
	tb.Helper()
	wd, err := watchdog.New(tb.Context(), watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: 1 << 60}}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	proxy, err = modelproxy.Start(wd.Context(), &watchdoghttp.Meter{}, func(string) (string, bool) { return to, true })
	require.NoError(tb, err)
	return proxy, func() {
		require.NoError(tb, proxy.Close())
		require.NoError(tb, wd.Close())
	}
}

// BenchmarkStreams is how much longer a thousand streams at once take through the proxy, each of a hundred events at the
// pace of a model, by turns with and without it: run it with -benchtime=1x -count=3.
func BenchmarkStreams(b *testing.B) {
	const streams, events, pace = 1000, 100, 100 * time.Millisecond
	chunks := stream(1)
	chunks = slices.Concat(chunks[:1], slices.Repeat(chunks[1:2], events), chunks[len(chunks)-2:])
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for _, chunk := range chunks {
			_, _ = io.WriteString(w, chunk)
			w.(http.Flusher).Flush()
			<-tick.C
		}
	}))
	defer upstream.Close()
	proxy, end := metering(b, upstream.URL)
	defer end()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	var took [2]time.Duration
	for b.Loop() {
		for way, base := range []string{upstream.URL, proxy.URL(modelproxy.Anthropic)} {
			began := time.Now()
			var all sync.WaitGroup
			for range streams {
				all.Go(func() { firstByte(b, client, base, calls[modelproxy.Anthropic].body) })
			}
			all.Wait()
			took[way] += time.Since(began)
		}
	}
	b.ReportMetric(took[0].Seconds()/float64(b.N), "direct-s")
	b.ReportMetric((took[1].Seconds()/took[0].Seconds()-1)*100, "%slower")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMemory is what a run with a proxy keeps when its calls have ended.
func BenchmarkMemory(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		for _, chunk := range stream(10) {
			_, _ = io.WriteString(w, chunk)
		}
	}))
	defer upstream.Close()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	one := func() func() {
		proxy, end := metering(b, upstream.URL)
		firstByte(b, client, proxy.URL(modelproxy.Anthropic), calls[modelproxy.Anthropic].body)
		return end
	}
	one()()
	before := heap()
	var ends []func()
	for b.Loop() {
		ends = append(ends, one())
	}
	b.ReportMetric(float64(heap()-before)/1024/float64(b.N), "KiB/run")
	for _, end := range ends {
		end()
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var all runtime.MemStats
	runtime.ReadMemStats(&all)
	return int64(all.HeapAlloc)
}

func firstByte(b *testing.B, client *http.Client, base, body string) time.Duration {
	b.Helper()
	began := time.Now()
	resp, err := client.Post(base+"/v1/messages", "application/json", strings.NewReader(body))
	require.NoError(b, err)
	defer resp.Body.Close()
	_, err = resp.Body.Read(make([]byte, 1))
	require.NoError(b, err)
	took := time.Since(began)
	_, _ = io.Copy(io.Discard, resp.Body)
	return took
}

func middle(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }
