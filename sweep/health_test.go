package sweep_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// health is what the page says.
func (b *bed) health() (code int, text string) {
	b.Helper()
	w := httptest.NewRecorder()
	b.the().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	require.Equal(b, "application/json", w.Header().Get("Content-Type"))
	require.Equal(b, "no-store", w.Header().Get("Cache-Control"))
	return w.Code, w.Body.String()
}

func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		happen func(b *bed)
	}{
		"before":   {http.StatusOK, func(*bed) {}},
		"disabled": {http.StatusOK, func(b *bed) { b.cfg.Disabled = true }},
		"waiting":  {http.StatusOK, func(b *bed) { b.Cleanup(b.run()) }},
		"healthy": {http.StatusOK, func(b *bed) {
			b.putStalled(12)
			b.cfg.StartupDelay, b.cfg.Resume = watchdog.None, sweep.ResumePolicy{Max: 1, Start: func(context.Context, session.Session) error { return nil }}
			b.cfg.StopHook = func(_ context.Context, s session.Session) error {
				time.Sleep(1500 * time.Microsecond) // the bubble's
				if s.RunID == "s-03" {
					b.wake(s.RunID)
				}
				return nil
			}
			b.onCancel = func(_ context.Context, s session.Session) error {
				if s.RunID == "s-05" {
					return errors.New("poisoned")
				}
				return nil
			}
			b.Cleanup(b.run())
			b.after(time.Minute)
		}},
		"failing": {http.StatusServiceUnavailable, func(b *bed) {
			b.onStalled = func(context.Context, session.Query) error { return errors.New("password=canary refused") }
			_, err := b.the().Sweep(b.Context())
			require.Error(b, err)
		}},
		"failing_slowly": {http.StatusServiceUnavailable, func(b *bed) {
			b.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			_, err := b.the().Sweep(b.Context())
			require.Error(b, err)
		}},
		"overdue": {http.StatusServiceUnavailable, func(b *bed) {
			b.cfg.StartupDelay, b.cfg.RecordTimeout = watchdog.None, time.Hour
			b.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			b.Cleanup(b.run())
			b.after(5 * time.Minute)
			code, _ := b.health()
			require.Equal(b, http.StatusOK, code, "not overdue yet")
			b.after(1)
		}},
		"stopped": {http.StatusOK, func(b *bed) {
			b.cfg.StartupDelay = watchdog.None
			b.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			b.run()()
			b.after(time.Hour)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(b *bed) {
				c.happen(b)
				code, text := b.health()
				require.Equal(b, c.code, code)
				require.NotContains(b, text, "canary")
				golden(b.T, "health_"+name+".json", text)
			})
		})
	}
	t.Run("is for reading only", func(t *testing.T) {
		s, err := sweep.New(&session.Memory{}, &session.Memory{}, sweep.Config{})
		require.NoError(t, err)
		server := httptest.NewServer(s.Handler())
		defer server.Close()
		for method, code := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
			require.NoError(t, err)
			resp, err := server.Client().Do(r)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, code, resp.StatusCode, method)
		}
	})
}

func TestTheLogHasStableKeysAndNoContent(t *testing.T) {
	inBed(t, func(b *bed) {
		b.putStalled(2)
		b.cfg.StartupDelay, b.cfg.Grace = watchdog.None, time.Minute
		b.cfg.StopHook = func(_ context.Context, s session.Session) error {
			if s.RunID == "s-01" {
				b.wake(s.RunID)
				panic("canary")
			}
			return nil
		}
		stop := b.run()
		b.after(6 * time.Minute)
		stop()
		synctest.Wait()
		require.NotContains(b, b.log.String(), "canary")
		golden(b.T, "log.golden", strings.ReplaceAll(b.log.String(), time.Now().Format("2006-01-02"), "day"))
	})
}

func TestStatsCanBeReadWhileAPassIsUnderWay(t *testing.T) {
	inBed(t, func(b *bed) {
		b.putStalled(3)
		b.cfg.StartupDelay = watchdog.None
		b.cfg.StopHook = func(context.Context, session.Session) error {
			require.True(b, b.the().Stats().Running)
			_, _ = b.health()
			return nil
		}
		stop := b.run()
		stats := b.the().Stats()
		require.False(b, stats.Running)
		require.Equal(b, 1, stats.Passes)
		require.Equal(b, 3, stats.Last.Cancelled)
		require.Empty(b, stats.Last.Cases)
		stop()
	})
}
