package watchdoghttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

const meteredPrices = `{"currency": "EUR", "date": "2026-08-01", "models": {"m*": {"input": 1000000, "output": 2000000}}}`

// post sends a call of a model in the run.
func post(t *testing.T, wd *watchdog.Watchdog, client *http.Client, url, body string) (answer string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(wd.Context(), http.MethodPost, url+"/v1/messages", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// TestMeterRun protects that the calls of a run count for it, and that one which does not fit is not sent.
func TestMeterRun(t *testing.T) {
	prices, err := watchdoghttp.ReadPrices([]byte(meteredPrices), "EUR")
	require.NoError(t, err)
	require.Equal(t, "EUR", prices.Currency())
	require.Equal(t, 2026, prices.Date().Year())
	for name, test := range map[string]func(t *testing.T, sent *int, call func(body string) error, wd *watchdog.Watchdog){
		"a call is admitted with its most and settled with its usage": func(
			t *testing.T, _ *int, call func(string) error, wd *watchdog.Watchdog,
		) {
			require.NoError(t, call(meteredCall))
			used := wd.Usage()
			require.Equal(t, "tokens", used[0].Limit)
			require.EqualValues(t, 32, used[0].Used)
			require.Zero(t, used[0].Admitted)
			require.Equal(t, "cost", used[1].Limit)
			require.EqualValues(t, 25+2*7, used[1].Used)
			require.Equal(t, "EUR", used[1].Currency)
		},
		"one that does not fit is not sent, and says which limit it is": func(
			t *testing.T, sent *int, call func(string) error, wd *watchdog.Watchdog,
		) {
			err := call(`{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"` + strings.Repeat("x", 9000) + `"}]}`)
			var refused *watchdog.Refused
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "tokens", refused.Limit)
			require.Zero(t, *sent)
			code, fired := wd.Fired()
			require.True(t, fired)
			require.Equal(t, watchdog.TokensExceeded, code)
		},
		"one without a bound is refused, and no limit has tripped": func(
			t *testing.T, sent *int, call func(string) error, wd *watchdog.Watchdog,
		) {
			err := call(`{"model":"other","messages":[{"role":"user","content":[{"type":"container_upload","file_id":"x"}]}]}`)
			require.ErrorIs(t, err, watchdoghttp.ErrUnbounded)
			require.ErrorContains(t, err, "declare the maximum")
			require.Zero(t, *sent)
			_, fired := wd.Fired()
			require.False(t, fired)
		},
		"a declared maximum bounds it": func(t *testing.T, sent *int, call func(string) error, _ *watchdog.Watchdog) {
			require.NoError(t, call(`{"model":"m-2","messages":[{"role":"user","content":"x"}]}`))
			require.Equal(t, 1, *sent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				sent++
				fmt.Fprint(w, meteredAnswer)
			}))
			defer server.Close()
			meter := &watchdoghttp.Meter{
				Base: &watchdoghttp.Transport{Base: &http.Transport{}}, Prices: prices,
				Models: map[string]watchdoghttp.Maximum{"m-*": {Output: 50}},
			}
			defer meter.CloseIdleConnections()
			wd, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{
				Logger: slog.New(slog.DiscardHandler),
				Budget: watchdog.Budget{Spend: watchdog.Spend{
					Tokens: 10_000, Cost: watchdog.Money{Micros: 1_000_000, Currency: "EUR"},
				}},
			})
			require.NoError(t, err)
			defer wd.Close()
			test(t, &sent, func(body string) error {
				_, err := post(t, wd, &http.Client{Transport: meter}, server.URL, body)
				return err
			}, wd)
		})
	}
	t.Run("answers to try again and failures count in rows of their own", func(t *testing.T) {
		status := http.StatusTooManyRequests
		base := based(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})
		wd, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{
			Logger: slog.New(slog.DiscardHandler),
			Budget: watchdog.Budget{Spend: watchdog.Spend{Errors: 2, Retries: 3}},
		})
		require.NoError(t, err)
		defer wd.Close()
		client := &http.Client{Transport: &watchdoghttp.Meter{Base: base}}
		for range 3 {
			_, err := post(t, wd, client, "http://model.test", meteredCall)
			require.NoError(t, err)
		}
		status = http.StatusForbidden
		for range 2 {
			_, err := post(t, wd, client, "http://model.test", meteredCall)
			require.NoError(t, err)
		}
		require.Equal(t, []int64{2, 3}, []int64{wd.Usage()[0].Used, wd.Usage()[1].Used})
		_, err = post(t, wd, client, "http://model.test", meteredCall)
		require.NoError(t, err)
		code, fired := wd.Fired()
		require.True(t, fired)
		require.Equal(t, watchdog.ErrorsExceeded, code)
	})
	t.Run("prices that cannot be read are an error", func(t *testing.T) {
		_, err := watchdoghttp.ReadPrices([]byte(meteredPrices), "USD")
		require.ErrorContains(t, err, "EUR")
	})
	t.Run("without a run nothing is metered", func(t *testing.T) {
		boom := errors.New("asked")
		meter := &watchdoghttp.Meter{Base: based(func(*http.Request) (*http.Response, error) { return nil, boom })}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model.test/v1/messages",
			strings.NewReader(`{}`))
		require.NoError(t, err)
		_, err = fetch(t, meter.RoundTrip, req)
		require.ErrorIs(t, err, boom)
	})
}
