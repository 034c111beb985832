package snippets_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// TestHost runs a whole host: a person decides for hours, and a step hangs and is done again.
func TestHost(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		store := &watchdog.Memory{}
		s := struct {
			ID        string
			StartedAt time.Time
		}{"s-1", time.Now()}
		ask := func(context.Context) error { time.Sleep(20 * time.Hour); return nil }
		steps := 0
		step := func(ctx context.Context) error {
			if steps++; steps > 2 {
				return nil
			}
			<-ctx.Done() // it hangs
			return ctx.Err()
		}
		host := func() error {
			ctx := ctx
			// snippet docs/guide.md: wd, err := watchdog.New(ctx, watchdog.Run{ID: s.ID
		}
		require.NoError(t, host())
		require.Equal(t, 3, steps)
		events, err := store.Read(ctx, watchdog.AggregateType, "s-1")
		require.NoError(t, err)
		kinds := map[string]int{}
		for _, e := range events {
			kinds[e.Type]++
		}
		require.Equal(t, 2, kinds[watchdog.EventRetry])
		require.Equal(t, 1, kinds[watchdog.EventComplete])
		require.NoError(t, host(), "the session is done")
		require.Equal(t, 3, steps)
	})
}

// TestReserve spends up to the reserve, and then what is kept for wrapping up.
func TestReserve(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		store, run := &watchdog.Memory{}, watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		// snippet docs/spend.md: Budget: watchdog.Budget{Spend:
		require.NoError(t, err)
		defer wd.Close()
		_, err = wd.Admit(ctx, "", euros(4_750_001))
		require.ErrorAs(t, err, new(*watchdog.Refused))
		_, err = wd.Admit(ctx, "", euros(5_000_000))
		require.NoError(t, err, "the reserve is unlocked")
	})
}

// TestAdmit makes a call that fits, one that failed before it was sent, and one that does not fit.
func TestAdmit(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		call := func(most int64, send func(context.Context) (watchdog.Amount, error)) (used watchdog.Usage, err error) {
			wd := attach(t, ctx, spending(watchdog.Spend{Cost: watchdog.Money{Micros: most, Currency: "EUR"}}))
			defer func() { used = wd.Usage()[0]; err = errors.Join(err, wd.Close()) }()
			return used, func(ctx context.Context) error {
				// snippet docs/spend.md: charge, err := watchdog.FromContext(ctx).Admit(
			}(wd.Context())
		}
		answer := func(context.Context) (watchdog.Amount, error) { return euros(61_000), nil }
		used, err := call(300_000, answer)
		require.NoError(t, err)
		require.Equal(t, [2]int64{61_000, 0}, [2]int64{used.Used, used.Admitted})
		used, err = call(300_000, func(context.Context) (watchdog.Amount, error) { return watchdog.Amount{}, errors.New("no route") })
		require.NoError(t, err)
		require.Equal(t, [2]int64{0, 0}, [2]int64{used.Used, used.Admitted}, "it is void")
		_, err = call(200_000, answer)
		require.ErrorContains(t, err, "not sent, 200000 left: ")
	})
}

// TestTenant has two runs of a tenant, which know nothing of each other.
func TestTenant(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		store, budget := &watchdog.Memory{}, watchdog.Budget{WallClock: watchdog.NoLimit}
		begin := func(id string) *watchdog.Watchdog {
			run := watchdog.Run{ID: id, StartedAt: time.Now()}
			// snippet docs/spend.md: Scopes: []watchdog.SharedSpend{{
			require.NoError(t, err)
			return wd
		}
		one, other := begin("s-1"), begin("s-2")
		defer other.Close()
		defer one.Close()
		_, err := one.Admit(ctx, "", euros(60_000_000))
		require.NoError(t, err)
		_, err = other.Admit(ctx, "", euros(60_000_000))
		require.ErrorAs(t, err, new(*watchdog.Refused))
		time.Sleep(24 * time.Hour)
		third := begin("s-3")
		defer third.Close()
		_, err = third.Admit(ctx, "", euros(60_000_000))
		require.NoError(t, err, "another day")
	})
}

// A noting store notes the slices that this process takes, as a database has them.
type noting struct {
	watchdog.SpendStore
	note func(id, scope string)
}

// Take notes the slice before it is charged.
func (n *noting) Take(ctx context.Context, slice watchdog.Slice) (watchdog.Grant, error) {
	n.note(slice.ID, slice.Scope)
	return n.SpendStore.Take(ctx, slice)
}

// TestSlice gives back by its name what a process that was killed had left of a slice.
func TestSlice(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		spend := &watchdog.Memory{}
		var sliceID string
		noted := &noting{spend, func(id, scope string) { sliceID = id; require.Equal(t, "tenant-7", scope) }}
		admit := func(id string, micros int64) error {
			wd, err := watchdog.New(ctx, watchdog.Run{ID: id, StartedAt: time.Now()}, watchdog.Config{
				Store: spend, SpendStore: noted, Budget: watchdog.Budget{WallClock: watchdog.NoLimit},
				Scopes: []watchdog.SharedSpend{{
					Scope: "tenant-7", Spend: watchdog.Spend{Cost: watchdog.Money{Micros: 200_000, Currency: "EUR"}},
				}},
			})
			require.NoError(t, err)
			_, err = wd.Admit(ctx, "", euros(micros))
			return err // nobody closes the run: its process is dead
		}
		require.NoError(t, admit("s-1", 150_000))
		giveBack := func() {
			// snippet docs/spend.md: unused := watchdog.Totals{
			require.NoError(t, err)
		}
		giveBack()
		giveBack() // which changes nothing
		require.ErrorAs(t, admit("s-2", 170_001), new(*watchdog.Refused))
		require.NoError(t, admit("s-3", 170_000))
	})
}

// TestMeter calls the API of a model, which says what was used.
func TestMeter(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"type":"message","model":"some-model-1","usage":{"input_tokens":1000,"output_tokens":100}}`)
	}))
	defer api.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	priceFile := []byte(`{"currency":"EUR","date":"2026-08-01","models":{"some-model-*":{"input":3000000,"output":15000000}}}`)
	// snippet docs/spend.md: prices, err := watchdoghttp.ReadPrices(
	require.NoError(t, err)
	wd := attach(t, t.Context(), spending(watchdog.Spend{Cost: watchdog.Money{Micros: 5_000_000, Currency: "EUR"}}))
	defer wd.Close()
	body := strings.NewReader(`{"model":"some-model-1","max_tokens":200,"messages":[]}`)
	req, err := http.NewRequestWithContext(wd.Context(), http.MethodPost, api.URL+"/v1/messages", body)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.EqualValues(t, 1000*3+100*15, wd.Usage()[0].Used)
	require.Zero(t, wd.Usage()[0].Admitted)
}

// TestLimitsFromFile has all guards of a host from one file.
func TestLimitsFromFile(t *testing.T) {
	inFolder(t, "limits.yaml", `
runtime_controls:
  session_wall_clock_seconds: 3600
  spend: {tokens: 1000}
sweep:
  stalled_threshold: 5m
  notify: {webhook: "http://127.0.0.1:1/watchdog", secret_file: secret}
`)
	require.NoError(t, os.WriteFile("secret", []byte("whsec_"+strings.Repeat("QUJD", 10)+"\n"), 0o600))
	bubble(t, func(t *testing.T, ctx context.Context) {
		store, sessions := &watchdog.Memory{}, &session.Memory{Outbox: true}
		run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		var page func(ctx context.Context, cancels int)
		require.NoError(t, func() error {
			// snippet docs/configuration.md: c, err := config.Load("limits.yaml", nil)
			require.NoError(t, err)
			require.NotNil(t, sender)
			require.NotNil(t, keeper)
			require.Positive(t, call.Limit+call.Grace+sentinel.NoOutput+1)
			require.True(t, sweeper.Stats().Enabled)
			defer wd.Close()
			require.Equal(t, time.Hour, wd.Remaining())
			require.EqualValues(t, 1000, wd.Usage()[0].Allowed)
			return nil
		}())
	})
}

// TestVariables has a host with variables of its own prefix.
func TestVariables(t *testing.T) {
	inFolder(t, "limits.yaml", "steps: {mine: true}\nwatchdog: {mine: true}\nruntime_controls: {session_wall_clock_seconds: 60}\n")
	var container struct{ Env []string }
	load := func() (*config.Config, error) {
		// snippet docs/configuration.md: c, err := config.Loader{
		return c, err
	}
	container.Env = []string{"OUROBOROS_SESSION_WALL_CLOCK_SECONDS=90", "WATCHDOG_SESSION_WALL_CLOCK_SECONDS=10", "PATH=/bin"}
	c, err := load()
	require.NoError(t, err)
	require.Equal(t, 90*time.Second, c.Budget.WallClock)
	container.Env = []string{"OUROBOROS_SESSION_WALL_CLOCK_SECOND=90"}
	_, err = load()
	require.ErrorContains(t, err, "OUROBOROS_SESSION_WALL_CLOCK_SECOND")
}

// TestWorkflow prints what is in force for the steps of a workflow.
func TestWorkflow(t *testing.T) {
	inFolder(t, "workflow.yaml", `
defaults: {stall: {no_output_timeout: 15m}}
steps:
  provision: {stall: {no_output_timeout: 5m}}
  implement: {completion_check: {decision_file: .loop/review.verdict}}
`)
	print := func() (err error) {
		// snippet docs/configuration-values.md: c, err := config.Load("workflow.yaml", nil)
	}
	text := printed(t, func() { require.NoError(t, print()) })
	require.Contains(t, text, "provision")
	require.Contains(t, text, "5m")
	require.Contains(t, text, "15m")
}

// printed returns what a function prints.
func printed(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.Create("printed")
	require.NoError(t, err)
	before := os.Stdout
	os.Stdout = file
	do()
	os.Stdout = before
	require.NoError(t, file.Close())
	text, err := os.ReadFile("printed")
	require.NoError(t, err)
	return string(text)
}

// TestNotices delivers the end of a run to a receiver, which checks the signature.
func TestNotices(t *testing.T) {
	secret := "whsec_" + strings.Repeat("QUJD", 10)
	// snippet docs/notifications.md: receive := func(
	answered := make(chan int, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		recorded := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(recorded, req)
		w.WriteHeader(recorded.Code)
		answered <- recorded.Code
	}))
	defer hook.Close()
	url := hook.URL + "/watchdog"
	store := &session.Memory{Outbox: true}
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{Store: store})
	require.NoError(t, err)
	_, err = wd.Cancel(watchdog.Cancellation{Reason: watchdog.IdleExceeded})
	require.NoError(t, err)
	require.NoError(t, wd.Close())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- func() error {
			// snippet docs/notifications.md: sender, err := notify.New(
		}()
	}()
	require.Equal(t, http.StatusNoContent, <-answered)
	cancel()
	require.NoError(t, <-ended)
	other, err := notify.New(store, store, notify.Config{URL: url, Secrets: []string{"whsec_" + strings.Repeat("QUJE", 10)}})
	require.NoError(t, err)
	require.NoError(t, store.PutNotices(t.Context(), session.Notice{
		ID: "n-1", AggregateType: "order", AggregateID: "o-7", Type: "order.lost",
	}))
	_, _ = other.Deliver(t.Context())
	require.Equal(t, http.StatusUnauthorized, <-answered)
}

// TestAlert sweeps so many sessions that somebody is told.
func TestAlert(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context) {
		store := &session.Memory{Outbox: true}
		for i := range 25 {
			_, _, err := store.Attach(ctx, session.Session{RunID: fmt.Sprintf("s-%d", i), StartedAt: time.Now()})
			require.NoError(t, err)
		}
		// snippet docs/notifications.md: limits := sweep.Config{
		require.NoError(t, err)
		time.Sleep(time.Hour)
		for range 3 { // at most ten in each pass
			_, err = sweeper.Sweep(ctx)
			require.NoError(t, err)
		}
		notices, err := store.ClaimNotices(ctx, 100, time.Minute)
		require.NoError(t, err)
		alerts := 0
		for _, n := range notices {
			if n.Type == notify.TypeAlert {
				alerts++
			}
		}
		require.Equal(t, 1, alerts)
	})
}

var _ = []any{bound.Call{}, sweep.Config{}, watchdoghttp.Transport{}} // of snippets
