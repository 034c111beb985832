package watchdoghttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// spending guards a run with the limits.
func spending(t *testing.T, limits watchdog.Spend) *watchdog.Watchdog {
	t.Helper()
	limits.WarnAt = []float64{}
	wd, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{
		Logger: slog.New(slog.DiscardHandler), Budget: watchdog.Budget{Spend: limits},
	})
	require.NoError(t, err)
	t.Cleanup(func() { wd.Close() })
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

// TestMeterAmounts protects what each limit of a run counts of a call.
func TestMeterAmounts(t *testing.T) {
	tokens := watchdog.Spend{InputTokens: 9999, OutputTokens: 9999, Requests: 99}
	t.Run("tokens in and out, and requests", func(t *testing.T) {
		wd := spending(t, tokens)
		client := &http.Client{Transport: &watchdoghttp.Meter{Base: answering(200, nil, texts(meteredAnswer), nil)}}
		_, err := post(t, wd, client, "http://model.test", meteredCall)
		require.NoError(t, err)
		require.Equal(t, []int64{25, 7, 1}, used(t, wd))
	})
	t.Run("nothing of a call that was never connected", func(t *testing.T) {
		wd := spending(t, tokens)
		base := based(func(*http.Request) (*http.Response, error) { return nil, &net.OpError{Op: "dial", Err: errHostGone} })
		_, err := post(t, wd, &http.Client{Transport: &watchdoghttp.Meter{Base: base}}, "http://model.test", meteredCall)
		require.ErrorIs(t, err, errHostGone)
		require.Equal(t, []int64{0, 0, 0}, used(t, wd))
	})
	t.Run("an answer without a body at once, whatever stands for none", func(t *testing.T) {
		for _, body := range []io.ReadCloser{nil, http.NoBody} {
			wd := spending(t, tokens)
			meter := &watchdoghttp.Meter{Base: answering(200, nil, body, nil)}
			req, err := http.NewRequestWithContext(wd.Context(), http.MethodPost, "http://model.test/v1/messages",
				strings.NewReader(meteredCall))
			require.NoError(t, err)
			_, err = meter.RoundTrip(req) //nolint:bodyclose // it has none
			require.NoError(t, err)
			require.Equal(t, []int64{int64(len(meteredCall)) + 1024 + 16, 10, 1}, used(t, wd))
		}
	})
	t.Run("an answer that is not read at once", func(t *testing.T) {
		wd := spending(t, tokens)
		meter := &watchdoghttp.Meter{Base: answering(200, nil, texts("{}"), nil), CountUnbounded: true}
		req, err := http.NewRequestWithContext(wd.Context(), http.MethodPost, "http://model.test/v1/embeddings",
			strings.NewReader(`{}`))
		require.NoError(t, err)
		_, err = meter.RoundTrip(req) //nolint:bodyclose // it is never read
		require.NoError(t, err)
		require.Equal(t, []int64{0, 0, 1}, used(t, wd))
	})
	t.Run("the price of the model that answers", func(t *testing.T) {
		prices, err := watchdoghttp.ReadPrices([]byte(`{"currency": "EUR", "date": "2026-08-01", "models": {
			"m": {"input": 1000000, "output": 2000000}, "large": {"input": 10000000, "output": 20000000}}}`), "EUR")
		require.NoError(t, err)
		wd := spending(t, watchdog.Spend{Cost: watchdog.Money{Micros: 1_000_000, Currency: "EUR"}})
		answer := strings.Replace(meteredAnswer, `"m"`, `"large"`, 1)
		meter := &watchdoghttp.Meter{Base: answering(200, nil, texts(answer), nil), Prices: prices}
		_, err = post(t, wd, &http.Client{Transport: meter}, "http://model.test", meteredCall)
		require.NoError(t, err)
		require.Equal(t, []int64{250 + 140}, used(t, wd))
	})
	t.Run("the more of the admission and of what came before an answer that cannot be read to its end", func(t *testing.T) {
		prices, err := watchdoghttp.ReadPrices([]byte(meteredPrices), "EUR")
		require.NoError(t, err)
		limits := tokens
		limits.Cost = watchdog.Money{Micros: 1_000_000, Currency: "EUR"}
		wd := spending(t, limits)
		body := meteredStart + strings.Replace(meteredEnd, ":7", ":50", 1) + "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":-1}}\n\n"
		meter := &watchdoghttp.Meter{Base: answering(200, nil, texts(body), nil), Prices: prices}
		_, err = post(t, wd, &http.Client{Transport: meter}, "http://model.test", meteredCall)
		require.NoError(t, err)
		most := int64(len(meteredCall)) + 1024 + 16
		require.Equal(t, []int64{most, 50, most + 2*10, 1}, used(t, wd))
	})
	t.Run("rows of errors and of retries, up to a call that is answered", func(t *testing.T) {
		status, fails := 0, true
		base := based(func(*http.Request) (*http.Response, error) {
			if fails {
				return nil, errHostGone
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: texts(meteredAnswer)}, nil
		})
		wd := spending(t, watchdog.Spend{Errors: 9, Retries: 9})
		client := &http.Client{Transport: &watchdoghttp.Meter{Base: base}}
		send := func() []int64 {
			_, _ = post(t, wd, client, "http://model.test", meteredCall)
			return used(t, wd)
		}
		require.Equal(t, []int64{1, 0}, send(), "without a response")
		fails, status = false, http.StatusBadRequest
		require.Equal(t, []int64{2, 0}, send())
		status = http.StatusInternalServerError
		require.EqualValues(t, 1, send()[1])
		status = http.StatusOK
		require.Equal(t, []int64{0, 0}, send())
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
		client := &http.Client{Transport: &watchdoghttp.Meter{
			Base:           based(func(*http.Request) (*http.Response, error) { return nil, errHostGone }),
			CountUnbounded: true, KeepMaximum: true,
		}}
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
		prices, err := watchdoghttp.ReadPrices([]byte(meteredPrices), "EUR")
		require.NoError(t, err)
		wd := spending(t, watchdog.Spend{Cost: watchdog.Money{Micros: 1_000_000, Currency: "USD"}})
		client := &http.Client{Transport: &watchdoghttp.Meter{
			Base: answering(200, nil, texts(meteredAnswer), nil), Prices: prices, CountUnbounded: true, KeepMaximum: true,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
		}}
		_, err = post(t, wd, client, "http://model.test", unbounded)
		require.NoError(t, err)
		require.Contains(t, log.String(), "settle call of a model")
	})
	t.Run("that an answer ended at a maximum that nobody asked for", func(t *testing.T) {
		var log bytes.Buffer
		client := &http.Client{Transport: &watchdoghttp.Meter{
			Base: based(func(*http.Request) (*http.Response, error) {
				answer := strings.Replace(meteredAnswer, "{", `{"stop_reason":"max_tokens",`, 1)
				return &http.Response{StatusCode: 200, Body: texts(answer)}, nil
			}),
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}}
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
}

// TestMeterAsks protects the request that asks for usage.
func TestMeterAsks(t *testing.T) {
	const body = `{"model":"m","max_tokens":10,"messages":[{}],"stream":true}`
	wd := spending(t, watchdog.Spend{Requests: 99})
	stop := errors.New("seen")
	meter := &watchdoghttp.Meter{IncludeUsage: true, Base: based(func(req *http.Request) (*http.Response, error) {
		require.Empty(t, req.Header.Get("Content-Length"))
		again, err := req.GetBody()
		require.NoError(t, err)
		text, err := io.ReadAll(again)
		require.NoError(t, err)
		require.Contains(t, string(text), "include_usage")
		require.Len(t, text, int(req.ContentLength))
		return nil, stop
	})}
	req, err := http.NewRequestWithContext(wd.Context(), http.MethodPost, "http://model.test/v1/chat/completions",
		strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Length", "61")
	_, err = fetch(t, meter.RoundTrip, req)
	require.ErrorIs(t, err, stop)
	t.Run("and nothing else does", func(t *testing.T) {
		counting := &watchdoghttp.Meter{CountUnbounded: true, Base: based(func(req *http.Request) (*http.Response, error) {
			text, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			require.NotContains(t, string(text), "include_usage")
			return nil, stop
		})}
		req, err := http.NewRequestWithContext(wd.Context(), http.MethodPost, "http://model.test/v1/chat/completions",
			strings.NewReader(body))
		require.NoError(t, err)
		_, err = fetch(t, counting.RoundTrip, req)
		require.ErrorIs(t, err, stop)
	})
}
