package watchdoghttp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// capped guards a run with a cap on tokens, and returns it with a client whose calls are metered.
func capped(t *testing.T, tokens int64) (*watchdog.Watchdog, *http.Client) {
	t.Helper()
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	wd, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{
		Logger: slog.New(slog.DiscardHandler),
		Budget: watchdog.Budget{Spend: watchdog.Spend{Tokens: tokens, WarnAt: []float64{}}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { wd.Close() })
	return wd, &http.Client{Transport: &watchdoghttp.Meter{Base: base}}
}

// TestMeterTrouble protects what a call is charged with whose answer is none, late or cut off.
func TestMeterTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		used   int64
	}{
		"a redirect costs nothing, and the call after it is charged": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/messages" {
				http.Redirect(w, r, "/other/v1/messages", http.StatusTemporaryRedirect)
				return
			}
			fmt.Fprint(w, meteredAnswer)
		}, 32},
		"an answer without a body settles at the admission": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}, 1133},
		"a stream that is cut off settles at the admission": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, meteredStart)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, 1133},
		"so does an answer that is shorter than it says": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			fmt.Fprint(w, meteredAnswer)
		}, 32},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			wd, client := capped(t, 10_000)
			req, err := http.NewRequestWithContext(wd.Context(), http.MethodPost, server.URL+"/v1/messages",
				strings.NewReader(meteredCall))
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			_, _ = io.ReadAll(resp.Body)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, c.used, wd.Usage()[0].Used)
			require.Zero(t, wd.Usage()[0].Admitted)
		})
	}
}

// TestMeterTogether protects a cap from calls that are made at once: whatever is sent fits in it.
func TestMeterTogether(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, meteredAnswer) }))
	defer server.Close()
	wd, client := capped(t, 20_000)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 20 {
				if _, err := post(t, wd, client, server.URL, meteredCall); err != nil {
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
}
