package watchdog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

func TestStopReasons(t *testing.T) {
	t.Run("codes are snake_case, the watchdog's own, and there once", func(t *testing.T) {
		seen := map[watchdog.StopReason]bool{}
		for _, reason := range watchdog.StopReasons() {
			require.Regexp(t, `^[a-z]+(_[a-z]+)+$`, string(reason))
			require.True(t, reason.Own())
			require.False(t, seen[reason], reason)
			seen[reason] = true
		}
		require.False(t, watchdog.StopReason("").Own())
		require.False(t, watchdog.StopReason("other_reason").Own())
	})
	t.Run("the watchdog's own are those of their reasons in events, and a host's is its own reason", func(t *testing.T) {
		for _, reason := range append(watchdog.StopReasons(), "iteration_timeout") {
			require.Equal(t, string(reason), record.Code(record.Reason(string(reason))))
			require.Equal(t, reason.Own(), record.Reason(string(reason)) != string(reason))
		}
	})
	t.Run("docs/events-codes.md lists the set and nothing else", func(t *testing.T) {
		var listed []watchdog.StopReason
		rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ")
		for _, row := range rows.FindAllStringSubmatch(readText(t, "docs/events-codes.md"), -1) {
			listed = append(listed, watchdog.StopReason(row[1]))
		}
		require.Equal(t, watchdog.StopReasons(), listed)
	})
	t.Run("docs/events.md lists every kind of event", func(t *testing.T) {
		text := readText(t, "docs/events.md")
		for _, kind := range []string{
			event.Cancel, event.Resume, event.Extend, event.Warning, event.Interrupt, event.Wait,
			event.Overrun,
		} {
			require.Contains(t, text, "`"+kind+"`")
		}
	})
}

func TestUsage(t *testing.T) {
	t.Run("nothing remains where more was used than is allowed", func(t *testing.T) {
		require.Zero(t, watchdog.Usage{Used: 7, Admitted: 5, Allowed: 10}.Remaining())
		require.Zero(t, watchdog.Usage{Used: watchdog.NoLimit, Admitted: watchdog.NoLimit, Allowed: 10}.Remaining())
		require.EqualValues(t, 1, watchdog.Usage{Used: 7, Admitted: 2, Allowed: 10}.Remaining())
	})
	t.Run("its text names the tool", func(t *testing.T) {
		text := watchdog.Usage{Limit: "tool_calls", Tool: "rm", Used: 1, Admitted: 3, Allowed: 4}.String()
		require.Equal(t, `tool calls of "rm": 1 of 4 used, 3 admitted`, text)
	})
	runFixture(t, "it is that of now after a call was refused", func(f *fixture) {
		f.cfg.Budget.Spend = watchdog.Spend{Tokens: 10, WarnAt: []float64{}}
		wd := f.attach()
		open := admit(f.t, wd, tokens(2, 2))
		admit(f.t, wd, tokens(2, 2))
		refuse(f.t, wd, tokens(2, 2))
		require.NoError(f.t, open.Settle(tokens(1, 2)))
		usage := wd.Usage()[0]
		require.EqualValues(f.t, 3, usage.Used)
		require.EqualValues(f.t, 4, usage.Admitted)
		f.pass(0)
		var stop *watchdog.Stop
		require.ErrorAs(f.t, context.Cause(wd.Context()), &stop)
		require.EqualValues(f.t, 8, stop.Usage.Admitted, "when the call was refused")
	})
}

// TestExtendSpendBudget protects the event of an extension of a run that has no wall clock, or no limits at all.
func TestExtendSpendBudget(t *testing.T) {
	inFixture(t, func(f *fixture) {
		f.cfg.Budget = watchdog.Budget{WallClock: watchdog.NoLimit, Spend: watchdog.Spend{Requests: 5}}
		require.NoError(t, f.attach().ExtendSpend(watchdog.Spend{Requests: 1}))
		var payload map[string]any
		require.NoError(t, json.Unmarshal(f.events(event.Extend)[0].Payload, &payload))
		require.EqualValues(t, 0, payload["configured_budget_seconds"])
		f.cfg.Disabled = true
		require.NoError(t, f.attach().ExtendSpend(watchdog.Spend{Turns: 1}), "of a run that is disabled")
	})
}

// tableRows returns the cells of the rows of the table in docs/errors.md that begins with the heading.
func tableRows(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	_, table, found := strings.Cut(readText(t, "docs/errors.md"), "| "+heading+" |")
	require.True(t, found, heading)
	lines := strings.Split(table, "\n")[2:]
	for _, line := range lines {
		if line == "" {
			break
		}
		rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
	}
	require.NotEmpty(t, rows)
	return rows
}

// otherCode is the row of the codes that no other row names.
const otherCode = "`*watchdog.Stop`, any other code"

// TestTimeouts checks the table of time-outs in docs/errors.md, row by row.
func TestTimeouts(t *testing.T) {
	rows := map[string][]string{}
	for _, row := range tableRows(t, "error") {
		require.Len(t, row, 4)
		for _, key := range errorsOf(row[0]) {
			rows[key] = row[1:3]
		}
	}
	check := func(t *testing.T, key string, err error) {
		t.Helper()
		require.Contains(t, rows, key)
		require.Equal(t, rows[key], timeoutOf(t, err))
		require.Equal(t, rows[key], timeoutOf(t, fmt.Errorf("phase: %w", err)), "wrapped")
		require.Equal(t, rows[key][1] == "true", os.IsTimeout(err))
	}
	seen := []string{"`*stall.Stalled`"}
	for _, code := range watchdog.StopReasons() {
		t.Run("a stop, "+string(code), func(t *testing.T) {
			key := fmt.Sprintf("`*watchdog.Stop`, `%s`", code)
			if _, listed := rows[key]; !listed {
				key = otherCode
			}
			seen = append(seen, key)
			stop := &watchdog.Stop{RunID: "s-1", Code: code}
			check(t, key, stop)
			require.Equal(t, rows[key], timeoutOf(t, code), "the code alone")
			require.ErrorIs(t, stop, code)
			stalled := &stall.Stalled{Stop: stop}
			require.Equal(t, rows[key], timeoutOf(t, stalled))
			require.ErrorIs(t, stalled, stop)
		})
	}
	for _, code := range []watchdog.StopReason{
		"", "approval_denied", "tokens_exceeded", "watchdog_tokens_exceeded", "wall_clock_exceeded",
	} {
		t.Run("a stop with a code that is not known, "+string(code), func(t *testing.T) {
			check(t, otherCode, &watchdog.Stop{RunID: "s-1", Code: code})
		})
	}
	refused := &watchdog.Refused{Usage: watchdog.Usage{Limit: "requests"}}
	require.ErrorIs(t, refused, watchdog.RequestsExceeded)
	for key, err := range map[string]error{
		"`*watchdog.Refused` (a call, the run may go on)": refused,
		"`*watchdoghttp.SilenceError`":                    &watchdoghttp.SilenceError{},
		"`*bound.Overrun`":                                &bound.Overrun{Err: errHostGone},
		"`*watchdog.Interruption`":                        &watchdog.Interruption{},
		"`*watchdog.Directive`":                           &watchdog.Directive{},
	} {
		t.Run(key, func(t *testing.T) {
			seen = append(seen, key)
			check(t, key, err)
		})
	}
	require.ErrorIs(t, &watchdoghttp.SilenceError{}, watchdoghttp.ErrSilent)
	require.ErrorIs(t, &bound.Overrun{Err: errHostGone}, errHostGone)
	for key := range rows {
		require.Contains(t, seen, key, "the row is of nothing")
	}
}

// errorsOf are the errors that a row is about: a stop with each of its codes, or one.
func errorsOf(cell string) (keys []string) {
	codes, ofStop := strings.CutPrefix(cell, "`*watchdog.Stop`, ")
	if !ofStop {
		return []string{cell}
	}
	for code := range strings.SplitSeq(codes, ", ") {
		keys = append(keys, "`*watchdog.Stop`, "+code)
	}
	return keys
}

// timeoutOf is what an error is as a time-out, as the table says it: both errors of the standard library are found in
// it or none, and it is a net.Error or not.
func timeoutOf(t *testing.T, err error) []string {
	t.Helper()
	is := map[bool]string{true: "yes", false: "no"}[errors.Is(err, context.DeadlineExceeded)]
	require.Equal(t, errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded))
	var timeout net.Error
	if !errors.As(err, &timeout) {
		return []string{is, "none"}
	}
	require.Equal(t, timeout.Timeout(), timeout.Temporary()) //nolint:staticcheck // as with the standard library's
	return []string{is, fmt.Sprint(timeout.Timeout())}
}

// An endOf waits until a context made from a run's has ended, and returns it.
type endOf = func(wd *watchdog.Watchdog) context.Context

// TestContextErrors checks the table of contexts in docs/errors.md, row by row.
func TestContextErrors(t *testing.T) {
	const limit = time.Second
	under := func(wait time.Duration) endOf {
		return func(wd *watchdog.Watchdog) context.Context {
			ctx, cancel := context.WithTimeout(wd.Context(), wait)
			context.AfterFunc(ctx, cancel)
			<-ctx.Done()
			return ctx
		}
	}
	layered := func(idle time.Duration) endOf {
		return func(wd *watchdog.Watchdog) context.Context {
			layer := openLayer(t, wd, "test", watchdog.Budget{Idle: idle})
			<-layer.Context().Done()
			return layer.Context()
		}
	}
	called := func(limit time.Duration, of func(context.Context) context.Context) endOf {
		return func(wd *watchdog.Watchdog) (found context.Context) {
			bound.Do(wd.Context(), bound.Call{Limit: limit}, func(ctx context.Context) (int, error) {
				found = of(ctx)
				<-found.Done()
				return 0, nil
			})
			return found
		}
	}
	itself := func(ctx context.Context) context.Context { return ctx }
	cancellable := func(ctx context.Context) context.Context {
		child, cancel := context.WithCancel(ctx)
		context.AfterFunc(child, cancel)
		return child
	}
	timed := func(ctx context.Context) context.Context {
		child, cancel := context.WithTimeout(ctx, 2*limit)
		context.AfterFunc(child, cancel)
		return child
	}
	ofLayer := func(ctx context.Context) context.Context {
		return openLayer(t, watchdog.FromContext(ctx), "test", watchdog.Budget{}).Context()
	}
	outlasted := func(of func(context.Context) context.Context) endOf {
		return func(*watchdog.Watchdog) context.Context {
			parent, cancel := context.WithTimeoutCause(context.Background(), limit/2, errHostGone)
			defer cancel()
			wd, err := watchdog.New(parent, watchdog.Run{}, watchdog.Config{Logger: quiet})
			require.NoError(t, err)
			defer wd.Close()
			found := of(wd.Context())
			<-found.Done()
			return found
		}
	}
	requested := func(idle time.Duration) endOf {
		return func(wd *watchdog.Watchdog) (found context.Context) {
			transport := &watchdoghttp.Transport{Idle: idle, Base: roundTripFunc(func(r *http.Request) (*http.Response, error) {
				found = r.Context()
				<-found.Done()
				return nil, context.Cause(found)
			})}
			r, err := http.NewRequestWithContext(wd.Context(), http.MethodGet, "http://model.test/", nil)
			require.NoError(t, err)
			_, err = transport.RoundTrip(r) //nolint:bodyclose // there is none
			require.Error(t, err)
			return found
		}
	}
	after := func(end func(wd *watchdog.Watchdog) error) endOf {
		return func(wd *watchdog.Watchdog) context.Context {
			require.NoError(t, end(wd))
			<-wd.Context().Done()
			return wd.Context()
		}
	}
	nothing := func(*watchdog.Watchdog) error { return nil }
	interrupt := func(wd *watchdog.Watchdog) error { return wd.Interrupt("SIGINT") }
	tried := func(wd *watchdog.Watchdog) (found context.Context) {
		_ = wd.Try(wd.Context(), func(ctx context.Context) error {
			found = ctx
			return hangs(ctx)
		})
		return found
	}
	ends := map[string]endOf{
		"a run's (`Watchdog.Context`) | a limit or another guard": after(nothing),
		"a run's | `Watchdog.Interrupt`":                          after(interrupt),
		"a run's | `Watchdog.Complete`":                           after((*watchdog.Watchdog).Complete),
		"a run's | `Watchdog.Close`":                              after((*watchdog.Watchdog).Close),
		"a run's | its parent's deadline":                         outlasted(itself),
		"a layer's | the deadline of the run's parent":            outlasted(ofLayer),
		"a layer's | the run's stop":                              layered(watchdog.NoLimit),
		"that of `Watchdog.Try` | a directive: the run goes on":   tried,
		"that of `bound.Do` | the call's limit: the run goes on":  called(limit/2, itself),
		"that of `bound.Do` | the run's stop":                     called(watchdog.NoLimit, itself),
		"that of a timer | the run's stop":                        silent(2 * limit),
		"that of a request | the run's stop":                      requested(watchdog.NoLimit),
		"`context.WithTimeout` of a run's | the run's stop":       under(2 * limit),

		"`context.WithCancel` of a run's | the deadline of the run's parent":                   outlasted(cancellable),
		"`context.WithTimeout` of a run's | the deadline of the run's parent":                  outlasted(timed),
		"`context.WithTimeout` of a run's | its own time-out: the run goes on":                 under(limit / 2),
		"a layer's (`Watchdog.Layer`) | the layer's stop: the run goes on":                     layered(limit / 2),
		"`context.WithCancel` of that of `bound.Do` | the call's limit: the run goes on":       called(limit/2, cancellable),
		"that of a timer (`idle.WithLimit`) | its silence: the run goes on":                    silent(limit / 2),
		"that of a request (`watchdoghttp.Transport`) | the server's silence: the run goes on": requested(limit / 2),
	}
	for _, row := range tableRows(t, "context") {
		require.Len(t, row, 4)
		key := row[0] + " | " + row[1]
		t.Run(key, func(t *testing.T) {
			require.Contains(t, ends, key)
			end := ends[key]
			delete(ends, key)
			synctest.Test(t, func(t *testing.T) {
				budget := watchdog.Budget{Idle: limit}
				if strings.Contains(row[1], "directive") {
					budget.Ladders.Idle = []watchdog.DirectiveKind{retry}
				}
				wd := guard(t, watchdog.Config{Store: &watchdog.Memory{}, Budget: budget})
				ctx := end(wd)
				said := map[error]string{
					context.Canceled: "`context.Canceled`", context.DeadlineExceeded: "`context.DeadlineExceeded`",
				}
				require.Equal(t, row[2], said[ctx.Err()])
				require.Equal(t, row[3], causeOf(context.Cause(ctx)))
				if strings.HasSuffix(row[1], "the run goes on") {
					require.NoError(t, wd.Context().Err())
				}
			})
		})
	}
	require.Empty(t, ends)
}

// roundTripFunc is an HTTP transport.
type roundTripFunc func(r *http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silent is the context of a timer.
func silent(limit time.Duration) endOf {
	return func(wd *watchdog.Watchdog) context.Context {
		ctx, timer := idle.WithLimit(wd.Context(), limit)
		defer timer.Close()
		<-ctx.Done()
		return ctx
	}
}

// causeOf is a cause as the table names it.
func causeOf(cause error) string {
	var stop *watchdog.Stop
	switch {
	case errors.Is(cause, watchdog.ErrComplete), errors.Is(cause, watchdog.ErrClosed):
		return map[error]string{
			watchdog.ErrComplete: "`watchdog.ErrComplete`", watchdog.ErrClosed: "`watchdog.ErrClosed`",
		}[cause]
	case errors.Is(cause, errHostGone):
		return "the parent's cause"
	case errors.As(cause, &stop) && strings.Contains(stop.RunID, "/"):
		return "the layer's `*watchdog.Stop`"
	case errors.As(cause, &stop) && stop.RunID == "":
		return "the timer's `*watchdog.Stop`"
	case cause == context.DeadlineExceeded: //nolint:errorlint // this very error
		return "`context.DeadlineExceeded`"
	}
	return fmt.Sprintf("the `%T`", cause)
}
