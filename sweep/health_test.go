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

// health returns what the page says.
func (f *fixture) health() (code int, text string) {
	f.Helper()
	w := httptest.NewRecorder()
	f.sweeper().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	require.Equal(f, "application/json", w.Header().Get("Content-Type"))
	require.Equal(f, "no-store", w.Header().Get("Cache-Control"))
	return w.Code, w.Body.String()
}

func TestHealth(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		happen func(f *fixture)
	}{
		"before": {http.StatusOK, func(*fixture) {}},
		"disabled": {http.StatusOK, func(f *fixture) {
			f.cfg.Disabled = true
			f.Cleanup(f.run())
		}},
		"waiting": {http.StatusOK, func(f *fixture) { f.Cleanup(f.run()) }},
		"healthy": {http.StatusOK, func(f *fixture) {
			f.putStalled(12)
			start := func(context.Context, session.Session) error { return nil }
			f.cfg.StartupDelay, f.cfg.Resume = watchdog.None, sweep.ResumePolicy{Max: 1, Start: start}
			f.cfg.StopHook = func(_ context.Context, s session.Session) error {
				time.Sleep(1500 * time.Microsecond) // fake time
				if s.RunID == "s-03" {
					f.wake(s.RunID)
				}
				return nil
			}
			f.onCancel = func(_ context.Context, s session.Session) error {
				if s.RunID == "s-05" {
					return errors.New("poisoned")
				}
				return nil
			}
			f.Cleanup(f.run())
			f.advance(time.Minute)
		}},
		"failing": {http.StatusServiceUnavailable, func(f *fixture) {
			f.onStalled = func(context.Context, session.Query) error { return errors.New("password=canary refused") }
			_, err := f.sweeper().Sweep(f.Context())
			require.Error(f, err)
		}},
		"failing_slowly": {http.StatusServiceUnavailable, func(f *fixture) {
			f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			_, err := f.sweeper().Sweep(f.Context())
			require.Error(f, err)
		}},
		"overdue": {http.StatusServiceUnavailable, func(f *fixture) {
			f.cfg.StartupDelay, f.cfg.RecordTimeout = watchdog.None, time.Hour
			f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			f.Cleanup(f.run())
			f.advance(5 * time.Minute)
			code, _ := f.health()
			require.Equal(f, http.StatusOK, code, "not overdue yet")
			f.advance(1)
		}},
		"stopped": {http.StatusOK, func(f *fixture) {
			f.cfg.StartupDelay = watchdog.None
			f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return ctx.Err() }
			f.run()()
			f.advance(time.Hour)
		}},
	} {
		subtest(t, name, func(f *fixture) {
			c.happen(f)
			code, text := f.health()
			require.Equal(f, c.code, code)
			require.NotContains(f, text, "canary")
			golden(f.T, "health_"+name+".json", text)
		})
	}
	t.Run("the page can only be read", func(t *testing.T) {
		s, err := sweep.New(&session.Memory{}, &session.Memory{}, sweep.Config{})
		require.NoError(t, err)
		server := httptest.NewServer(s.Handler())
		defer server.Close()
		for method, code := range map[string]int{
			http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405,
		} {
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

// TestLog pins the keys of the log, which has no content of a session.
func TestLog(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.putStalled(2)
		f.cfg.StartupDelay, f.cfg.Grace = watchdog.None, time.Minute
		f.cfg.StopHook = func(_ context.Context, s session.Session) error {
			if s.RunID == "s-01" {
				f.wake(s.RunID)
				panic("canary")
			}
			return nil
		}
		stop := f.run()
		f.advance(6 * time.Minute)
		stop()
		synctest.Wait()
		require.NotContains(f, f.log.String(), "canary")
		golden(f.T, "log.golden", strings.ReplaceAll(f.log.String(), time.Now().Format("2006-01-02"), "day"))
	})
}

// TestLogStart expects settings that have a name in words, and those of a sweeper that only waits.
func TestLogStart(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.cfg.Disabled, f.cfg.DryRun, f.cfg.MinAge = true, true, watchdog.None
		f.cfg.StalledThreshold, f.cfg.MaxCancellationsPerRun = watchdog.NoLimit, watchdog.NoLimit
		f.run()()
		for _, shown := range []string{
			"the sweeper starts", `"enabled":false`, `"dry_run":true`, `"min_age":0`, `"stop_hook":false`,
			`"stalled_threshold":"no limit"`, `"max_cancellations":"no limit"`, "the sweeper has ended", `"passes":0`,
		} {
			require.Contains(f, f.log.String(), shown)
		}
	})
}

func TestStatsDuringPass(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.putStalled(3)
		f.cfg.StartupDelay = watchdog.None
		f.cfg.StopHook = func(context.Context, session.Session) error {
			require.True(f, f.sweeper().Stats().Passing)
			_, text := f.health()
			require.Contains(f, text, `"passing": true`)
			return nil
		}
		stop := f.run()
		stats := f.sweeper().Stats()
		require.False(f, stats.Passing)
		require.Equal(f, 1, stats.Passes)
		require.Equal(f, 3, stats.Last.Cancelled)
		require.Empty(f, stats.Last.Cases)
		stop()
	})
}

// TestHealthOfStop protects the page from a stop of the run that a sweeper is in, which is a time-out of its own and
// not one of the store.
func TestHealthOfStop(t *testing.T) {
	inBubble(t, func(f *fixture) {
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "sweeper", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Second},
		})
		require.NoError(f, err)
		defer wd.Close()
		f.onStalled = func(ctx context.Context, _ session.Query) error { <-ctx.Done(); return context.Cause(ctx) }
		_, err = f.sweeper().Sweep(wd.Context())
		require.ErrorIs(f, err, context.DeadlineExceeded)
		_, text := f.health()
		require.Contains(f, text, `"error": "stopped"`)
	})
}
