package notify_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// stored is an event of testdata/events.
func stored(t *testing.T, name string) (e watchdog.Event) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "events", name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &e))
	return e
}

func countOf(text, part string) int { return strings.Count(text, part) }

// TestRequest compares whole requests with files: what receivers rely on.
func TestRequest(t *testing.T) {
	for _, name := range []string{
		"cancel", "cancel_cost", "cancel_hold", "cancel_host", "cancel_host_lost", "cancel_idle_timeout", "cancel_layer",
		"cancel_no_output", "cancel_paused", "cancel_tool", "complete", "complete_command",
	} {
		bubble(t, name, func(t *testing.T) {
			b := newBox()
			b.put(t, stored(t, name))
			compare(t, name, request(t, named{box: b}))
		})
	}
	bubble(t, "alert", func(t *testing.T) {
		b := newBox()
		notify.Alert(b, 90*time.Minute, nil)(t.Context(), 12)
		compare(t, "alert", request(t, named{b, "PHRGBGRHGTPD37RD4PZOWPTMQO"}))
	})
	bubble(t, "of the host", func(t *testing.T) {
		b := newBox()
		require.NoError(t, b.PutNotices(t.Context(), session.Notice{
			ID: "e-1", AggregateType: "order", AggregateID: "o-7", Type: "order.lost",
		}))
		compare(t, "host", request(t, named{b, "a.b\r\nwebhook-id: c"}))
	})
	bubble(t, "an event that is there no more", func(t *testing.T) {
		b := newBox()
		e := stored(t, "cancel")
		require.NoError(t, b.PutNotices(t.Context(), session.Notice{
			ID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Type: e.Type,
		}))
		compare(t, "lost", request(t, named{box: b}))
	})
}

// A named outbox has one notice, whose ID is one that another writer stored, or that was drawn once.
type named struct {
	*box
	id string
}

func (n named) ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error) {
	claimed, err := n.box.ClaimNotices(ctx, most, lasts)
	claimed[0].ID = cmp.Or(n.id, claimed[0].ID)
	return claimed, err
}

// request returns what a receiver gets.
func request(t *testing.T, n named) string {
	t.Helper()
	r := &receiver{}
	s, err := notify.New(n, n.box, notify.Config{
		URL: hook, Secrets: []string{secret}, Transport: r, Completes: true, Layers: true,
	})
	require.NoError(t, err)
	_, err = s.Deliver(t.Context())
	require.NoError(t, err)
	require.Len(t, r.all(), 1)
	require.NoError(t, r.all()[0].err)
	var text strings.Builder
	header := r.all()[0].header
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(&text, "%s: %s\n", name, strings.Join(header[name], "|"))
	}
	return text.String() + "\n" + r.all()[0].body + "\n"
}

func compare(t *testing.T, name, text string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name+".golden"), text)
}

// TestNoContent plants a canary in every text of a payload that a host can choose, but for names.
func TestNoContent(t *testing.T) {
	bubble(t, "nothing that a run noted, called or said is told", func(t *testing.T) {
		b, r, log := newBox(), &receiver{}, &journal{}
		const payload = `{"reason":%q,"session_started_at":"2026-05-01T12:00:00.000000Z","fired_at":"2026-05-01T16:00:00.000000Z",` +
			`"elapsed_seconds":1,"configured_budget_seconds":1,"hold":"canary","note":"canary","attempt":2,"author":"canary",` +
			`"last_event_at":"2026-05-01T16:00:00.000000Z","window":"canary","more":"canary","spend":{"limit":"canary",` +
			`"tool":"canary","scope":"canary","currency":"canary","pattern":"canary","used":1,"allowed":2}}`
		for i, reason := range []string{"tool_calls_exceeded", "Canary text", "canary " + strings.Repeat("a", 200), ""} {
			b.put(t, watchdog.Event{
				ID: fmt.Sprintf("id-%d", i), AggregateType: watchdog.AggregateType, AggregateID: fmt.Sprintf("run-%d", i),
				Type: watchdog.EventCancel, Timestamp: time.Now(), Payload: fmt.Appendf(nil, payload, reason),
			})
		}
		b.put(t, watchdog.Event{
			ID: "foreign", AggregateType: watchdog.AggregateType, AggregateID: "run", Type: watchdog.EventCancel,
			Timestamp: time.Now(), Payload: []byte(`{"reason":{"canary":1},"note":"canary"}`),
		})
		b.stop(t, "noted")
		s := newSender(t, b, r, func(c *notify.Config) { c.Logger = log.logger() })
		r.answersWith(500)
		_, err := s.Deliver(t.Context())
		require.Error(t, err)
		r.answersWith(0)
		end := run(t, s)
		time.Sleep(time.Minute)
		end()
		assert.Len(t, r.ids(), 6)
		assert.NotContains(t, err.Error()+log.String(), "canary")
		for _, g := range r.all() {
			assert.NotContains(t, strings.ToLower(g.body+fmt.Sprint(g.header)), "canary")
		}
	})
}

func TestCorrected(t *testing.T) {
	bubble(t, "a stop that was wrong is told as one", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		id, other := b.put(t, stored(t, "cancel")), stored(t, "cancel")
		other.ID = "c0ffee00-2565-5c3e-b33b-1add2a8e1405"
		b.put(t, other)
		require.NoError(t, b.Append(t.Context(), watchdog.Event{
			ID:            record.EventID("s-1", "2026-05-01T12:00:00.000000Z", watchdog.EventCorrection, id),
			AggregateType: watchdog.AggregateType, AggregateID: "s-1", Type: watchdog.EventCorrection,
			Timestamp: time.Now(), Payload: fmt.Appendf(nil, `{"cancel_id":%q}`, id),
		}))
		_, err := newSender(t, b, r).Deliver(t.Context())
		require.NoError(t, err)
		require.Len(t, r.ids(), 2)
		for _, g := range r.all() {
			assert.Equal(t, g.id == id, strings.Contains(g.body, `"corrected":true`))
		}
	})
}

// A selecting is a store that counts the events that it returns.
type selecting struct {
	*box
	events int
}

func (s *selecting) Select(ctx context.Context, by watchdog.Selection) ([]watchdog.Event, error) {
	events, err := s.box.Select(ctx, by)
	s.events += len(events)
	return events, err
}

// TestLongRun protects that a notice costs no more than what it says, however many events its run has, and that a
// correction is found as a run records it: of a session, and of a layer, whose windows have names.
func TestLongRun(t *testing.T) {
	for _, layer := range []bool{false, true} {
		bubble(t, fmt.Sprintf("of a layer: %v", layer), func(t *testing.T) {
			b, r := &selecting{box: newBox()}, &receiver{}
			budget := watchdog.Budget{WallClock: time.Hour}
			if layer {
				budget.WallClock = 3 * time.Hour
			}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: b.box, Budget: budget, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			defer wd.Close()
			for range 50 {
				require.NoError(t, wd.Extend(time.Microsecond))
			}
			if layer {
				wd, err = wd.Layer("build", watchdog.Budget{WallClock: time.Minute})
				require.NoError(t, err)
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			require.True(t, handle.Of(wd.Context()).RecordFinished())
			s, err := notify.New(b, b, notify.Config{
				URL: hook, Secrets: []string{secret}, Transport: r, Logger: slog.New(slog.DiscardHandler), Layers: true,
			})
			require.NoError(t, err)
			_, err = s.Deliver(t.Context())
			require.NoError(t, err)
			require.Len(t, r.all(), 1)
			require.Contains(t, r.all()[0].body, `"corrected":true`)
			require.Equal(t, 2, b.events, "the cancel and its correction")
		})
	}
}

func TestAlert(t *testing.T) {
	bubble(t, "two alerts of one count are two notices, with the count and the time only", func(t *testing.T) {
		b, r := newBox(), &receiver{}
		alert := sweep.Alert{Count: 5, Within: 10 * time.Minute, Func: notify.Alert(b, 10*time.Minute, nil)}
		alert.Func(t.Context(), 6)
		alert.Func(t.Context(), 6)
		_, err := newSender(t, b, r).Deliver(t.Context())
		require.NoError(t, err)
		require.Len(t, r.ids(), 2)
		assert.Contains(t, r.all()[0].body, `"type":"watchdog.alert"`)
		assert.Contains(t, r.all()[0].body, `"cancels":6,"within_seconds":600,`)
	})
	bubble(t, "a database that fails for a moment", func(t *testing.T) {
		b, log := newBox(), &journal{}
		failures := 2
		b.onCall(func(context.Context, string) error {
			if failures--; failures >= 0 {
				return errDown
			}
			return nil
		})
		notify.Alert(b, time.Minute, log.logger())(t.Context(), 6)
		assert.Equal(t, 1, b.left())
		assert.Empty(t, log.String())
	})
	bubble(t, "one that stays down is an error in the log", func(t *testing.T) {
		b, log := newBox(), &journal{}
		b.onCall(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		notify.Alert(b, time.Minute, log.logger())(t.Context(), 6)
		assert.Less(t, time.Since(began), sweep.DefaultStopTimeout)
		assert.Contains(t, log.String(), "level=ERROR")
		assert.Contains(t, log.String(), "cancels=6 within=1m0s")
	})
	bubble(t, "it ends with its context", func(t *testing.T) {
		b, log := newBox(), &journal{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		notify.Alert(b, time.Minute, log.logger())(ctx, 6)
		assert.Zero(t, time.Since(began))
		assert.Contains(t, log.String(), "nobody is told")
	})
}
