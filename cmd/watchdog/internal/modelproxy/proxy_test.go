package modelproxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
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
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// patience bounds what should take milliseconds.
const patience = 2 * time.Minute

const canary = "sk-canary-1234567890"

// A fixture is a run, an upstream in place of the model APIs, and the proxy between.
type fixture struct {
	*testing.T
	wd       *watchdog.Watchdog
	proxy    *modelproxy.Proxy
	upstream *httptest.Server
	client   *http.Client
}

func start(t *testing.T, spend watchdog.Spend, serve http.HandlerFunc) *fixture {
	t.Helper()
	f := &fixture{T: t, upstream: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body) // only then the server sees that a client goes away
		req.Body = io.NopCloser(bytes.NewReader(body))
		serve(w, req)
	}))}
	t.Cleanup(f.upstream.Close)
	wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{
			Spend:   spend,
			Ladders: watchdog.Ladders{Requests: []watchdog.DirectiveKind{watchdog.DirectiveWait}}, // refused, and the run goes on
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	f.wd = wd
	t.Cleanup(func() { _ = wd.Close() })
	base := f.upstream.URL + "/gateway"
	f.serve(&watchdoghttp.Meter{}, map[string]string{
		"ANTHROPIC_BASE_URL": base, "OPENAI_BASE_URL": base + "/v1", "GOOGLE_GEMINI_BASE_URL": base,
	})
	t.Cleanup(func() { assert.NoError(t, f.proxy.Close()) })
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	f.client = &http.Client{Transport: transport, Timeout: patience}
	return f
}

// serve has another proxy take the calls, with a meter and an environment.
func (f *fixture) serve(meter *watchdoghttp.Meter, env map[string]string) {
	f.Helper()
	if f.proxy != nil {
		require.NoError(f, f.proxy.Close())
	}
	proxy, err := modelproxy.Start(f.wd.Context(), meter, func(name string) (value string, set bool) {
		value, set = env[name]
		return value, set
	})
	require.NoError(f, err)
	f.proxy = proxy
}

var calls = map[modelproxy.API]struct{ path, body, answer string }{
	modelproxy.Anthropic: {
		"/v1/messages", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`,
		`{"type":"message","usage":{"input_tokens":10,"output_tokens":5}}`,
	},
	modelproxy.OpenAI: {
		"/chat/completions", `{"model":"m","max_completion_tokens":100,"messages":[{"role":"user","content":"hello"}]}`,
		`{"object":"chat.completion","usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`,
	},
	modelproxy.Gemini: {
		"/v1beta/models/m:generateContent",
		`{"contents":[{"parts":[{"text":"hello"}]}],"generationConfig":{"maxOutputTokens":100}}`,
		`{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15}}`,
	},
}

// An answer is what a client gets.
type answer struct {
	status int
	header http.Header
	text   string
}

// request is a call of an API.
func (f *fixture) request(ctx context.Context, api modelproxy.API) *http.Request {
	f.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.proxy.URL(api)+calls[api].path+"?x=a%2Fb",
		strings.NewReader(calls[api].body))
	require.NoError(f, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", canary)
	return req
}

// begin sends a call of Anthropic, and returns its answer when that has begun.
func (f *fixture) begin(ctx context.Context) io.Reader {
	f.Helper()
	resp, err := f.client.Do(f.request(ctx, modelproxy.Anthropic))
	require.NoError(f, err)
	f.Cleanup(func() { _ = resp.Body.Close() })
	return resp.Body
}

// call sends a call of an API.
func (f *fixture) call(api modelproxy.API) answer {
	f.Helper()
	resp, err := f.client.Do(f.request(f.Context(), api))
	require.NoError(f, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(f, err)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (f *fixture) used(i int) int64 { return f.wd.Usage()[i].Used }

func TestProxy(t *testing.T) {
	for api, c := range calls {
		t.Run("a call of "+string(api)+" passes as it is, and is charged", func(t *testing.T) {
			f := start(t, watchdog.Spend{Tokens: 100_000}, func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				path := "/gateway" + c.path
				if api == modelproxy.OpenAI {
					path = "/gateway/v1" + c.path
				}
				assert.Equal(t, path, req.URL.Path)
				assert.Equal(t, "x=a%2Fb", req.URL.RawQuery)
				assert.Equal(t, c.body, string(body))
				assert.Equal(t, canary, req.Header.Get("Authorization"))
				assert.Empty(t, req.Header.Get("X-Forwarded-For"))
				assert.NotContains(t, req.Host, "127.0.0.1:0")
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Request-Id", "7")
				_, _ = io.WriteString(w, c.answer)
			})
			got := f.call(api)
			assert.Equal(t, 200, got.status)
			assert.Equal(t, c.answer, got.text)
			assert.Equal(t, "7", got.header.Get("Request-Id"))
			assert.EqualValues(t, 15, f.used(0))
			assert.EqualValues(t, 1, f.proxy.Calls())
		})
	}
}

// TestRefused checks that a call that does not fit reaches nobody, and what its client is told.
func TestRefused(t *testing.T) {
	for api, want := range map[modelproxy.API]struct {
		status int
		kind   string
	}{
		modelproxy.Anthropic: {402, `"type":"billing_error"`},
		modelproxy.OpenAI:    {400, `"type":"insufficient_quota"`},
		modelproxy.Gemini:    {400, `"status":"FAILED_PRECONDITION"`},
	} {
		t.Run(string(api), func(t *testing.T) {
			f := start(t, watchdog.Spend{Tokens: 50}, func(http.ResponseWriter, *http.Request) {
				t.Error("a call that does not fit was sent")
			})
			for range 2 { // refused; then the run has ended
				got := f.call(api)
				assert.Equal(t, want.status, got.status)
				assert.Equal(t, "false", got.header.Get("X-Should-Retry"))
				assert.Empty(t, got.header.Get("Retry-After"))
				assert.Equal(t, "application/json", got.header.Get("Content-Type"))
				assert.True(t, json.Valid([]byte(got.text)), got.text)
				assert.Contains(t, got.text, want.kind)
				assert.Contains(t, got.text, "watchdog")
				assert.NotContains(t, got.text, canary)
				<-f.wd.Context().Done()
			}
			assert.EqualValues(t, 2, f.proxy.Calls())
		})
	}
	t.Run("one that would not be metered", func(t *testing.T) {
		f := start(t, watchdog.Spend{Tokens: 50_000}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.proxy.URL(modelproxy.OpenAI)+"/realtime", nil)
		require.NoError(t, err)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
		resp, err := f.client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 426, resp.StatusCode, "after which a client goes on with plain requests")
		assert.Zero(t, f.proxy.Calls(), "it is none of a model")
		assert.Empty(t, f.proxy.Refused(), "it is harmless")
	})
	t.Run("one whose path servers and the meter may read in different ways", func(t *testing.T) {
		f := start(t, watchdog.Spend{Tokens: 50_000}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
		base, host := f.proxy.URL(modelproxy.Anthropic), strings.Split(f.proxy.URL(modelproxy.Anthropic), "/")[2]
		_, base, _ = strings.Cut(base, host)
		for _, path := range []string{
			"/v1//messages", "/v1/messages/.", "/v1/messages/x/..", "/v1/./messages", "/V1/Messages", "/v1%2f%2fmessages",
			"/v1/x/%2e%2e/messages", "/chat//completions", "/Responses",
		} {
			raw := "POST " + base + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
			assert.Contains(t, send(t, host, raw), "402", path)
		}
		assert.Zero(t, f.used(0))
		assert.Contains(t, f.proxy.Refused()[0].First, "not written as the API has it")
	})
	t.Run("a redirect, which would lead around the meter", func(t *testing.T) {
		f := start(t, watchdog.Spend{Tokens: 50_000}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/v1/messages?key="+canary)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		for api := range calls {
			got := f.call(api)
			assert.Contains(t, []int{400, 402}, got.status, "after which a client ends")
			assert.Empty(t, got.header.Get("Location"))
			assert.Contains(t, got.text, "redirect")
			assert.NotContains(t, got.text, canary)
		}
		assert.Zero(t, f.used(0))
	})
}

// TestElsewhere checks that the proxy forwards to the hosts that it was given, and to nobody who does not know its path.
func TestElsewhere(t *testing.T) {
	var reached atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	f := start(t, watchdog.Spend{}, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	base, secret, _ := strings.Cut(strings.TrimSuffix(f.proxy.URL(modelproxy.OpenAI), "/openai"), "//")
	host, secret, _ := strings.Cut(secret, "/")
	assert.True(t, strings.HasPrefix(host, "127.0.0.1:"))
	assert.GreaterOrEqual(t, len(secret), 26, "of 128 bits at least")
	for _, target := range []string{
		"/", "/openai/chat/completions", "/" + secret, "/" + secret + "x/openai/models", "/" + secret + "/other/models",
		"/" + strings.ToLower(secret) + "/openai/models", "/x/../" + secret + "/openai/models", elsewhere.URL + "/v1/models",
		elsewhere.URL + "/" + secret,
	} {
		raw := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host)
		assert.Contains(t, send(t, host, raw), "404", target)
	}
	assert.Contains(t, send(t, host, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"), "404")
	assert.Zero(t, reached.Load())
	assert.Equal(t, "http:", base)
	// The path is another in each proxy.
	assert.NotContains(t, start(t, watchdog.Spend{}, nil).proxy.URL(modelproxy.OpenAI), secret)
}

// TestUnchanged checks that no byte of many parallel streams is changed, in any encoding, and that the cap holds.
func TestUnchanged(t *testing.T) {
	const each = 1000
	var served atomic.Int64
	f := start(t, watchdog.Spend{Requests: each - 100}, func(w http.ResponseWriter, req *http.Request) {
		n := served.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		var out io.Writer = w
		if strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			zipped := gzip.NewWriter(w)
			defer zipped.Close()
			out = zipped
		}
		for _, chunk := range stream(n) {
			_, _ = io.WriteString(out, chunk)
			w.(http.Flusher).Flush()
		}
	})
	var refused, changed atomic.Int64
	var all sync.WaitGroup
	for i := range each {
		all.Go(func() {
			req := f.request(t.Context(), modelproxy.Anthropic)
			if i%2 == 0 {
				req.Header.Set("Accept-Encoding", "gzip, br, zstd")
			}
			resp, err := f.client.Do(req)
			if !assert.NoError(t, err) {
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode == 402 {
				refused.Add(1)
				return
			}
			var body io.Reader = resp.Body
			if resp.Header.Get("Content-Encoding") == "gzip" {
				if body, err = gzip.NewReader(body); !assert.NoError(t, err) {
					return
				}
			}
			text, err := io.ReadAll(body)
			assert.NoError(t, err)
			if !whole(string(text)) {
				changed.Add(1)
			}
		})
	}
	all.Wait()
	assert.Zero(t, changed.Load())
	assert.LessOrEqual(t, served.Load(), int64(each-100), "the cap holds")
	assert.GreaterOrEqual(t, refused.Load(), int64(100))
}

// stream is a stream of Anthropic's of many chunks; the last has a digest of the others.
func stream(n int64) (chunks []string) {
	chunks = append(chunks, `data: {"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}`+"\n\n")
	for i := range 20 {
		text := fmt.Sprintf("é%d-%d ", n, i)
		chunks = append(chunks, `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"`+text+`"}}`+"\n\n")
	}
	chunks = append(chunks, `data: {"type":"message_delta","usage":{"output_tokens":5}}`+"\n\n")
	return append(chunks, fmt.Sprintf(": %x\n", sha256.Sum256([]byte(strings.Join(chunks, "")))))
}

func whole(text string) bool {
	body, sum, found := strings.Cut(text, ": "+text[max(0, len(text)-65):])
	return found && sum == "" && fmt.Sprintf("%x\n", sha256.Sum256([]byte(body))) == text[len(text)-65:]
}

// TestAtOnce checks that each chunk is handed on when it comes.
func TestAtOnce(t *testing.T) {
	next := make(chan struct{})
	f := start(t, watchdog.Spend{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	lines := bufio.NewScanner(f.begin(t.Context()))
	for i := range 3 {
		require.True(t, lines.Scan())
		assert.Equal(t, fmt.Sprintf("data: %d", i), lines.Text())
		next <- struct{}{}
	}
}

func TestVanished(t *testing.T) {
	t.Run("a client that goes away ends the call upstream", func(t *testing.T) {
		ended := make(chan struct{})
		f := start(t, watchdog.Spend{}, func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-req.Context().Done()
			close(ended)
		})
		ctx, cancel := context.WithCancel(t.Context())
		f.begin(ctx)
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("it goes on")
		}
	})
	t.Run("an upstream that breaks off breaks off for the client", func(t *testing.T) {
		f := start(t, watchdog.Spend{}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		_, err := io.ReadAll(f.begin(t.Context()))
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	t.Run("a run that ends ends the calls under way", func(t *testing.T) {
		began := make(chan struct{})
		f := start(t, watchdog.Spend{}, func(_ http.ResponseWriter, req *http.Request) {
			close(began)
			<-req.Context().Done()
		})
		go func() {
			<-began
			_, _ = f.wd.Cancel(watchdog.Cancellation{Reason: "operator_stopped"})
		}()
		got := f.call(modelproxy.Anthropic)
		assert.Equal(t, 402, got.status)
		assert.Contains(t, got.text, "the run has ended: operator_stopped")
	})
}

// TestSecrets checks that no key or text of a call is logged or answered with, whatever goes wrong.
func TestSecrets(t *testing.T) {
	var logged bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(old) // the log of package log, too
	f := start(t, watchdog.Spend{Tokens: 5000}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	for api := range calls {
		assert.NotContains(t, f.call(api).text, canary)
	}
	f.upstream.Close()
	for _, body := range []string{`{"model":"` + canary + `"`, canary, `{"` + canary + `":[]}`} {
		resp, err := f.client.Post(f.proxy.URL(modelproxy.Anthropic)+"/v1/messages?key="+canary, "", strings.NewReader(body))
		require.NoError(t, err)
		text, _ := io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		assert.NotContains(t, string(text), canary, "of %s", body)
	}
	assert.NotContains(t, logged.String(), canary)
	_, err := modelproxy.Start(t.Context(), &watchdoghttp.Meter{}, func(string) (string, bool) {
		return "https://user:" + canary + "@host", true
	})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), canary)
	assert.Contains(t, err.Error(), "ANTHROPIC_BASE_URL")
}

// TestHeldOnce measures the memory of calls under way. Their maximum of output is set, so that another body is sent than
// came: it must be made of the one that is held.
func TestHeldOnce(t *testing.T) {
	const calls, size = 4, 8 << 20
	came, answer := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		first := make([]byte, 25)
		_, _ = io.ReadFull(req.Body, first)
		assert.Equal(t, `{"max_completion_tokens":`, string(first))
		_, _ = io.Copy(io.Discard, req.Body)
		came <- struct{}{}
		<-answer
		_, _ = io.WriteString(w, `{"object":"chat.completion","usage":{"prompt_tokens":10,"completion_tokens":5}}`)
	}))
	t.Cleanup(upstream.Close)
	proxy, end := metering(t, upstream.URL)
	t.Cleanup(end)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	before := heap()
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			open, shut := `{"model":"m","messages":[{"role":"user","content":"`, `"}]}`
			body := io.MultiReader(strings.NewReader(open), io.LimitReader(endless{}, size), strings.NewReader(shut))
			req, err := http.NewRequest(http.MethodPost, proxy.URL(modelproxy.OpenAI)+"/chat/completions", body)
			if !assert.NoError(t, err) {
				return
			}
			req.ContentLength = int64(len(open) + size + len(shut))
			resp, err := client.Do(req)
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.NoError(t, resp.Body.Close())
			}
		})
	}
	for range calls {
		<-came
	}
	held := heap() - before
	close(answer)
	all.Wait()
	assert.Less(t, float64(held)/(calls*size), 1.2, "bytes held for each that is under way")
}

// endless is a text without an end.
type endless struct{}

// Read implements [io.Reader].
func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestClose checks that a proxy that is closed has settled its calls: the run can be closed then.
func TestClose(t *testing.T) {
	f := start(t, watchdog.Spend{Tokens: 1_000_000}, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(stream(1)[0]))
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	})
	for range 20 {
		_, err := f.begin(t.Context()).Read(make([]byte, 1))
		require.NoError(t, err)
	}
	require.NoError(t, f.proxy.Close())
	require.NoError(t, f.wd.Close())
	assert.Zero(t, f.wd.Usage()[0].Admitted)
	most := len(calls[modelproxy.Anthropic].body) + 1024 + 16 + 100
	assert.EqualValues(t, 20*most, f.used(0), "they count with the most, because nobody knows what they were billed")
	address, _, _ := strings.Cut(strings.TrimPrefix(f.proxy.URL(modelproxy.Anthropic), "http://"), "/")
	_, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// send sends bytes to the host and returns what it answers.
func send(t *testing.T, host, request string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
