package watchdoghttp_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

const (
	meteredCall   = `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"secret words"}]}`
	meteredStart  = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"
	meteredDelta  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"secret words\"}}\n\n"
	meteredEnd    = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n"
	meteredAnswer = `{"model":"m","content":[],"usage":{"input_tokens":25,"output_tokens":7}}`
)

// meteredMost is what meteredCall can take in.
const meteredMost = int64(len(meteredCall)) + 1024 + 16

const meteredPrices = `{"currency": "EUR", "date": "2026-08-01", "models": {"m*": {"input": 1000000, "output": 2000000},
	"large": {"input": 10000000, "cache_write_1h": 20000000, "output": 20000000}}}`

// spending guards a run with the limits.
func spending(tb testing.TB, limits watchdog.Spend) *watchdog.Watchdog {
	tb.Helper()
	limits.WarnAt = []float64{}
	wd, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{
		Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{Spend: limits},
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { wd.Close() })
	return wd
}

// used is what the run has used of its limits.
func used(t *testing.T, wd *watchdog.Watchdog) (all []int64) {
	t.Helper()
	for _, u := range wd.Usage() {
		require.Zero(t, u.Admitted, u)
		all = append(all, u.Used)
	}
	return all
}

// post sends a call of a model in the run, to /v1/messages if the URL has no path.
func post(t *testing.T, wd *watchdog.Watchdog, meter http.RoundTripper, url, body string) (answer string, err error) {
	t.Helper()
	if strings.Count(url, "/") == 2 {
		url += "/v1/messages"
	}
	req := request(wd.Context(), t, http.MethodPost, url, strings.NewReader(body))
	resp, err := (&http.Client{Transport: meter}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// answering is a base that answers with the body.
func answering(status int, header http.Header, body io.ReadCloser) http.RoundTripper {
	return based(func(req *http.Request) (*http.Response, error) {
		text, err := io.ReadAll(req.Body)
		if req.ContentLength != int64(len(text)) {
			err = errors.New("another length")
		}
		return &http.Response{StatusCode: status, Header: header, Body: body, Request: req}, err
	})
}

// always is a base that answers with the text each time.
func always(text string) http.RoundTripper {
	return based(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: texts(text)}, nil
	})
}

// failing is a base that has no answer.
func failing(err error) http.RoundTripper {
	return based(func(*http.Request) (*http.Response, error) { return nil, err })
}

func texts(body string) io.ReadCloser { return io.NopCloser(strings.NewReader(body)) }

// cutOff is a body that ends with an error.
func cutOff(body string) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)))
}

func pricesOf(t *testing.T) *watchdoghttp.Prices {
	t.Helper()
	prices, err := watchdoghttp.ReadPrices([]byte(meteredPrices), "EUR")
	require.NoError(t, err)
	return prices
}

// TestMeterCharges says what a call is charged with, by what comes of it: input, output, cost and requests.
func TestMeterCharges(t *testing.T) {
	const failed = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"
	const broken = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":-1}}\n\n"
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	io.WriteString(w, meteredAnswer)
	require.NoError(t, w.Close())
	encoded := func(encoding string) http.RoundTripper {
		header := http.Header{"Content-Encoding": {encoding}}
		return answering(200, header, io.NopCloser(bytes.NewReader(zipped.Bytes())))
	}
	answer := func(text string) http.RoundTripper { return answering(200, http.Header{}, texts(text)) }
	status := func(status int) http.RoundTripper { return answering(status, nil, texts(`{"error":{}}`)) }
	const vendor, other = "https://api.anthropic.com", "https://llm.example:8443"
	const openAI, google = "https://api.openai.com:443", "https://generativelanguage.googleapis.com"
	known, most := []int64{25, 7, 25 + 2*7, 1}, []int64{meteredMost, 10, meteredMost + 2*10, 1}
	nothing, refused := []int64{0, 0, 0, 0}, []int64{0, 0, 0, 1}
	for name, of := range map[string]struct {
		base  http.RoundTripper
		url   string
		body  string
		meter func(*watchdoghttp.Meter)
		want  []int64
	}{
		"an answer":                 {base: answer(meteredAnswer), want: known},
		"a stream":                  {base: answer(meteredStart + meteredDelta + meteredEnd), want: known},
		"one that is compressed":    {base: encoded("gzip"), want: known},
		"one that nobody can read":  {base: encoded("br"), want: most},
		"one without a body":        {base: answering(204, nil, nil), want: most},
		"one with none":             {base: answering(200, nil, http.NoBody), want: most},
		"one shorter than it says":  {base: answering(200, nil, cutOff(meteredAnswer)), want: known},
		"one without usage":         {base: answer(`{}`), want: most},
		"a stream that is cut off":  {base: answering(200, nil, cutOff(meteredStart)), want: most},
		"a part of its first event": {base: answering(200, nil, cutOff(meteredStart[:50])), want: most},
		"a vendor's own stream that is cut off has the input that it said": {
			url: vendor, base: answering(200, nil, cutOff(meteredStart)), want: []int64{25, 10, most[2], 1},
		},
		"an error in a stream has what that said by then": {
			base: answer(meteredStart + meteredDelta + failed), want: []int64{25, 1, 27, 1},
		},
		"an error before any usage": {url: vendor, base: answer(failed), want: most},
		"the more of the admission and of what came before an answer that cannot be read to its end": {
			base: answer(meteredStart + strings.Replace(meteredEnd, ":7", ":50", 1) + broken),
			want: []int64{meteredMost, 50, most[2], 1},
		},
		"a rate limit":            {base: status(429), want: refused},
		"a request that is wrong": {base: status(400), want: refused},
		"an outage of a host":     {url: other, base: status(503), want: most},
		"an outage of one that is declared": {
			url: other, base: status(503), want: refused,
			meter: func(m *watchdoghttp.Meter) { m.ErrorsFree = []string{"llm.example"} },
		},
		"an outage of Anthropic's":                       {url: vendor, base: status(503), want: refused},
		"an outage of OpenAI's":                          {url: openAI, base: status(503), want: refused},
		"an outage of Google's":                          {url: google, base: status(503), want: refused},
		"a timeout while the model of a vendor works on": {url: vendor, base: status(504), want: most},

		"a connection that was refused": {base: failing(&net.OpError{Op: "dial", Err: errHostGone}), want: nothing},
		"one that was lost":             {base: failing(&net.OpError{Op: "read", Err: errHostGone}), want: most},
		"a caller that gave up":         {base: failing(context.Canceled), want: most},
		"a redirect costs nothing, and the call after it is charged": {
			base: based(func(req *http.Request) (*http.Response, error) {
				if req.URL.Path == "/v1/messages" {
					header := http.Header{"Location": {"/other/v1/messages"}}
					return &http.Response{StatusCode: http.StatusTemporaryRedirect, Header: header, Body: texts("")}, nil
				}
				return &http.Response{StatusCode: http.StatusOK, Body: texts(meteredAnswer)}, nil
			}), want: []int64{25, 7, known[2], 2},
		},
		"the price of the model that answers": {
			base: answer(strings.Replace(meteredAnswer, `"m"`, `"large"`, 1)), want: []int64{25, 7, 250 + 140, 1},
		},
		"the dearest class before the call": {
			base: answer(`{}`), body: strings.Replace(meteredCall, `"m"`, `"large"`, 1),
			want: []int64{meteredMost + 4, 10, (meteredMost+4)*20 + 10*20, 1},
		},
		"a declared maximum": {
			base: answer(meteredAnswer),
			body: `{"model":"m-2","messages":[{"role":"user","content":[{"type":"container_upload"}]}]}`,
			meter: func(m *watchdoghttp.Meter) {
				m.Models, m.KeepMaximum = map[string]watchdoghttp.Maximum{"m-*": {Input: 90, Output: 50}}, true
			}, want: known,
		},
		"an API that is not read": {
			base: answer(meteredAnswer), url: other + "/v1/embeddings", body: `{}`,
			meter: func(m *watchdoghttp.Meter) { m.CountUnbounded = true }, want: []int64{0, 0, 0, 1},
		},
		"what is no call of a model":  {base: answer(meteredAnswer), url: other + "/v1/other", want: nothing},
		"what is for another service": {base: answer(meteredAnswer), body: `{"text":1}`, want: nothing},
	} {
		t.Run(name, func(t *testing.T) {
			body := cmp.Or(of.body, meteredCall)
			meter := &watchdoghttp.Meter{Prices: pricesOf(t), Logger: slog.New(slog.DiscardHandler)}
			if of.meter != nil {
				of.meter(meter)
			}
			meter.Base = based(func(req *http.Request) (*http.Response, error) {
				if req.GetBody != nil {
					again, err := req.GetBody()
					require.NoError(t, err)
					sent, err := io.ReadAll(again)
					require.NoError(t, err)
					require.Equal(t, body, string(sent), "no byte is changed")
				}
				return of.base.RoundTrip(req)
			})
			wd := spending(t, watchdog.Spend{
				InputTokens: 99_999, OutputTokens: 99_999, Requests: 99,
				Cost: watchdog.Money{Micros: 1_000_000, Currency: "EUR"},
			})
			_, _ = post(t, wd, meter, cmp.Or(of.url, "http://model.test"), body)
			require.Equal(t, of.want, used(t, wd))
		})
	}
	t.Run("one that is not read settles at once", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{Requests: 99})
		req := request(wd.Context(), t, http.MethodPost, other+"/v1/embeddings", strings.NewReader(`{}`))
		meter := &watchdoghttp.Meter{Base: answer("{}"), CountUnbounded: true}
		_, err := meter.RoundTrip(req) //nolint:bodyclose // it is never read
		require.NoError(t, err)
		require.Equal(t, []int64{1}, used(t, wd))
	})
	t.Run("errors and retries, up to a call that is answered", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{Errors: 9, Retries: 9})
		for _, step := range []struct {
			base http.RoundTripper
			want []int64
		}{
			{failing(errHostGone), []int64{1, 0}}, {status(400), []int64{2, 0}}, {status(403), []int64{3, 0}},
			{status(500), []int64{3, 1}}, {status(429), []int64{3, 2}}, {answer(meteredAnswer), []int64{0, 0}},
		} {
			_, _ = post(t, wd, &watchdoghttp.Meter{Base: step.base}, "http://model.test", meteredCall)
			require.Equal(t, step.want, used(t, wd))
		}
	})
	t.Run("without a run nothing", func(t *testing.T) {
		req := request(t.Context(), t, http.MethodPost, "http://model.test/v1/messages", strings.NewReader(`{}`))
		_, err := fetch(t, (&watchdoghttp.Meter{Base: failing(errHostGone)}).RoundTrip, req)
		require.ErrorIs(t, err, errHostGone)
	})
}

// TestMeterRefuses protects that a call is not sent that does not fit or has no bound, and that its body is closed.
func TestMeterRefuses(t *testing.T) {
	prices := pricesOf(t)
	require.Equal(t, "EUR", prices.Currency())
	require.Equal(t, 2026, prices.Date().Year())
	_, err := watchdoghttp.ReadPrices([]byte(meteredPrices), "USD")
	require.ErrorContains(t, err, "EUR")
	for name, of := range map[string]struct{ path, body, says string }{
		"it does not fit": {"/v1/messages", strings.Replace(meteredCall, "words", strings.Repeat("x", 9000), 1), "tokens"},
		"it has no bound": {
			"/v1/messages", `{"model":"m","messages":[{"content":[{"type":"container_upload"}]}]}`, "declare the maximum",
		},
		"it has no output": {"/v1/messages", `{"model":"m","messages":[]}`, "no maximum of output"},
		"it is not read":   {"/v1/embeddings", `{}`, "(embeddings)"},
	} {
		t.Run(name, func(t *testing.T) {
			wd := spending(t, watchdog.Spend{Tokens: 5_000})
			body := &closed{}
			req := request(wd.Context(), t, http.MethodPost, "http://model.test"+of.path, body)
			req.GetBody = func() (io.ReadCloser, error) { return texts(of.body), nil }
			meter := &watchdoghttp.Meter{Base: failing(errHostGone), KeepMaximum: true}
			_, err = fetch(t, meter.RoundTrip, req)
			require.ErrorContains(t, err, of.says)
			require.Equal(t, 1, body.times)
			var refused *watchdog.Refused
			fits := !errors.As(err, &refused)
			require.Equal(t, fits, errors.Is(err, watchdoghttp.ErrUnbounded))
			code, fired := wd.Fired()
			require.Equal(t, !fits, fired, "what has no bound trips no limit")
			if fired {
				require.Equal(t, "tokens", refused.Limit)
				require.Equal(t, watchdog.TokensExceeded, code)
			}
			require.Equal(t, []int64{0}, used(t, wd))
		})
	}
}

// TestMeterStream protects a stream that is metered: it is handed out as it came, and settled once.
func TestMeterStream(t *testing.T) {
	bubble(t, "every chunk goes out at once, as it came", func(t *testing.T) {
		began, wd := time.Now(), spending(t, watchdog.Spend{InputTokens: 9999, OutputTokens: 9999})
		chunks := []string{meteredStart[:30], meteredStart[30:], meteredDelta + meteredEnd[:9], meteredEnd[9:]}
		meter := &watchdoghttp.Meter{Base: answering(200, nil, every(t, time.Second, chunks...))}
		req := request(wd.Context(), t, http.MethodPost, "http://model.test/v1/messages", strings.NewReader(meteredCall))
		resp, err := (&watchdoghttp.Transport{Base: meter}).RoundTrip(req)
		require.NoError(t, err)
		for i, chunk := range chunks {
			buffer := make([]byte, 1024)
			n, err := resp.Body.Read(buffer)
			require.NoError(t, err)
			require.Equal(t, chunk, string(buffer[:n]))
			require.Equal(t, time.Duration(i+1)*time.Second, time.Since(began))
		}
		resp.Body.Close()
		require.Equal(t, []int64{25, 7}, used(t, wd))
	})
	t.Run("it settles once, whoever reads and closes at the same time", func(t *testing.T) {
		var log bytes.Buffer
		wd := spending(t, watchdog.Spend{Requests: 999})
		for range 200 {
			read, write := io.Pipe()
			meter := &watchdoghttp.Meter{Base: answering(200, nil, read), Logger: slog.New(slog.NewTextHandler(&log, nil))}
			req := request(wd.Context(), t, http.MethodPost, "http://model.test/v1/messages", strings.NewReader(meteredCall))
			resp, err := meter.RoundTrip(req)
			require.NoError(t, err)
			var all sync.WaitGroup
			all.Go(func() { io.WriteString(write, meteredStart); write.Close() })
			all.Go(func() { io.Copy(io.Discard, resp.Body) })
			all.Go(func() { resp.Body.Close() })
			all.Wait()
		}
		require.Equal(t, []int64{200}, used(t, wd))
		require.NotContains(t, log.String(), "settle")
	})
	t.Run("calls at once fit in the limit, whatever is sent", func(t *testing.T) {
		wd := spending(t, watchdog.Spend{Tokens: 20_000})
		meter := &watchdoghttp.Meter{Base: always(meteredAnswer)}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for range 20 {
					if _, err := post(t, wd, meter, "http://model.test", meteredCall); err != nil {
						return
					}
				}
			})
		}
		all.Wait()
		use := wd.Usage()[0]
		require.LessOrEqual(t, use.Used+use.Admitted, use.Allowed)
		_, fired := wd.Fired()
		require.True(t, fired, "1,280 calls of 32 do not fit")
	})
}

// TestMeterSays protects what a host is told, each once.
func TestMeterSays(t *testing.T) {
	const unbounded = `{"model":"m","messages":[]}`
	t.Run("that a call is not bounded, for each model, in the default log", func(t *testing.T) {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		defer slog.SetDefault(before)
		wd := spending(t, watchdog.Spend{Requests: 99})
		client := &watchdoghttp.Meter{Base: failing(errHostGone), CountUnbounded: true, KeepMaximum: true}
		for range 2 {
			for _, body := range []string{unbounded, strings.Replace(unbounded, `"m"`, `"other"`, 1)} {
				_, err := post(t, wd, client, "http://model.test", body)
				require.ErrorIs(t, err, errHostGone)
			}
		}
		require.Equal(t, 2, strings.Count(log.String(), "call of a model is not bounded"), log.String())
	})
	t.Run("that a call could not be settled", func(t *testing.T) {
		var log bytes.Buffer
		wd := spending(t, watchdog.Spend{Cost: watchdog.Money{Micros: 1_000_000, Currency: "USD"}})
		client := &watchdoghttp.Meter{
			Base: answering(200, nil, texts(meteredAnswer)), Prices: pricesOf(t), CountUnbounded: true, KeepMaximum: true,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
		}
		_, err := post(t, wd, client, "http://model.test", unbounded)
		require.NoError(t, err)
		require.Contains(t, log.String(), "settle call of a model")
	})
	t.Run("that an answer ended at a maximum that nobody asked for", func(t *testing.T) {
		var log bytes.Buffer
		client := &watchdoghttp.Meter{
			Base:   always(strings.Replace(meteredAnswer, "{", `{"stop_reason":"max_tokens",`, 1)),
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}
		wd := spending(t, watchdog.Spend{Tokens: 1_000_000})
		for range 2 {
			_, err := post(t, wd, client, "http://model.test", strings.Replace(unbounded, "{", `{"max_tokens":7,`, 1))
			require.NoError(t, err)
		}
		require.NotContains(t, log.String(), "an answer ended", "the request has its own")
		for range 2 {
			_, err := post(t, wd, client, "http://model.test", unbounded)
			require.NoError(t, err)
		}
		require.Equal(t, 1, strings.Count(log.String(), "an answer ended at the maximum that was set"), log.String())
		require.Contains(t, log.String(), "name=m maximum=16384")
		_, fired := wd.Fired()
		require.False(t, fired, "there is room")
	})
	t.Run("of a thousand models, whose names requests choose", func(t *testing.T) {
		var log bytes.Buffer
		wd := spending(t, watchdog.Spend{Requests: 9999})
		meter := &watchdoghttp.Meter{
			CountUnbounded: true, KeepMaximum: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Base: always(meteredAnswer),
		}
		for i := range 1200 {
			_, err := post(t, wd, meter, "http://model.test", fmt.Sprintf(`{"model":"m%d","messages":[]}`, i/2))
			require.NoError(t, err)
		}
		warned := strings.Count(log.String(), "call of a model is not bounded")
		require.Equal(t, 1000, warned+strings.Count(log.String(), "model has no price"))
		require.Equal(t, 1, strings.Count(log.String(), "no other model is warned of"))
		require.NotContains(t, log.String(), "secret")
	})
}

// TestMeterAsks protects the request that asks for usage, and that nothing else does.
func TestMeterAsks(t *testing.T) {
	const body = `{"model":"m","max_tokens":10,"messages":[{}],"stream":true}`
	for ask, want := range map[bool]string{false: body, true: `{"stream_options":{"include_usage":true},` + body[1:]} {
		wd := spending(t, watchdog.Spend{Tokens: 9999})
		meter := &watchdoghttp.Meter{IncludeUsage: ask, Base: based(func(req *http.Request) (*http.Response, error) {
			again, err := req.GetBody()
			require.NoError(t, err)
			for _, sent := range []io.Reader{req.Body, again} {
				text, err := io.ReadAll(sent)
				require.NoError(t, err)
				require.Equal(t, want, string(text))
				require.Len(t, text, int(req.ContentLength))
			}
			require.Equal(t, !ask, req.Header.Get("Content-Length") != "")
			return &http.Response{StatusCode: 200, Body: texts("data: [DONE]\n\n")}, nil
		})}
		req := request(wd.Context(), t, http.MethodPost, "http://model.test/v1/chat/completions", strings.NewReader(body))
		req.Header.Set("Content-Length", "61")
		resp, err := fetch(t, meter.RoundTrip, req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []int64{int64(len(body)) + 1024 + 16 + 10}, used(t, wd), "without usage it is the admission")
	}
}

func TestIsModelCall(t *testing.T) {
	for path, is := range map[string]bool{
		"/v1/messages": true, "/gateway/v1/chat/completions": true, "/v1/responses": true, "/v1/embeddings": true,
		"/v1beta/models/m:streamGenerateContent": true, "/v1/messages/count_tokens": false, "/v1/models": false, "/": false,
	} {
		require.Equal(t, is, watchdoghttp.IsModelCall("POST", path), path)
		require.False(t, watchdoghttp.IsModelCall("GET", path), path)
	}
}
