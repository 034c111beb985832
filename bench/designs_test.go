package bench_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/otelwatchdog"
	"github.com/seed62658d38/watchdog/page"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/stall/converge"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// A promise is a line of a design that the library was built for, and what shows it through the public API.
type promise struct {
	line string
	show func(t *testing.T)
}

// sessionWatchdog is the first design: a run has a budget from its persisted start.
var sessionWatchdog = []promise{
	{"session_wall_clock_seconds: 14400 is four hours, which is also the default", bubble(wallClockKey)},
	{"idle, no progress and safety end a run, each with its code", bubble(threeLimits)},
	{"material and activity events are sets of kinds", bubble(kindsOfEvents)},
	{"the event has its aggregate, its kind, and just its fields", bubble(cancelEvent)},
	{"the event is a row of a table that the host has", hostTable},
	{"the code stands beside the eight of a host", bubble(hostCodes)},
	{"the loop polls at each phase, is BLOCKED with the code, and can be resumed", bubble(blocked)},
	{"a restart sees the real time since the persisted start", bubble(restarted)},
	{"a resume after the cancel begins a fresh window at that moment", bubble(resumed)},
	{"WAIT, RETRY, UNSTUCK and CANCEL come in the order of a ladder, and end what is tried", bubble(directives)},
	{"known subscribers get each directive", bubble(subscribers)},
	{"transport time-outs are bounded by the run's", bubble(transports)},
	{"layers are inside the budget, and end by themselves", bubble(layers)},
	{"a hold that is long on purpose is no silence", bubble(holds)},
	{"an external signal is recorded and is no cancel", bubble(interrupted)},
	{"a cooperative cancel reaches the agent's process", cooperative},
	{"no separate process or thread is needed: PollOnly", bubble(pollOnly)},
	{"repeated failures: MaxStops refuses another window", bubble(maxStops)},
}

// twoLayers is the second design: the two-layer cancel of one tick.
var twoLayers = []promise{
	{"soft: the call's context ends, and it is timed out even if it then returned normally", bubble(softCancel)},
	{"an error before the soft limit is that error", bubble(earlyError)},
	{"hard: the runner goes on, releases once, and nothing of the orphan leaks", bubble(hardCancel)},
	{"max_tick_duration_minutes is 30, at least 1, at most 60", bubble(tickBounds)},
	{"the diagnosis has the elapsed time, the limit and the last tool", bubble(diagnosis)},
}

// sweeperDesign is the third design: the sweeper of stored conversations.
var sweeperDesign = []promise{
	{"stalled: active, nothing new for the threshold, and older than the minimum age", bubble(stalledRows)},
	{"startupDelayMs, intervalMs and maxCancellationsPerRun pace the passes", bubble(cadence)},
	{"the defaults of the file are those of the design", sweepDefaults},
	{"WATCHDOG_ENABLED, _INTERVAL_MS, _STALLED_THRESHOLD_MS, _MIN_AGE_MS and _MAX_CANCELLATIONS", sweepVariables},
	{"per conversation: disabled, and a threshold of its own", bubble(overrides)},
	{"agents are stopped, then the cancel is recorded, also if they cannot be stopped", bubble(stopThenCancel)},
	{"however many sweepers there are, there is one event", bubble(oneEvent)},
	{"errors while judging cancel nobody, and one bad conversation stops no pass", bubble(badRows)},
	{"the sweeper ends at shutdown, and logs its final stats", bubble(shutDown)},
	{"stats: last check, checked, cancelled, errors", bubble(sweepStats)},
	{"the metrics have their names", bubble(metricNames)},
	{"health is JSON, also when the sweeper is not enabled", bubble(health)},
	{"log lines: start, cancelling, done with counts and duration", bubble(logLines)},
	{"no content in logs, events and health", bubble(noContent)},
	{"no way in from outside: a page and a health that only read", bubble(readOnly)},
	{"queries are indexed on status and last update, and a pass costs what is stalled", indexed},
	{"less work under load: passes back off when the database is slow", bubble(backOff)},
	{"a rate limit of cancels", bubble(rateLimit)},
	{"an alert on a high rate", bubble(alert)},
	{"a warning before the cancel, and a grace", bubble(warned)},
	{"resurrection: a cancelled run is started again, a number of times", bubble(resurrected)},
	{"history of cancels by reason and day", bubble(cancelHistory)},
	{"a page shows runs, why one ended, and the sweeper", bubble(pages)},
}

// sentinel is the fourth design: the stall sentinel of a step's command.
var sentinel = []promise{
	{"the YAML of a step is read as it is written, and other keys are not ours", stepYAML},
	{"no output: a stuck wait is interrupted before its time-out", noOutput},
	{"a probe whose digest is unchanged N times", sameDigest},
	{"a probe whose class is terminal", terminalProbe},
	{"terminal patterns are optional", terminalPattern},
	{"SIGINT, SIGTERM, SIGKILL go to the group and to all else, and are recorded with times", signals},
	{"on_stall: fail kills at once, ignore goes on", actions},
	{"event.json is always there, with its fields, beside probe.jsonl and a redacted stderr.tail.log", artifacts},
	{"fingerprints are short and stable, and check_id keeps iterations apart", fingerprints},
	{"a completion check that stalls decides incomplete, and points to event.json", decision},
	{"the same fingerprints again and again escalate", escalation},
	{"all output is secret-safe", secrets},
}

// TestDesigns is the checklist of the four designs. Each row fails if what its line says is broken.
func TestDesigns(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for _, design := range []struct {
		name     string
		promises []promise
	}{
		{"session watchdog", sessionWatchdog},
		{"two-layer cancel", twoLayers},
		{"sweeper of stored conversations", sweeperDesign},
		{"stall sentinel", sentinel},
	} {
		t.Run(design.name, func(t *testing.T) {
			for _, p := range design.promises {
				t.Run(p.line, func(t *testing.T) {
					t.Parallel()
					p.show(t)
				})
			}
		})
	}
	goleak.VerifyNone(t, before)
}

// bubble gives a test fake time.
func bubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// after waits for a time, and for all that happens by then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var dropped = slog.New(slog.DiscardHandler)

// guard attaches a watchdog to a run that began at a time.
func guard(t *testing.T, id string, start time.Time, cfg watchdog.Config) *watchdog.Watchdog {
	t.Helper()
	cfg.Logger = dropped
	if cfg.Store == nil {
		cfg.Store = &watchdog.Memory{}
	}
	w, err := watchdog.New(t.Context(), watchdog.Run{ID: id, StartedAt: start}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// fires checks that a run goes on at the limit itself, and has ended with the code a nanosecond later.
func fires(t *testing.T, w *watchdog.Watchdog, limit time.Duration, want watchdog.StopReason) {
	t.Helper()
	after(limit)
	_, fired := w.Fired()
	require.False(t, fired, "at the limit itself")
	after(1)
	code, fired := w.Fired()
	require.True(t, fired)
	require.Equal(t, want, code)
	require.ErrorIs(t, context.Cause(w.Context()), want)
	after(time.Microsecond - 1) // starts are kept to the microsecond
}

// parsed reads limits of a file.
func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("limits.yaml", []byte(text), config.NoEnvironment)
	require.NoError(t, err)
	return cfg
}

// limitsOf returns the limits of a file as they are shown, by their keys.
func limitsOf(t *testing.T, text string) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, s := range parsed(t, text).Limits() {
		values[s.Key] = s.Value
	}
	return values
}

// eventsOf returns the events of a run that have one of the kinds.
func eventsOf(t *testing.T, store watchdog.EventStore, run string, kinds ...string) []watchdog.Event {
	t.Helper()
	all, err := store.Read(context.Background(), event.AggregateType, run)
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(e watchdog.Event) bool { return !slices.Contains(kinds, e.Type) })
}

// field returns a field of JSON.
func field(t *testing.T, text []byte, path ...string) any {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(text, &value))
	for _, name := range path {
		object, ok := value.(map[string]any)
		require.True(t, ok, "%s in %s", name, text)
		require.Contains(t, object, name)
		value = object[name]
	}
	return value
}

func wallClockKey(t *testing.T) {
	const key = "runtime_controls:\n  session_wall_clock_seconds: "
	for text, want := range map[string]time.Duration{
		key + "14400": 4 * time.Hour, key + "90": 90 * time.Second, "": 4 * time.Hour,
	} {
		w := guard(t, "s", time.Now(), watchdog.Config{Budget: parsed(t, text).Budget})
		require.Equal(t, want, w.Remaining())
		fires(t, w, want, "watchdog_wall_clock_exceeded")
	}
	require.Equal(t, "4h0m0s", limitsOf(t, "")["runtime_controls.session_wall_clock_seconds"], "as it is shown")
	w := guard(t, "s", time.Now(), watchdog.Config{Budget: parsed(t, key+"0").Budget})
	require.EqualValues(t, watchdog.NoLimit, w.Remaining())
}

func threeLimits(t *testing.T) {
	limited := func(key string) *watchdog.Watchdog {
		cfg := parsed(t, "runtime_controls:\n  "+key+": 600\n")
		return guard(t, key, time.Now(), watchdog.Config{Budget: cfg.Budget})
	}
	fires(t, limited("idle_timeout_seconds"), 10*time.Minute, "watchdog_idle_exceeded")
	w := limited("idle_timeout_seconds")
	after(9 * time.Minute)
	w.Activity()
	fires(t, w, 10*time.Minute, "watchdog_idle_exceeded")

	w = limited("no_progress_timeout_seconds")
	after(9 * time.Minute)
	w.Activity()
	fires(t, w, time.Minute, "watchdog_no_progress_exceeded")
	w = limited("no_progress_timeout_seconds")
	after(9 * time.Minute)
	w.Progress()
	fires(t, w, 10*time.Minute, "watchdog_no_progress_exceeded")

	w = limited("safety_timeout_seconds")
	after(9 * time.Minute)
	w.Progress()
	require.NoError(t, w.Extend(time.Hour))
	fires(t, w, time.Minute, "watchdog_safety_exceeded")
}

func kindsOfEvents(t *testing.T) {
	cfg := parsed(t, `
runtime_controls:
  idle_timeout_seconds: 600
  no_progress_timeout_seconds: 1200
  events: {material: [commit], activity: [token]}
`)
	observing := func() *watchdog.Watchdog {
		return guard(t, "s", time.Now(), watchdog.Config{Budget: cfg.Budget, Kinds: cfg.Kinds})
	}
	w := observing()
	require.Equal(t, "material", w.Observe("commit"))
	require.Equal(t, "activity", w.Observe("token"))
	require.Equal(t, "ignored", w.Observe("other"))
	for range 10 {
		after(5 * time.Minute)
		w.Observe("commit") // is activity, too
	}
	for range 2 {
		after(9 * time.Minute)
		w.Observe("token")
	}
	fires(t, w, 2*time.Minute, "watchdog_no_progress_exceeded")
	w = observing()
	after(9 * time.Minute)
	w.Observe("other")
	fires(t, w, time.Minute, "watchdog_idle_exceeded")
}

func cancelEvent(t *testing.T) {
	store := &watchdog.Memory{}
	start := time.Now().UTC()
	w := guard(t, "s-1", start, watchdog.Config{Store: store})
	after(4*time.Hour + 1)
	require.NoError(t, w.Close())
	all := eventsOf(t, store, "s-1", "runtime.watchdog.cancel")
	require.Len(t, all, 1)
	require.Equal(t, "runtime_control", all[0].AggregateType)
	require.Equal(t, "s-1", all[0].AggregateID)
	const stamp = "2006-01-02T15:04:05.000000Z"
	require.Equal(t, `{"reason":"wall_clock_exceeded","session_started_at":"`+start.Format(stamp)+`","fired_at":"`+
		start.Add(4*time.Hour).Format(stamp)+`","elapsed_seconds":14400,"configured_budget_seconds":14400}`,
		string(all[0].Payload))
}

func hostTable(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "host.db"))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE events (id varchar(36) PRIMARY KEY, aggregate_type varchar(100),
		aggregate_id varchar(36), event_type varchar(200), payload json, timestamp timestamptz,
		consensus_id varchar(36) NULL)`)
	require.NoError(t, err)
	store, err := sqlite.New(t.Context(), db)
	require.NoError(t, err)
	defer store.Close()
	w := guard(t, "s-1", time.Now().Add(-5*time.Hour), watchdog.Config{Store: store})
	require.NoError(t, w.Close())
	var kind, aggregate string
	require.NoError(t, db.QueryRow(`SELECT event_type, aggregate_type FROM events
		WHERE aggregate_id = 's-1' AND consensus_id IS NULL AND json_extract(payload, '$.elapsed_seconds') = 18000`).
		Scan(&kind, &aggregate))
	require.Equal(t, "runtime.watchdog.cancel runtime_control", kind+" "+aggregate)
}

func hostCodes(t *testing.T) {
	for _, code := range []watchdog.StopReason{
		"interview_max_rounds_exhausted", "interview_unsafe_gaps_remain", "interview_phase_deadline", "iteration_timeout",
		"wall_clock_exhausted", "oscillation_detected", "grade_regressing", "max_generations_reached",
	} {
		store, start := &watchdog.Memory{}, time.Now()
		w := guard(t, "s", start, watchdog.Config{Store: store})
		stop, err := w.Cancel(watchdog.Cancellation{Reason: code})
		require.NoError(t, err)
		require.Equal(t, code, stop.Code)
		require.NoError(t, w.Close())
		got, fired := guard(t, "s", start, watchdog.Config{Store: store}).Fired()
		require.True(t, fired)
		require.Equal(t, code, got, "as another process reads it")
		require.NotEqual(t, watchdog.WallClockExceeded, got)
	}
}

// A hostSession is what a host keeps of a session.
type hostSession struct {
	ID, Status, Reason string
	StartedAt          time.Time
	Phase              int
}

// run does the phases that are left, of an hour each.
func (h *hostSession) run(t *testing.T, w *watchdog.Watchdog) {
	t.Helper()
	for ; h.Phase < 7; h.Phase++ {
		if code, fired := w.Fired(); fired {
			h.Status, h.Reason = "BLOCKED", string(code)
			require.NoError(t, w.Close())
			return
		}
		after(time.Hour)
	}
	require.NoError(t, w.Complete())
	require.NoError(t, w.Close())
	h.Status = "COMPLETE"
}

func blocked(t *testing.T) {
	cfg := watchdog.Config{Store: &watchdog.Memory{}, Logger: dropped}
	h := &hostSession{ID: "s-1", StartedAt: time.Now()}
	h.run(t, guard(t, h.ID, h.StartedAt, cfg))
	require.Equal(t, "BLOCKED watchdog_wall_clock_exceeded", h.Status+" "+h.Reason)
	require.Equal(t, 5, h.Phase, "at four hours it had not fired")
	w, err := watchdog.Resume(t.Context(), watchdog.Run{ID: h.ID, StartedAt: h.StartedAt}, cfg)
	require.NoError(t, err)
	h.run(t, w)
	require.Equal(t, "COMPLETE", h.Status)
	_, err = watchdog.New(t.Context(), watchdog.Run{ID: h.ID, StartedAt: h.StartedAt}, cfg)
	require.ErrorIs(t, err, watchdog.ErrComplete)
}

func restarted(t *testing.T) {
	store, start := &watchdog.Memory{}, time.Now()
	require.NoError(t, guard(t, "s", start, watchdog.Config{Store: store}).Close())
	after(3 * time.Hour) // in which no process lives
	w := guard(t, "s", start, watchdog.Config{Store: store})
	require.Equal(t, 3*time.Hour, w.Elapsed())
	fires(t, w, time.Hour, "watchdog_wall_clock_exceeded")
}

func resumed(t *testing.T) {
	cfg := watchdog.Config{Store: &watchdog.Memory{}, Logger: dropped}
	start := time.Now()
	w := guard(t, "s", start, cfg)
	after(5 * time.Hour)
	require.NoError(t, w.Close())
	_, fired := guard(t, "s", start, cfg).Fired()
	require.True(t, fired, "to attach again is not to resume")
	w, err := watchdog.Resume(t.Context(), watchdog.Run{ID: "s", StartedAt: start}, cfg)
	require.NoError(t, err)
	began := time.Now()
	require.True(t, w.StartedAt().Equal(began))
	require.NoError(t, w.Close())
	after(time.Hour)
	w = guard(t, "s", start, cfg) // by a host that crashed before it kept the new start
	require.True(t, w.StartedAt().Equal(began))
	fires(t, w, 3*time.Hour, "watchdog_wall_clock_exceeded")
}

func directives(t *testing.T) {
	cfg := parsed(t, "runtime_controls:\n  idle_timeout_seconds: 60\n  ladders: {idle: [wait, retry, unstuck, cancel]}\n")
	w := guard(t, "s", time.Now(), watchdog.Config{Budget: cfg.Budget})
	var tried []watchdog.DirectiveKind
	for {
		err := w.Try(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		d := (*watchdog.Directive)(nil)
		if !errors.As(err, &d) {
			require.ErrorIs(t, err, watchdog.IdleExceeded)
			break
		}
		tried = append(tried, d.Kind)
	}
	require.Equal(t, []watchdog.DirectiveKind{"retry", "unstuck"}, tried)
	var polled []watchdog.DirectiveKind
	for d, ok := w.Poll(); ok; d, ok = w.Poll() {
		polled = append(polled, d.Kind)
	}
	require.Equal(t, []watchdog.DirectiveKind{"wait", "retry", "unstuck", "cancel"}, polled)
	require.Equal(t, 4*time.Minute, w.Elapsed().Truncate(time.Second))
}

func subscribers(t *testing.T) {
	w := guard(t, "s", time.Now(), watchdog.Config{Budget: watchdog.Budget{
		Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
	}})
	var mu sync.Mutex
	got := map[string]int{}
	for i := range 3 {
		w.Subscribe(func(d watchdog.Directive) {
			mu.Lock()
			got[fmt.Sprint(i, " ", d.Kind)]++
			mu.Unlock()
			if i == 0 {
				panic("a subscriber that fails")
			}
		})
	}
	after(time.Hour)
	require.Equal(t, map[string]int{
		"0 retry": 1, "0 cancel": 1, "1 retry": 1, "1 cancel": 1, "2 retry": 1, "2 cancel": 1,
	}, got)
}

// silentServer answers, and then sends nothing.
type silentServer struct{}

func (silentServer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, end := io.Pipe()
	context.AfterFunc(r.Context(), func() { end.CloseWithError(context.Cause(r.Context())) })
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r, Header: http.Header{}}, nil
}

func transports(t *testing.T) {
	w := guard(t, "s", time.Now(), watchdog.Config{
		Budget: watchdog.Budget{WallClock: 10 * time.Minute, Reserve: time.Minute},
	})
	client := http.Client{Transport: &watchdoghttp.Transport{Base: silentServer{}, Idle: time.Minute}}
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://model.test", http.NoBody)
	require.NoError(t, err)
	began := time.Now()
	response, err := client.Do(request)
	require.NoError(t, err)
	_, err = io.ReadAll(response.Body)
	require.ErrorIs(t, err, watchdoghttp.ErrSilent)
	require.NoError(t, response.Body.Close())
	require.Equal(t, time.Minute, time.Since(began).Truncate(time.Second))

	began = time.Now()
	out := bound.Do(w.Context(), bound.Call{Limit: time.Hour}, func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	require.Equal(t, 8*time.Minute, time.Since(began).Truncate(time.Second), "the tool has an hour, the run has not")
	overrun := (*bound.Overrun)(nil)
	require.ErrorAs(t, out.Err, &overrun)
	require.Equal(t, "s", overrun.RunID)
	_, fired := w.Fired()
	require.False(t, fired, "the reserve is left")
}

func layers(t *testing.T) {
	store := &watchdog.Memory{}
	w := guard(t, "s", time.Now(), watchdog.Config{Store: store, Budget: watchdog.Budget{WallClock: time.Hour}})
	step, err := w.Layer("step", watchdog.Budget{WallClock: 2 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, time.Hour, step.Remaining(), "no more than what is around it has")
	call, err := step.Layer("call", watchdog.Budget{WallClock: time.Minute})
	require.NoError(t, err)
	fires(t, call, time.Minute, "watchdog_wall_clock_exceeded")
	require.NoError(t, step.Context().Err(), "what is around it goes on")
	require.NoError(t, w.Context().Err())
	all := eventsOf(t, store, "s/step/call", event.Cancel)
	require.Len(t, all, 1)
	require.Equal(t, "s/step", field(t, all[0].Payload, "parent"))
	after(time.Hour)
	_, fired := w.Fired()
	require.True(t, fired)
	require.ErrorIs(t, context.Cause(step.Context()), watchdog.WallClockExceeded, "its layers end with it")
	require.NoError(t, errors.Join(call.Close(), step.Close()))
}

func holds(t *testing.T) {
	w := guard(t, "s", time.Now(), watchdog.Config{Budget: watchdog.Budget{Idle: time.Minute, WallClock: 4 * time.Hour}})
	h, err := w.Hold(t.Context(), "approval", watchdog.HoldLimit{Cap: 9 * time.Hour, PausesWallClock: true})
	require.NoError(t, err)
	after(8 * time.Hour)
	require.Equal(t, 4*time.Hour, w.Remaining())
	require.True(t, h.Close())
	fires(t, w, time.Minute, "watchdog_idle_exceeded")
	w = guard(t, "s", time.Now(), watchdog.Config{})
	_, err = w.Hold(t.Context(), "tool", watchdog.HoldLimit{Cap: time.Minute})
	require.NoError(t, err)
	fires(t, w, time.Minute, "watchdog_hold_exceeded")
	require.Equal(t, "tool", w.Stop().Hold)
}

func interrupted(t *testing.T) {
	store, start := &watchdog.Memory{}, time.Now()
	w := guard(t, "s", start, watchdog.Config{Store: store})
	require.NoError(t, w.Interrupt("SIGTERM"))
	require.Error(t, w.Context().Err())
	_, fired := w.Fired()
	require.False(t, fired)
	require.NoError(t, w.Close())
	require.Len(t, eventsOf(t, store, "s", event.Interrupt), 1)
	require.Empty(t, eventsOf(t, store, "s", event.Cancel))
	fires(t, guard(t, "s", start, watchdog.Config{Store: store}), 4*time.Hour, "watchdog_wall_clock_exceeded")
}

func cooperative(t *testing.T) {
	w := guard(t, "s", time.Now(), watchdog.Config{})
	started := make(chan struct{})
	cmd := exec.Command("sh", "-c", "echo ready; sleep 60")
	cmd.Stdout = writes(func() { close(started) })
	go func() {
		<-started
		_, _ = w.Cancel(watchdog.Cancellation{Reason: "operator"})
	}()
	result, err := stall.Run(w.Context(), cmd, stall.Config{Step: "agent", Logger: dropped})
	require.ErrorIs(t, err, watchdog.StopReason("operator"))
	require.True(t, result.Terminated)
	require.Less(t, result.Elapsed, 30*time.Second)
}

// writes is a writer that calls a func at its first write.
func writes(first func()) io.Writer {
	var once sync.Once
	return writerFunc(func(p []byte) (int, error) {
		once.Do(first)
		return len(p), nil
	})
}

type writerFunc func(p []byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

func pollOnly(t *testing.T) {
	before := goroutines()
	w := guard(t, "s", time.Now(), watchdog.Config{PollOnly: true})
	require.Equal(t, before, goroutines())
	after(4*time.Hour + 1)
	require.NoError(t, w.Context().Err(), "nobody has polled, and no timer was set")
	code, fired := w.Fired()
	require.True(t, fired)
	require.Equal(t, watchdog.WallClockExceeded, code)
	require.ErrorIs(t, context.Cause(w.Context()), watchdog.WallClockExceeded)
	require.Equal(t, before, goroutines())
}

// goroutines returns how many there are in the bubble of the caller.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	all := string(stacks[:runtime.Stack(stacks, true)])
	bubble := regexp.MustCompile(`synctest bubble \d+\]`).FindString(all) // that of the caller is first
	return strings.Count(all, bubble)
}

func maxStops(t *testing.T) {
	cfg := watchdog.Config{Store: &watchdog.Memory{}, MaxStops: 2, Logger: dropped}
	run := watchdog.Run{ID: "s", StartedAt: time.Now()}
	w, err := watchdog.New(t.Context(), run, cfg)
	for range 2 {
		require.NoError(t, err)
		after(5 * time.Hour)
		require.NoError(t, w.Close())
		w, err = watchdog.Resume(t.Context(), run, cfg)
	}
	require.ErrorIs(t, err, watchdog.ErrFailing)
}

func softCancel(t *testing.T) {
	call := bound.Call{Limit: time.Minute, Grace: time.Minute}
	out := bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
		<-ctx.Done()
		overrun := (*bound.Overrun)(nil)
		require.ErrorAs(t, context.Cause(ctx), &overrun)
		return "late", nil
	})
	require.Equal(t, bound.LayerSoft, out.Layer)
	require.ErrorIs(t, out.Err, context.DeadlineExceeded)
	require.Equal(t, "late", out.Result, "for the host to judge")
	require.True(t, out.Overran())
	require.False(t, out.Abandoned)
	require.Equal(t, time.Minute, out.Elapsed.Truncate(time.Second))
}

func earlyError(t *testing.T) {
	failed := errors.New("the tool failed")
	out := bound.Do(t.Context(), bound.Call{Limit: time.Minute}, func(context.Context) (int, error) {
		time.Sleep(time.Minute - 1)
		return 0, failed
	})
	require.Equal(t, failed, out.Err)
	require.Equal(t, bound.LayerNone, out.Layer)
}

func hardCancel(t *testing.T) {
	store := &watchdog.Memory{}
	w := guard(t, "s", time.Now(), watchdog.Config{Store: store})
	var calls bound.Calls
	var log bytes.Buffer
	released, leave := 0, make(chan struct{})
	call := bound.Call{
		Key: "tick", Limit: time.Minute, Grace: 30 * time.Second, Calls: &calls, Release: func() { released++ },
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	out := bound.Do(w.Context(), call, func(context.Context) (string, error) {
		<-leave
		panic("canary-of-an-orphan")
	})
	require.Equal(t, bound.LayerHard, out.Layer)
	require.True(t, out.Abandoned)
	require.Equal(t, 90*time.Second, out.Elapsed.Truncate(time.Second))
	require.Empty(t, out.Result)
	require.Equal(t, 1, released)
	require.Len(t, calls.Abandoned(), 1)
	again := bound.Do(w.Context(), call, func(context.Context) (string, error) { return "next tick", nil })
	require.Equal(t, "next tick", again.Result, "the key is free")
	close(leave)
	synctest.Wait()
	require.Equal(t, bound.Counts{Abandoned: 1, Ended: 1, Panicked: 1}, calls.Counts())
	require.Equal(t, 1, released)
	require.NoError(t, w.Close())
	overruns := eventsOf(t, store, "s", event.Overrun)
	require.Len(t, overruns, 1)
	require.NotContains(t, string(overruns[0].Payload), "canary")
}

func tickBounds(t *testing.T) {
	for minutes, want := range map[string]time.Duration{
		"1": time.Minute, "7.5": 450 * time.Second, "60": time.Hour, "": 30 * time.Minute,
	} {
		text := ""
		if minutes != "" {
			text = "runtime_controls: {max_tick_duration_minutes: " + minutes + "}"
		}
		tick := parsed(t, text).Tick
		call := bound.Call{Limit: tick.Limit, Grace: tick.Grace}
		out := bound.Do(t.Context(), call, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, nil
		})
		require.Equal(t, want, out.Elapsed.Truncate(time.Second))
	}
	for _, minutes := range []string{"0", "0.5", "61", "-1"} {
		text := "runtime_controls: {max_tick_duration_minutes: " + minutes + "}"
		_, err := config.Parse("limits.yaml", []byte(text), config.NoEnvironment)
		require.ErrorContains(t, err, "max_tick_duration_minutes", minutes)
	}
}

func diagnosis(t *testing.T) {
	call := bound.Call{Key: "tick", Limit: time.Minute, Grace: time.Second, Calls: &bound.Calls{}, Logger: dropped}
	out := bound.Do(t.Context(), call, func(ctx context.Context) (int, error) {
		bound.Note(ctx, "grep")
		bound.Note(ctx, "bash")
		<-ctx.Done()
		time.Sleep(time.Hour)
		return 0, nil
	})
	after(time.Hour) // until the orphan has ended
	overrun := (*bound.Overrun)(nil)
	require.ErrorAs(t, out.Err, &overrun)
	require.Equal(t, "bash", overrun.Note)
	require.Equal(t, time.Minute, overrun.Limit)
	require.Equal(t, 61*time.Second, overrun.Elapsed.Truncate(time.Second))
	for _, part := range []string{"tick", "bash", "1m0s"} {
		require.ErrorContains(t, out.Err, part)
	}
}

// silentFor is the row of a run that had its last event so long ago. It is a day old.
func silentFor(id string, silence time.Duration) session.Session {
	now := time.Now()
	return session.Session{
		RunID: id, Status: session.Active, CreatedAt: now.Add(-24 * time.Hour), LastEventAt: now.Add(-silence),
		StartedAt: now.Add(-24 * time.Hour), Host: "host-1", Attempt: 1,
	}
}

// put makes a database with rows.
func put(t *testing.T, rows ...session.Session) *session.Memory {
	t.Helper()
	db := &session.Memory{}
	require.NoError(t, db.Put(t.Context(), rows...))
	return db
}

// stalled makes rows that are stalled.
func stalled(n int) (rows []session.Session) {
	for i := range n {
		rows = append(rows, silentFor(fmt.Sprintf("s-%02d", i), time.Hour))
	}
	return rows
}

func sweeperOf(t *testing.T, db sweep.Finder, canceller sweep.Canceller, cfg sweep.Config) *sweep.Sweeper {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = dropped
	}
	s, err := sweep.New(db, canceller, cfg)
	require.NoError(t, err)
	return s
}

// passes has one pass, without an error.
func passes(t *testing.T, s *sweep.Sweeper) sweep.Pass {
	t.Helper()
	p, err := s.Sweep(t.Context())
	require.NoError(t, err)
	return p
}

// runs runs a sweeper for a time.
func runs(t *testing.T, s *sweep.Sweeper, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	after(d)
	stop()
	require.NoError(t, <-ended)
}

func statusOf(t *testing.T, db session.Store, run string) session.Status {
	t.Helper()
	row, err := db.Session(t.Context(), run)
	require.NoError(t, err)
	return row.Status
}

func stalledRows(t *testing.T) {
	young := silentFor("young", time.Minute)
	young.CreatedAt, young.Threshold = time.Now().Add(-2*time.Minute+1000), 30*time.Second
	done := silentFor("done", time.Hour)
	done.Status = session.Finished
	db := put(t, young, done,
		silentFor("stalled", 10*time.Minute+time.Microsecond), silentFor("at the limit", 10*time.Minute))
	require.Equal(t, 1, passes(t, sweeperOf(t, db, db, sweep.Config{})).Cancelled)
	row, err := db.Session(t.Context(), "stalled")
	require.NoError(t, err)
	require.Equal(t, session.Cancelled, row.Status)
	require.Equal(t, watchdog.StopReason("watchdog_idle_timeout"), row.Reason)
	require.Equal(t, session.Active, statusOf(t, db, "at the limit"))
	require.Equal(t, session.Active, statusOf(t, db, "young"))
	require.Equal(t, session.Finished, statusOf(t, db, "done"))
}

func cadence(t *testing.T) {
	db, began := put(t, stalled(25)...), time.Now()
	type pass struct {
		at        time.Duration
		cancelled int
	}
	var got []pass
	s := sweeperOf(t, db, db, sweep.Config{OnPass: func(p sweep.Pass) {
		got = append(got, pass{time.Since(began).Truncate(time.Second), p.Cancelled})
	}})
	runs(t, s, 16*time.Minute)
	require.Equal(t, []pass{
		{30 * time.Second, 10}, {330 * time.Second, 10}, {630 * time.Second, 5}, {930 * time.Second, 0},
	}, got)
}

func sweepDefaults(t *testing.T) {
	values := limitsOf(t, "")
	for key, want := range map[string]string{
		"sweep.enabled": "true", "sweep.interval": "5m0s", "sweep.stalled_threshold": "10m0s", "sweep.min_age": "2m0s",
		"sweep.startup_delay": "30s", "sweep.max_cancellations_per_run": "10",
	} {
		require.Equal(t, want, values[key], key)
	}
}

func sweepVariables(t *testing.T) {
	cfg, err := config.Loader{Environment: []string{
		"WATCHDOG_ENABLED=false", "WATCHDOG_INTERVAL_MS=60000", "WATCHDOG_STALLED_THRESHOLD_MS=120000",
		"WATCHDOG_MIN_AGE_MS=30000", "WATCHDOG_MAX_CANCELLATIONS=3",
	}}.Parse("limits.yaml", nil)
	require.NoError(t, err)
	require.True(t, cfg.Sweep.Disabled)
	require.Equal(t, time.Minute, cfg.Sweep.Interval)
	require.Equal(t, 2*time.Minute, cfg.Sweep.StalledThreshold)
	require.Equal(t, 30*time.Second, cfg.Sweep.MinAge)
	require.EqualValues(t, 3, cfg.Sweep.MaxCancellationsPerRun)
	_, err = config.Loader{Environment: []string{"WATCHDOG_INTERVALL_MS=60000"}}.Parse("limits.yaml", nil)
	require.ErrorContains(t, err, "WATCHDOG_INTERVALL_MS")
}

func overrides(t *testing.T) {
	disabled, patient := silentFor("disabled", 24*time.Hour), silentFor("patient", time.Hour)
	hasty := silentFor("hasty", 6*time.Minute)
	disabled.Threshold, patient.Threshold, hasty.Threshold = watchdog.NoLimit, 2*time.Hour, 5*time.Minute
	db := put(t, disabled, patient, hasty)
	require.Equal(t, 1, passes(t, sweeperOf(t, db, db, sweep.Config{})).Cancelled)
	require.Equal(t, session.Cancelled, statusOf(t, db, "hasty"))
	after(2 * time.Hour)
	require.Equal(t, 1, passes(t, sweeperOf(t, db, db, sweep.Config{})).Cancelled)
	require.Equal(t, session.Cancelled, statusOf(t, db, "patient"))
	require.Equal(t, session.Active, statusOf(t, db, "disabled"))
}

func stopThenCancel(t *testing.T) {
	db := put(t, stalled(3)...)
	var stopped []string
	s := sweeperOf(t, db, db, sweep.Config{StopHook: func(_ context.Context, row session.Session) error {
		require.Equal(t, session.Active, statusOf(t, db, row.RunID), "the cancel comes later")
		stopped = append(stopped, row.RunID)
		if row.RunID == "s-01" {
			return errors.New("no such agent")
		}
		return nil
	}})
	p, err := s.Sweep(t.Context())
	require.ErrorContains(t, err, "no such agent")
	require.Equal(t, 3, p.Cancelled)
	require.Equal(t, []string{"s-00", "s-01", "s-02"}, slices.Sorted(slices.Values(stopped)))
	for _, run := range stopped {
		row, err := db.Session(t.Context(), run)
		require.NoError(t, err)
		require.Equal(t, session.Cancelled, row.Status)
		require.Equal(t, run == "s-01", row.StopFailed)
		all := eventsOf(t, db, run, event.Cancel)
		require.Len(t, all, 1)
		require.Equal(t, "idle_timeout", field(t, all[0].Payload, "reason"))
		require.Equal(t, "system-watchdog", field(t, all[0].Payload, "author"))
	}
}

func oneEvent(t *testing.T) {
	db := put(t, stalled(5)...)
	var all sync.WaitGroup
	for range 4 {
		s := sweeperOf(t, db, db, sweep.Config{})
		all.Go(func() { _, _ = s.Sweep(t.Context()) })
	}
	all.Wait()
	for _, row := range stalled(5) {
		require.Equal(t, session.Cancelled, statusOf(t, db, row.RunID))
		require.Len(t, eventsOf(t, db, row.RunID, event.Cancel), 1)
	}
}

// A failing is a finder and canceller that fail.
type failing struct {
	*session.Memory
	stalled, cancel func(ctx context.Context, run string) error
}

func (f failing) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	if f.stalled != nil {
		if err := f.stalled(ctx, ""); err != nil {
			return session.Page{}, err
		}
	}
	return f.Memory.Stalled(ctx, q)
}

func (f failing) Cancel(ctx context.Context, s session.Session, c session.CancelRequest) (session.Outcome, error) {
	if f.cancel != nil {
		if err := f.cancel(ctx, s.RunID); err != nil {
			return "", err
		}
	}
	return f.Memory.Cancel(ctx, s, c)
}

func badRows(t *testing.T) {
	db := failing{Memory: put(t, stalled(4)...)}
	require.NoError(t, db.Spoil(t.Context(), "s-01"))
	db.cancel = func(_ context.Context, run string) error {
		if run == "s-02" {
			return errors.New("a bad conversation")
		}
		return nil
	}
	p, err := sweeperOf(t, db, db, sweep.Config{}).Sweep(t.Context())
	require.ErrorContains(t, err, "a bad conversation")
	require.ErrorIs(t, err, session.ErrUnreadable)
	require.Equal(t, 2, p.Cancelled)
	require.Equal(t, session.Active, statusOf(t, db, "s-02"))
	require.Empty(t, eventsOf(t, db, "s-01", event.Cancel))
	db.Memory = put(t, stalled(4)...)
	db.stalled = func(context.Context, string) error { return errors.New("no database") }
	p, err = sweeperOf(t, db, db, sweep.Config{}).Sweep(t.Context())
	require.ErrorContains(t, err, "no database")
	require.Zero(t, p.Cancelled)
	require.Equal(t, session.Active, statusOf(t, db, "s-00"))
}

// A lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func shutDown(t *testing.T) {
	var log lines
	db := put(t, stalled(2)...)
	s := sweeperOf(t, db, db, sweep.Config{Logger: log.logger()})
	runs(t, s, time.Minute)
	require.False(t, s.Stats().Running)
	require.Regexp(t, `the sweeper has ended" passes=1 checked=2 .*cancelled=2 .*errors=0`, log.String())
}

func sweepStats(t *testing.T) {
	db := put(t, stalled(2)...)
	require.NoError(t, db.Spoil(t.Context(), "s-01"))
	s := sweeperOf(t, db, db, sweep.Config{})
	began := time.Now()
	_, _ = s.Sweep(t.Context())
	after(time.Hour)
	stats := s.Stats()
	require.True(t, stats.Enabled)
	require.True(t, stats.Last.StartedAt.Equal(began))
	require.Equal(t, []int{1, 2, 1, 1}, []int{stats.Passes, stats.Checked, stats.Cancelled, stats.Errors})
}

// metricNames checks the names of the third design. Its conversations are sessions here, as in the API: a view of the
// host's gives them another name.
func metricNames(t *testing.T) {
	renamed := func(from, to string) sdkmetric.Option {
		return sdkmetric.WithView(sdkmetric.NewView(sdkmetric.Instrument{Name: from}, sdkmetric.Stream{Name: to}))
	}
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader),
		renamed("watchdog.sessions.checked", "watchdog.conversations.checked"),
		renamed("watchdog.sessions.canceled", "watchdog.conversations.canceled"))
	instrument, err := otelwatchdog.New(otelwatchdog.Config{MeterProvider: meters})
	require.NoError(t, err)
	db := put(t, stalled(3)...)
	require.NoError(t, db.Spoil(t.Context(), "s-02"))
	_, _ = sweeperOf(t, db, db, sweep.Config{OnPass: instrument.Pass}).Sweep(t.Context())
	w, err := instrument.Attach(t.Context(), watchdog.Run{}, watchdog.Config{Logger: dropped})
	require.NoError(t, err)
	defer w.Close()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	got := map[string]string{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				got[m.Name] = strconv.FormatInt(data.DataPoints[0].Value, 10)
			case metricdata.Histogram[float64]:
				got[m.Name] = m.Unit
			}
		}
	}
	for name, want := range map[string]string{
		"watchdog.checks.total": "1", "watchdog.conversations.checked": "3", "watchdog.conversations.canceled": "2",
		"watchdog.errors.total": "1", "watchdog.duration.ms": "ms", "watchdog.runs.live": "1",
	} {
		require.Equal(t, want, got[name], "%s of %v", name, slices.Sorted(maps.Keys(got)))
	}
}

// get asks a handler.
func get(t *testing.T, handler http.Handler, method, query string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(method, "/watchdog/"+query, http.NoBody))
	return answer
}

func health(t *testing.T) {
	db := failing{Memory: put(t, stalled(2)...)}
	s := sweeperOf(t, db, db, sweep.Config{})
	passes(t, s)
	answer := get(t, s.Handler(), http.MethodGet, "")
	require.Equal(t, http.StatusOK, answer.Code)
	require.Equal(t, "ok", field(t, answer.Body.Bytes(), "status"))
	require.EqualValues(t, 2, field(t, answer.Body.Bytes(), "cancelled"))
	db.stalled = func(context.Context, string) error { return errors.New("no database") }
	s = sweeperOf(t, db, db, sweep.Config{})
	_, _ = s.Sweep(t.Context())
	answer = get(t, s.Handler(), http.MethodGet, "")
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Equal(t, "failing", field(t, answer.Body.Bytes(), "status"))
	answer = get(t, sweeperOf(t, db, db, sweep.Config{Disabled: true}).Handler(), http.MethodGet, "")
	require.Equal(t, http.StatusOK, answer.Code)
	require.Equal(t, "disabled", field(t, answer.Body.Bytes(), "status"))
}

func logLines(t *testing.T) {
	var log lines
	db := put(t, stalled(2)...)
	hook := func(context.Context, session.Session) error {
		time.Sleep(25 * time.Millisecond)
		return nil
	}
	s := sweeperOf(t, db, db, sweep.Config{Logger: log.logger(), StopHook: hook})
	runs(t, s, time.Minute)
	for _, line := range []string{
		`"the sweeper starts" enabled=true .*interval=5m0s .*stalled_threshold=10m0s .*stop_hook=true`,
		`"a stalled session was cancelled" run=s-00 `,
		`"a pass over the sessions is done" checked=2 found=2 cancelled=2 .*duration=50ms`,
	} {
		require.Regexp(t, line, log.String())
	}
}

func noContent(t *testing.T) {
	const canary = "canary-of-a-prompt"
	var log lines
	rows := stalled(2)
	rows[0].State = json.RawMessage(`{"phase":"` + canary + `"}`)
	db := failing{Memory: put(t, rows...)}
	db.stalled = func(context.Context, string) error { return nil }
	hook := func(_ context.Context, row session.Session) error {
		if bytes.Contains(row.State, []byte(canary)) {
			return nil // the hook has the row
		}
		panic(canary)
	}
	s := sweeperOf(t, db, db, sweep.Config{Logger: log.logger(), StopHook: hook})
	runs(t, s, time.Minute) // which logs its errors
	require.Equal(t, []int{2, 1}, []int{s.Stats().Cancelled, s.Stats().Errors})
	require.Contains(t, log.String(), "panicked")
	said := log.String() + get(t, s.Handler(), http.MethodGet, "").Body.String()
	for _, row := range rows {
		for _, e := range eventsOf(t, db, row.RunID, event.Cancel, event.Warning) {
			said += string(e.Payload)
		}
	}
	require.NotContains(t, said, canary)
}

func readOnly(t *testing.T) {
	db := put(t, stalled(1)...)
	s := sweeperOf(t, db, db, sweep.Config{})
	p, err := page.New(page.Config{Sessions: db, Events: db, Sweeper: s, Logger: dropped})
	require.NoError(t, err)
	for _, handler := range []http.Handler{s.Handler(), p} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			require.Equal(t, http.StatusMethodNotAllowed, get(t, handler, method, "?run=s-00").Code)
		}
		require.Equal(t, http.StatusOK, get(t, handler, http.MethodGet, "").Code)
	}
	require.NoError(t, p.Close())
	require.Equal(t, session.Active, statusOf(t, db, "s-00"))
}

func indexed(t *testing.T) {
	server := pgtest.Start(t, pgtest.Options{})
	dsn := server.DSN(server.Database(t))
	store, err := postgres.Open(t.Context(), dsn, postgres.Config{})
	require.NoError(t, err)
	defer store.Close()
	db, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	defer db.Close()
	const rows = 20_000
	_, err = db.Exec(`INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
		SELECT 'run-' || i, 'active', now() - interval '1 day',
			now() - CASE WHEN i % 2000 = 0 THEN interval '1 hour' ELSE interval '1 minute' END,
			now() - interval '1 day', 'host', 1
		FROM generate_series(1, $1) i`, rows)
	require.NoError(t, err)
	_, err = db.Exec(`VACUUM ANALYZE watchdog_sessions`)
	require.NoError(t, err)
	count := func() (scanned, fetched int) {
		require.NoError(t, db.QueryRow(`SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables
			WHERE relname = 'watchdog_sessions'`).Scan(&scanned, &fetched))
		return scanned, fetched
	}
	scannedBefore, fetchedBefore := count()
	require.Equal(t, 10, passes(t, sweeperOf(t, store, store, sweep.Config{})).Cancelled)
	require.NoError(t, store.Close()) // its connections then report what they have read
	require.Eventually(t, func() bool {
		_, fetched := count()
		return fetched > fetchedBefore
	}, 20*time.Second, 20*time.Millisecond)
	scanned, fetched := count()
	require.Less(t, scanned-scannedBefore, rows, "no pass reads the whole table")
	require.Less(t, fetched-fetchedBefore, rows/10)
}

func backOff(t *testing.T) {
	db := failing{Memory: put(t, stalled(2)...)}
	slow, began := true, time.Now()
	var at []time.Duration
	db.stalled = func(ctx context.Context, _ string) error {
		at = append(at, time.Since(began).Truncate(time.Second))
		if !slow {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	s := sweeperOf(t, db, db, sweep.Config{StartupDelay: watchdog.None, RecordTimeout: time.Second})
	runs(t, s, 2*time.Minute)
	require.Greater(t, len(at), 3)
	require.Less(t, len(at), 12)
	for i := range len(at) - 2 {
		require.GreaterOrEqual(t, at[i+2]-at[i+1], at[i+1]-at[i], "the waits grow: %v", at)
	}
	require.Greater(t, at[len(at)-1]-at[len(at)-2], 8*time.Second)
	require.NotZero(t, s.Stats().ConsecutiveFailures)
	slow = false
	passes(t, s)
	require.Zero(t, s.Stats().ConsecutiveFailures)
	require.Equal(t, session.Cancelled, statusOf(t, db, "s-00"))
}

func rateLimit(t *testing.T) {
	db := put(t, stalled(60)...)
	var mu sync.Mutex
	var at []time.Time
	s := sweeperOf(t, db, db, sweep.Config{
		StartupDelay: watchdog.None, MaxCancellationsPerRun: watchdog.NoLimit, MaxCancellationsPerMinute: 6,
		OnPass: func(p sweep.Pass) {
			mu.Lock()
			defer mu.Unlock()
			for range p.Cancelled {
				at = append(at, time.Now())
			}
		},
	})
	runs(t, s, 5*time.Minute)
	require.Greater(t, len(at), 20)
	for i := range at[6:] {
		require.GreaterOrEqual(t, at[i+6].Sub(at[i]), time.Minute, "of any seven, the last is a minute after the first")
	}
}

func alert(t *testing.T) {
	db := put(t, stalled(12)...)
	var alerts []int
	s := sweeperOf(t, db, db, sweep.Config{MaxCancellationsPerRun: 4, Alert: sweep.Alert{
		Count: 6, Within: time.Hour, Func: func(_ context.Context, cancels int) { alerts = append(alerts, cancels) },
	}})
	passes(t, s)
	require.Empty(t, alerts)
	passes(t, s)
	passes(t, s)
	require.Len(t, alerts, 1, "once until the rate is back")
	require.Greater(t, alerts[0], 6)
}

func warned(t *testing.T) {
	db := put(t, stalled(2)...)
	s := sweeperOf(t, db, db, sweep.Config{Grace: 5 * time.Minute})
	require.Equal(t, 2, passes(t, s).Warned)
	require.Len(t, eventsOf(t, db, "s-00", event.Warning), 1)
	require.Equal(t, session.Active, statusOf(t, db, "s-00"))
	woken := silentFor("s-01", 0)
	woken.LastEventAt = time.Now().Add(time.Minute)
	after(time.Minute)
	require.NoError(t, db.Put(t.Context(), woken))
	after(5 * time.Minute)
	require.Equal(t, 1, passes(t, s).Cancelled)
	require.Equal(t, session.Cancelled, statusOf(t, db, "s-00"))
	require.Equal(t, session.Active, statusOf(t, db, "s-01"), "it gave a sign of life within the grace")
}

func resurrected(t *testing.T) {
	db := put(t, stalled(1)...)
	start := stalled(1)[0].StartedAt
	k, err := session.NewKeeper(session.KeeperConfig{Store: db, Logger: dropped})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	var started []int
	resume := func(_ context.Context, row session.Session) error {
		started = append(started, row.Resumes)
		w, err := watchdog.Resume(ctx, watchdog.Run{ID: row.RunID, StartedAt: start},
			watchdog.Config{Store: db, Keeper: k, Logger: dropped})
		if err == nil {
			t.Cleanup(func() { _ = w.Close() })
			w.Activity()
			_, fired := w.Fired()
			require.False(t, fired)
			require.WithinDuration(t, time.Now(), w.StartedAt(), time.Microsecond, "in a fresh window")
		}
		return err
	}
	s := sweeperOf(t, db, db, sweep.Config{Resume: sweep.ResumePolicy{Max: 2, Start: resume}})
	for range 4 {
		passes(t, s)
		after(time.Hour)
	}
	require.Equal(t, []int{1, 2}, started)
	require.Equal(t, session.Cancelled, statusOf(t, db, "s-00"), "the third silence is the last")
	require.Len(t, eventsOf(t, db, "s-00", event.Resume), 2)
	require.Len(t, eventsOf(t, db, "s-00", event.Cancel), 3)
	stop()
	require.NoError(t, <-ended)
}

func cancelHistory(t *testing.T) {
	db := put(t, stalled(2)...)
	passes(t, sweeperOf(t, db, db, sweep.Config{}))
	day := time.Now().UTC().Truncate(24 * time.Hour)
	after(24 * time.Hour)
	w := guard(t, "mine", time.Now(), watchdog.Config{Store: db, Budget: watchdog.Budget{WallClock: time.Minute}})
	after(time.Hour)
	require.NoError(t, w.Close())
	for by, want := range map[session.Dimension][]session.CancelCount{
		session.ByReason: {{Key: "idle_timeout", Count: 2}, {Key: "wall_clock_exceeded", Count: 1}},
		session.ByDay: {
			{Key: day.Format(time.DateOnly), Count: 2}, {Key: day.Add(24 * time.Hour).Format(time.DateOnly), Count: 1},
		},
	} {
		got, err := db.History(t.Context(), session.HistoryQuery{From: day, To: day.Add(48 * time.Hour), By: by})
		require.NoError(t, err)
		require.ElementsMatch(t, want, got, by)
	}
}

func pages(t *testing.T) {
	db := put(t, append(stalled(1), silentFor("alive-1", time.Second))...)
	log := &page.PassLog{}
	s := sweeperOf(t, db, db, sweep.Config{OnPass: log.Add})
	passes(t, s)
	p, err := page.New(page.Config{Sessions: db, Events: db, Sweeper: s, PassLog: log, Logger: dropped})
	require.NoError(t, err)
	defer p.Close()
	for query, want := range map[string][]string{
		"":              {"alive-1", "s-00"},
		"?run=s-00":     {"s-00", "watchdog_idle_timeout"},
		"?view=sweeper": {"s-00", "cancelled"},
	} {
		answer := get(t, p, http.MethodGet, query)
		for _, text := range want {
			require.Contains(t, answer.Body.String(), text, query)
		}
		require.NotEmpty(t, answer.Header().Get("Content-Security-Policy"))
	}
}

const stepFile = `
name: bring-up
timeout: 2h
steps:
  provision:
    worker: CUSTOM
    timeout: 75m
    stall:
      no_output_timeout: 20m
      probe: {interval: 10s, command: [bash, probe.sh]}
      stall_threshold: 12
      terminal_patterns: ['^panic: ']
      on_stall: interrupt
      grace_int: 3s
      grace_term: 4s
  lint: {worker: CUSTOM, stall: {no_output_timeout: 1m, on_stall: fail}}
  tidy: {worker: CUSTOM, stall: {no_output_timeout: 1m, on_stall: ignore}}
  implement:
    convergence: {enabled: true}
    completion_check:
      stall: {probe: {command: [bash, probe.sh]}, stall_threshold: 6, on_stall: {as_incomplete: true}}
`

func stepYAML(t *testing.T) {
	cfg := parsed(t, stepFile)
	require.Equal(t, []string{"provision", "lint", "tidy", "implement"}, cfg.Steps())
	got := cfg.Step("provision").Stall
	require.Equal(t, 20*time.Minute, got.NoOutput)
	require.Equal(t, []string{"bash", "probe.sh"}, got.Probe.Command)
	require.Equal(t, 10*time.Second, got.Probe.Interval)
	require.Equal(t, 12, got.Probe.StallThreshold)
	require.Equal(t, "^panic: ", got.Terminal[0].String())
	require.Equal(t, graces(3*time.Second, 4*time.Second), got.Grace)
	require.Equal(t, stall.ActionFail, cfg.Step("lint").Stall.OnStall)
	require.Equal(t, stall.ActionIgnore, cfg.Step("tidy").Stall.OnStall)
	check := cfg.Step("implement").Check.Stall
	require.Equal(t, 6, check.Probe.StallThreshold)
	require.True(t, check.AsIncomplete)
	misspelt := strings.Replace(stepFile, "no_output_timeout", "no_output_timeot", 1)
	_, err := config.Parse("flow.yaml", []byte(misspelt), config.NoEnvironment)
	require.ErrorContains(t, err, "no_output_timeot")
}

// graces are grace_int and grace_term.
func graces(interrupt, terminate time.Duration) []stall.Step {
	return []stall.Step{{Signal: syscall.SIGINT, Grace: interrupt}, {Signal: syscall.SIGTERM, Grace: terminate}}
}

// missing is what a probe prints of a state that a command cannot get out of.
const missing = `{"class":"terminal","fingerprints":["k8s/crd/missing:widgets"],"reasons":["see event.json"]}`

// A command is a shell script under the sentinel.
type command struct {
	t      *testing.T
	cfg    stall.Config
	store  *watchdog.Memory
	log    lines
	folder string // of the artifacts
}

// sentinelOf makes a command that is stuck after a tenth of a second of silence, and has little time to end.
func sentinelOf(t *testing.T) *command {
	t.Helper()
	dir := t.TempDir()
	c := &command{t: t, store: &watchdog.Memory{}, folder: filepath.Join(dir, "step", "_stall")}
	c.cfg = stall.Config{
		Step: "step", CheckID: "check-1", Workflow: "flow", Iteration: 2, RunID: "s", Store: c.store, Artifacts: dir,
		StepLog: "context/step/worker.log", Logger: c.log.logger(),
		Grace: graces(100*time.Millisecond, 100*time.Millisecond),
	}
	return c
}

func (c *command) silent() *command {
	c.cfg.NoOutput = 200 * time.Millisecond
	return c
}

func (c *command) probed(json string) *command {
	c.cfg.Probe = &stall.Probe{Command: []string{"echo", json}, Interval: 50 * time.Millisecond}
	return c
}

// run runs a script, which would sleep for a minute, and returns the trip that ended it.
func (c *command) run(script string) (*stall.Result, error) {
	c.t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Stderr = io.Discard
	result, err := stall.Run(c.t.Context(), cmd, c.cfg)
	require.NotNil(c.t, result)
	require.Less(c.t, result.Elapsed, 45*time.Second, "it was ended before its time")
	require.Empty(c.t, result.Survivors)
	return result, err
}

// stuck runs a script that the sentinel ends, with a code.
func (c *command) stuck(script string, want watchdog.StopReason) *stall.Result {
	c.t.Helper()
	result, err := c.run(script)
	trip := (*stall.Stalled)(nil)
	require.ErrorAs(c.t, err, &trip)
	require.ErrorIs(c.t, err, want)
	require.True(c.t, result.Terminated)
	require.Len(c.t, eventsOf(c.t, c.store, "s/step", event.Cancel), 1)
	return result
}

func (c *command) file(name string) []byte {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder, name))
	require.NoError(c.t, err)
	return text
}

func noOutput(t *testing.T) {
	result := sentinelOf(t).silent().stuck("echo begins; sleep 60", "watchdog_no_output")
	require.Equal(t, stall.KindNoOutput, result.Trip.Kind)
	require.Equal(t, []string{"stall/no_output"}, result.Fingerprints())
}

func sameDigest(t *testing.T) {
	c := sentinelOf(t).probed(`{"digest":"same"}`)
	c.cfg.Probe.StallThreshold = 4
	result := c.stuck("sleep 60", "watchdog_no_progress")
	require.Equal(t, stall.KindNoProgress, result.Trip.Kind)
	require.GreaterOrEqual(t, result.Probes.Count, 4)
	c = sentinelOf(t).probed("")
	c.cfg.Probe.Command = []string{"sh", "-c", `echo "{\"digest\":\"$(date +%N)\"}"`}
	result, err := c.run("sleep 0.5")
	require.NoError(t, err)
	require.Nil(t, result.Trip, "a digest that changes is progress")
}

func terminalProbe(t *testing.T) {
	result := sentinelOf(t).probed(missing).stuck("sleep 60", "watchdog_terminal")
	require.Equal(t, 1, result.Probes.Count)
	require.Equal(t, []string{"k8s/crd/missing:widgets"}, result.Fingerprints())
}

func terminalPattern(t *testing.T) {
	const script = "echo fatal: no such host; sleep "
	result, err := sentinelOf(t).run(script + "0.2")
	require.NoError(t, err)
	require.Nil(t, result.Trip, "they are off unless they are asked for")
	c := sentinelOf(t)
	c.cfg.Terminal = []*regexp.Regexp{regexp.MustCompile("^fatal: ")}
	require.Equal(t, stall.KindTerminal, c.stuck(script+"60", "watchdog_terminal").Trip.Kind)
}

func signals(t *testing.T) {
	c := sentinelOf(t).silent()
	marker := "61.0" + strconv.Itoa(os.Getpid())
	// One that ignores what can be ignored, one in a session of its own, and one whose parent is gone.
	script := strings.ReplaceAll(`trap "" INT TERM; setsid sleep X & (setsid sleep X &) ; echo; sleep X`, "X", marker)
	result := c.stuck(script, "watchdog_no_output")
	var sent []syscall.Signal
	for i, s := range result.Sent {
		sent = append(sent, s.Signal)
		require.False(t, s.At.IsZero())
		require.True(t, i == 0 || !s.At.Before(result.Sent[i-1].At.Add(50*time.Millisecond)), "after a grace")
	}
	require.Equal(t, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}, sent)
	require.Greater(t, result.Sent[0].Processes, 1, "also those that left the group")
	require.Equal(t, syscall.SIGKILL, result.EndedBy)
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range all {
		text, _ := os.ReadFile(file)
		require.NotContains(t, string(text), "sleep\x00"+marker)
	}
}

func actions(t *testing.T) {
	c := sentinelOf(t).silent()
	c.cfg.OnStall = stall.ActionFail
	result := c.stuck("sleep 60", "watchdog_no_output")
	require.Len(t, result.Sent, 1)
	require.Equal(t, syscall.SIGKILL, result.Sent[0].Signal)
	c = sentinelOf(t).silent()
	c.cfg.OnStall = stall.ActionIgnore
	result, err := c.run("sleep 1")
	require.NoError(t, err)
	require.True(t, result.Finished)
	require.NotEmpty(t, result.Trips, "it is recorded all the same")
	require.Empty(t, result.Sent)
}

func artifacts(t *testing.T) {
	c := sentinelOf(t).probed(missing)
	c.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: func(text []byte) []byte {
		return regexp.MustCompile(`password=\S+`).ReplaceAll(text, []byte("password=[redacted]"))
	}}
	c.stuck("echo login password=hunter2 >&2; sleep 60", "watchdog_terminal")
	e := c.file("event.json")
	for path, want := range map[string]any{
		"check_id": "check-1", "workflow": "flow", "step_id": "step", "iteration": 2.0, "trigger.kind": "terminal",
		"action.terminated": true, "action.signals": []any{"SIGINT"}, "fingerprints": []any{"k8s/crd/missing:widgets"},
		"pointers.step_log": "context/step/worker.log",
	} {
		require.Equal(t, want, field(t, e, strings.Split(path, ".")...), path)
	}
	require.NotEmpty(t, field(t, e, "trigger", "reason"))
	require.InDelta(t, time.Now().Unix(), field(t, e, "trigger", "observed_at_unix"), 60)
	require.Contains(t, field(t, e, "pointers", "probe_log"), "step/_stall/probe.jsonl")
	first, _, _ := strings.Cut(string(c.file("probe.jsonl")), "\n")
	require.Equal(t, "terminal", field(t, []byte(first), "class"))
	require.Equal(t, "login password=[redacted]\n", string(c.file("stderr.tail.log")))
}

func fingerprints(t *testing.T) {
	var all [2][]string
	for i := range all {
		c := sentinelOf(t).silent()
		c.cfg.CheckID, c.cfg.Iteration, c.cfg.FingerprintPrefix = fmt.Sprint("check-", i), i, "phase/verify"
		all[i] = c.stuck(fmt.Sprintf("echo attempt %d; sleep 60", i), "watchdog_no_output").Fingerprints()
		require.Equal(t, fmt.Sprint("check-", i), field(t, c.file("event.json"), "check_id"))
		require.EqualValues(t, i, field(t, c.file("event.json"), "iteration"))
	}
	require.Equal(t, all[0], all[1], "attempts that fail alike have the same")
	require.Equal(t, []string{"phase/verify/stall/no_output"}, all[0])
}

func decision(t *testing.T) {
	c := sentinelOf(t).probed(missing)
	c.cfg.AsIncomplete, c.cfg.Probe.Publish = true, true
	result, err := c.run("sleep 60")
	require.NoError(t, err, "a stalled check has an answer")
	require.True(t, result.Incomplete)
	text := c.file("decision.json")
	require.Equal(t, "incomplete", field(t, text, "decision"))
	require.Equal(t, []any{"k8s/crd/missing:widgets"}, field(t, text, "fingerprints"))
	require.Equal(t, "event.json", field(t, text, "event"))
	require.Equal(t, []any{"see event.json"}, field(t, text, "reasons"))
}

func escalation(t *testing.T) {
	tracker, err := converge.New(converge.Config{})
	require.NoError(t, err)
	c := sentinelOf(t).silent()
	same := c.stuck("sleep 60", "watchdog_no_output").Fingerprints()
	var advice []converge.Advice
	var stages []string
	for range 6 {
		d, err := tracker.Observe(same)
		require.NoError(t, err)
		advice, stages = append(advice, d.Advice), append(stages, d.Stage.Name)
		state, err := json.Marshal(tracker.State()) // as a host keeps it
		require.NoError(t, err)
		var kept converge.State
		require.NoError(t, json.Unmarshal(state, &kept))
		tracker, err = converge.Restore(converge.Config{}, kept)
		require.NoError(t, err)
	}
	require.Equal(t, []converge.Advice{"continue", "move", "continue", "move", "continue", "give_up"}, advice)
	require.Len(t, slices.Compact(stages), 3)
	tracker.Reset()
	for _, failure := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		d, err := tracker.Observe([]string{failure})
		require.NoError(t, err)
		require.Equal(t, converge.Continue, d.Advice, "failures that differ are progress")
	}
}

func secrets(t *testing.T) {
	const canary = "canary-hunter2"
	c := sentinelOf(t).silent()
	c.probed(strings.ReplaceAll(`{"digest":"X","reasons":["X"],"summary":"X"}`, "X", canary))
	c.cfg.Probe.Interval = time.Hour
	cmd := exec.Command("sh", "-c", "echo "+canary+"; echo "+canary+" >&2; sleep 60")
	cmd.Env = append(os.Environ(), "TOKEN="+canary)
	result, err := stall.Run(t.Context(), cmd, c.cfg)
	require.ErrorIs(t, err, watchdog.CommandNoOutput)
	said := err.Error() + fmt.Sprintf("%+v", result.Trip) + c.log.String()
	all, err := c.store.Read(t.Context(), event.AggregateType, "s/step")
	require.NoError(t, err)
	for _, e := range all {
		said += string(e.Payload)
	}
	files, err := os.ReadDir(c.folder)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		said += string(c.file(f.Name()))
	}
	require.NotContains(t, said, canary)
}
