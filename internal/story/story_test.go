package story_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

// recordOf is what is stored in a story.
func recordOf(name string) story.Record { return stories[name](&script{run: "s-1"}) }

// compare compares a story's JSON, which is part of the contract, with its file.
func compare(t *testing.T, name string, stories ...story.Story) {
	t.Helper()
	var got bytes.Buffer
	for _, s := range stories {
		text, err := json.MarshalIndent(s, "", "  ")
		require.NoError(t, err)
		got.Write(append(text, '\n'))
	}
	golden.Compare(t, "testdata/"+name+".json", got.String())
}

// stories are what can become of a run, each with a golden file. The command line has the same as text.
var stories = map[string]func(s *script) story.Record{
	"ladder": func(s *script) story.Record {
		s.add(96*time.Minute, event.Warning, record.Warning{
			Reason: "wall_clock", SessionStartedAt: at(0), WarnedAt: at(96 * time.Minute),
			Used: record.UsedOf(5760*time.Second, 7200*time.Second), Fraction: 0.8, RemainingSeconds: 840,
		})
		idle := record.Trip{
			Reason: "idle_exceeded", Used: record.UsedOf(600*time.Second, 600*time.Second), Directive: "wait", Rung: 1,
			Note: "tool: grep", MeasuredSeconds: 600,
		}
		s.trip(100*time.Minute, event.Wait, idle)
		s.add(101*time.Minute, event.Progress, record.Progress{
			SessionStartedAt: at(0), ProgressedAt: at(101 * time.Minute), Resets: []string{s.lastID()},
		})
		idle.Directive = "retry"
		s.trip(105*time.Minute, event.Retry, idle)
		idle.Directive, idle.Rung = "unstuck", 2
		s.trip(108*time.Minute, event.Unstuck, idle)
		s.add(110*time.Minute, event.WrapUp, record.WrapUp{
			Reason: "wall_clock", SessionStartedAt: at(0), AskedAt: at(110 * time.Minute),
			Used: record.UsedOf(6600*time.Second, 7200*time.Second), RemainingSeconds: 600, Note: "writing the report",
		})
		p := cancel(118*time.Minute, "idle_exceeded", 10*time.Minute, 10*time.Minute)
		p.Note, p.Rung, p.MeasuredSeconds = "writing the report", 3, 600.25
		s.add(118*time.Minute, event.Cancel, p)
		return s.record(row("s-1", session.Cancelled, &session.State{
			WallClock: 7200, Safety: 14400, Idle: 600, Reserve: 600, Warned: 1, WrappedUp: true, Phase: "tool: grep",
		}))
	},
	"extended": func(s *script) story.Record {
		s.add(90*time.Minute, event.Extend, record.Extend{
			SessionStartedAt: at(0), ExtendedAt: at(90 * time.Minute), ElapsedSeconds: 5400, ExtensionSeconds: 3600,
			ConfiguredBudgetSeconds: 10800,
		})
		s.add(95*time.Minute, event.Extend, record.Extend{
			SessionStartedAt: at(0), ExtendedAt: at(95 * time.Minute), ConfiguredBudgetSeconds: 10800,
			Spend: []record.Spend{
				{Limit: "requests", Used: 7, Allowed: 15, Extension: 5},
				{Limit: "cost", Currency: "EUR", Used: 1, Allowed: 6_500_000, Extension: 1_500_000},
			},
		})
		s.add(3*time.Hour+time.Second, event.Cancel,
			cancel(3*time.Hour+1234567*time.Microsecond, "wall_clock_exceeded", 3*time.Hour+time.Second, 3*time.Hour))
		return s.record(row("s-1", session.Cancelled, nil))
	},
	"paused": func(s *script) story.Record {
		s.add(10*time.Minute, event.Hold, record.Hold{
			Hold: "approval of Ada", SessionStartedAt: at(0), OpenedAt: at(10 * time.Minute), OpenedSeconds: 600,
			CapSeconds: 7200,
		})
		opening := s.lastID()
		s.add(70*time.Minute, event.Release, record.Release{
			Hold: "approval of Ada", SessionStartedAt: at(0), ReleasedAt: at(70 * time.Minute), ReleasedSeconds: 4200,
			Opening: opening,
		})
		s.add(80*time.Minute, event.Release, record.Release{ // by one that did not know of that
			Hold: "approval of Ada", SessionStartedAt: at(0), ReleasedAt: at(80 * time.Minute), ReleasedSeconds: 4800,
			Opening: opening, TakenBy: "e-9",
		})
		s.add(2*time.Hour, event.Hold, record.Hold{
			Hold: "approval of Bob", SessionStartedAt: at(0), OpenedAt: at(2 * time.Hour), OpenedSeconds: 7200,
			CapSeconds: 1800, Layer: "s-1/deploy",
		})
		p := cancel(150*time.Minute, "hold_exceeded", 30*time.Minute, 30*time.Minute)
		p.Hold, p.PausedSeconds, p.MeasuredSeconds = "approval of Bob", 5400, 1800
		s.add(150*time.Minute, event.Cancel, p)
		return s.record(row("s-1", session.Cancelled, nil))
	},
	"resumed": func(s *script) story.Record {
		var before event.Stamp
		for i := range 3 {
			begin, end := at(time.Duration(2*i)*time.Hour), at(time.Duration(2*i+1)*time.Hour)
			if i > 0 {
				s.add(time.Duration(2*i)*time.Hour, event.Resume, record.Resume{
					SessionStartedAt: begin, PreviousStartedAt: before,
				})
			}
			if before = begin; i < 2 {
				s.add(time.Duration(2*i+1)*time.Hour, event.Cancel, record.Cancel{
					Reason: []string{"wall_clock_exceeded", "idle_exceeded"}[i], SessionStartedAt: begin, FiredAt: end,
					Used: record.UsedOf(3600*time.Second, 3600*time.Second),
				})
			}
		}
		r := row("s-1", session.Finished, nil)
		r.StartedAt, r.Attempt, r.Resumes, r.LastEventAt = start.Add(4*time.Hour), 3, 1, start.Add(5*time.Hour)
		return s.record(r)
	},
	"paused_before": func(s *script) story.Record {
		hold := func(from time.Duration, key string) string {
			s.add(from, event.Hold, record.Hold{Hold: key, SessionStartedAt: at(0), OpenedAt: at(from), CapSeconds: 3600})
			return s.lastID()
		}
		s.add(30*time.Minute, event.Release, record.Release{
			Hold: "approval of Ada", SessionStartedAt: at(0), Opening: hold(10*time.Minute, "approval of Ada"),
		})
		hold(40*time.Minute, "approval of Bob")
		s.add(2*time.Hour, event.Cancel, cancel(2*time.Hour, "hold_exceeded", time.Hour, time.Hour))
		s.add(3*time.Hour, event.Resume, record.Resume{SessionStartedAt: at(3 * time.Hour), PreviousStartedAt: at(0)})
		r := row("s-1", session.Active, nil)
		r.StartedAt = start.Add(3 * time.Hour)
		return s.record(r)
	},
	"swept": func(s *script) story.Record {
		advisory := record.Trip{
			Reason: "idle_timeout", SessionStartedAt: at(0), FiredAt: at(12 * time.Minute),
			Used: record.UsedOf(720*time.Second, 600*time.Second), Directive: "wait", Rung: 1, MeasuredSeconds: 720,
			Author: "system-watchdog", LastEventAt: at(0),
		}
		s.add(12*time.Minute, event.Warning, advisory)
		advisory.Directive, advisory.Rung = "cancel", 2
		s.add(15*time.Minute, event.Warning, advisory)
		p := cancel(15*time.Minute, "idle_timeout", 15*time.Minute, 10*time.Minute)
		p.Rung, p.MeasuredSeconds, p.Author, p.LastEventAt, p.StopFailed = 2, 900, "system-watchdog", at(0), true
		s.add(15*time.Minute, event.Cancel, p)
		r := row("s-1", session.Cancelled, nil)
		r.Threshold, r.StopFailed, r.Reason = 10*time.Minute, true, watchdog.SessionIdleTimeout
		return s.record(r)
	},
	"host_lost": func(s *script) story.Record {
		s.add(15*time.Minute, event.Warning, record.Trip{
			Reason: "host_lost", SessionStartedAt: at(0), FiredAt: at(15 * time.Minute),
			Used: record.UsedOf(900*time.Second, 600*time.Second), Directive: "cancel", Rung: 1, MeasuredSeconds: 900,
			Author: "system-watchdog", LastEventAt: at(0),
		})
		p := cancel(15*time.Minute, "host_lost", 15*time.Minute, 10*time.Minute)
		p.MeasuredSeconds, p.Author, p.LastEventAt = 900, "system-watchdog", at(0)
		p.Lease = &record.Lease{ID: "5f0a\x1b[2J", Looks: 4, RenewedAt: at(time.Minute)}
		s.add(15*time.Minute, event.Cancel, p)
		r := row("s-1", session.Cancelled, nil)
		r.Threshold, r.Reason = 10*time.Minute, watchdog.SessionHostLost
		return s.record(r)
	},
	"host_lost_running": func(s *script) story.Record {
		r := row("s-1", session.Active, nil)
		r.Lease, r.Expired = "", session.ExpiredLease{ID: "5f0a", Looks: 4, RenewedAt: start.Add(time.Minute)}
		return s.record(r)
	},
	"corrected": func(s *script) story.Record {
		s.run = "s-1/build"
		p := cancel(10*time.Minute, "no_output", 5*time.Minute, 5*time.Minute)
		p.Parent, p.Window, p.MeasuredSeconds = "s-1", "w-1", 300.25
		s.add(10*time.Minute, event.Cancel, p)
		s.add(10*time.Minute+time.Second, event.Correction, record.Correction{
			Cancel: s.lastID(), SessionStartedAt: at(0), CorrectedAt: at(10*time.Minute + time.Second), Parent: "s-1",
			Window: "w-1",
		})
		return s.record(nil)
	},
	"complete": func(s *script) story.Record {
		s.add(90*time.Second, event.Overrun, record.Overrun{
			Key: "tick", Layer: "hard", SessionStartedAt: at(0), OverranAt: at(90 * time.Second), LimitSeconds: 60,
			ElapsedSeconds: 61, Abandoned: true, Note: "tool: grep",
		})
		s.add(5*time.Minute, event.Complete, record.Complete{
			Reason: record.CompleteReason, SessionStartedAt: at(0), CompletedAt: at(5 * time.Minute), ElapsedSeconds: 300,
			Note: "report written",
		})
		r := row("s-1", session.Finished, &session.State{WallClock: 14400})
		r.Reason = record.CompleteReason
		return s.record(r)
	},
	"live": func(s *script) story.Record {
		s.add(time.Hour, event.Interrupt, record.Interrupt{
			Signal: "SIGTERM", SessionStartedAt: at(0), InterruptedAt: at(time.Hour), ElapsedSeconds: 3600,
		})
		r := row("s-1", session.Active, &session.State{
			WallClock: 172800, Idle: 600, NoProgress: 3600, Reserve: 900, Holds: 1, Phase: "tool: go test",
			Spent: []session.Spent{
				{Limit: "tokens", Used: 120_000, Admitted: 4_000, Allowed: 1_000_000, Reserve: 50_000, WarnAt: []float64{0.5, 0.9}},
				{Limit: "cost", Currency: "EUR", Used: 1_250_000, Allowed: 5_000_000, Reserve: 500_000},
			},
		})
		r.Attempt, r.Silence = 2, 5*time.Minute
		return s.record(r)
	},
	"ending": func(s *script) story.Record {
		return s.record(row("s-1", session.Active, &session.State{Idle: 600, Escalation: &session.Escalation{
			Signal: "SIGINT", SentAt: told.Add(-2 * time.Second), Next: "SIGTERM", NextAt: told.Add(8 * time.Second),
		}}))
	},
	"spent": func(s *script) story.Record {
		cost := record.Spend{Limit: "cost", Currency: "EUR", Used: 4_000_000, Allowed: 5_000_000}
		s.add(time.Minute, event.Warning, record.Warning{
			Reason: "cost", SessionStartedAt: at(0), WarnedAt: at(time.Minute), Used: record.UsedOf(time.Minute, 0),
			Fraction: 0.8, Spend: &cost,
		})
		refused := cost
		refused.Needed = 1_000_001
		p := cancel(90*time.Second, "cost_exceeded", 90*time.Second, 0)
		p.Note, p.MeasuredSeconds, p.Spend = "tool: grep", 90, &refused
		s.add(90*time.Second, event.Cancel, p)
		return s.record(row("s-1", session.Cancelled, &session.State{Spent: []session.Spent{
			{Limit: "requests", Used: 12, Allowed: 100},
		}}))
	},
	"loop": func(s *script) story.Record {
		same := record.Spend{Limit: "loop", Used: 3, Pattern: "tail of 2 turns, 5f0c9a"}
		s.trip(20*time.Minute, event.Unstuck, record.Trip{
			Reason: "loop_detected", Used: record.UsedOf(1200*time.Second, 0), Directive: "unstuck", Rung: 1,
			MeasuredSeconds: 1200, Spend: &same,
		})
		more := same
		more.Used = 5
		p := cancel(25*time.Minute, "loop_detected", 25*time.Minute, 0)
		p.MeasuredSeconds, p.Spend, p.Rung = 1500, &more, 2
		s.add(25*time.Minute, event.Cancel, p)
		return s.record(nil)
	},
	"survivors": func(s *script) story.Record {
		s.run = "s-1/build"
		p := cancel(10*time.Minute, "no_output", 5*time.Minute, 5*time.Minute)
		p.Parent, p.Window = "s-1", "w-1"
		s.add(10*time.Minute, event.Cancel, p)
		left := record.Overrun{
			Key: "build", Layer: "command", SessionStartedAt: at(0), OverranAt: at(11 * time.Minute), ElapsedSeconds: 660,
			Abandoned: true, Parent: "s-1", Window: "w-1", Survivors: 20, SurvivorPIDs: []record.Count{4711, 4712},
		}
		s.add(11*time.Minute, event.Overrun, left)
		return s.record(nil)
	},
	"layers": func(s *script) story.Record {
		build := script{run: "s-1/build"}
		p := cancel(10*time.Minute, "no_output", 5*time.Minute, 5*time.Minute)
		p.Parent, p.Window = "s-1", "w-1"
		build.add(10*time.Minute, event.Cancel, p)
		build.add(11*time.Minute, event.Overrun, record.Overrun{
			Key: "build", Layer: "command", SessionStartedAt: at(0), OverranAt: at(11 * time.Minute), ElapsedSeconds: 660,
			Abandoned: true, Parent: "s-1", Window: "w-1",
		})
		test := script{run: "s-1/test"}
		test.add(20*time.Minute, event.Complete, record.Complete{
			Reason: record.CompleteReason, SessionStartedAt: at(15 * time.Minute), CompletedAt: at(20 * time.Minute),
			Parent: "s-1", Window: "w-2",
		})
		other := script{run: "s-1/other"} // a run that is no layer of this one
		other.add(20*time.Minute, event.Cancel, cancel(20*time.Minute, "idle_exceeded", time.Minute, time.Minute))
		r := s.record(row("s-1", session.Interrupted, nil), build.record(nil), test.record(nil), other.record(nil))
		r.MoreLayers = 7
		return r
	},
	"observed": func(s *script) story.Record {
		s.add(10*time.Minute, event.Warning, record.Trip{
			Reason: "idle_exceeded", SessionStartedAt: at(0), FiredAt: at(10 * time.Minute),
			Used: record.UsedOf(600*time.Second, 600*time.Second), Directive: "cancel", Rung: 1, ObserveOnly: true,
			MeasuredSeconds: 600,
		})
		s.add(30*time.Minute, event.Interrupt, record.Interrupt{
			Signal: "SIGINT", SessionStartedAt: at(0), InterruptedAt: at(30 * time.Minute), ElapsedSeconds: 1800,
		})
		return s.record(nil)
	},
	"foreign": func(s *script) story.Record {
		s.add(0, "billing.opened", map[string]string{"customer": "c-1"})
		s.add(time.Second, event.Warning, map[string]any{"session_started_at": at(0), "fraction": []int{1}})
		s.add(2*time.Second, event.Cancel, map[string]any{"reason": "idle_exceeded"})
		s.add(3*time.Second, "runtime.watchdog.later", map[string]any{"session_started_at": at(0)})
		layer := cancel(4*time.Second, "idle_exceeded", time.Second, time.Second)
		layer.Parent = "elsewhere"
		s.add(4*time.Second, event.Cancel, layer)
		s.events = append(s.events, watchdog.Event{
			ID: "by-hand", AggregateType: event.AggregateType, AggregateID: "s-1", Type: event.Cancel,
			Payload: json.RawMessage(`{"session_started_at":"2026-05-01 14:00:00+02:00","fired_at":"2026-05-01T12:00:09",` +
				`"reason":"idle_exceeded","elapsed_seconds":"5","configured_budget_seconds":"4.5","by":{"hand":true}}`),
			Timestamp: start.Add(9 * time.Second),
		})
		return s.record(row("s-1", session.Active, nil))
	},
	"hostile": func(s *script) story.Record {
		s.run = "s-\x1b[31m1\u202e" + string(bytes.Repeat([]byte("漢"), 240))
		p := cancel(time.Minute, "idle_exceeded", time.Minute, time.Minute)
		p.Note, p.Hold = "\x1b]0;owned\a \u202egnp.exe \u200f"+string(bytes.Repeat([]byte("宽"), 150)), "<script>\u2066"
		s.add(time.Minute, event.Cancel, p)
		r := row(s.run, session.Cancelled, nil)
		r.Host = "host\x1b[2J\u202e"
		return s.record(r)
	},
	"lost": func(s *script) story.Record {
		return s.record(row("s-1", session.Interrupted, nil))
	},
	"row_only": func(s *script) story.Record {
		r := row("s-1", session.Cancelled, nil)
		r.Reason = watchdog.IdleExceeded
		return s.record(r)
	},
	"failed": func(s *script) story.Record {
		status := record.Count(7)
		first := record.Complete{
			Reason: record.CompleteReason, SessionStartedAt: at(0), CompletedAt: at(time.Minute), Note: "ended with status 7",
			CommandEnd: record.CommandEnd{Outcome: record.Failed, ExitStatus: &status},
		}
		s.add(time.Minute, event.Complete, first)
		s.add(time.Hour, event.Resume, record.Resume{SessionStartedAt: at(time.Hour), PreviousStartedAt: at(0)})
		s.add(61*time.Minute, event.Complete, record.Complete{
			Reason: record.CompleteReason, SessionStartedAt: at(time.Hour), CompletedAt: at(61 * time.Minute), Note: "ended by SIGKILL",
			CommandEnd: record.CommandEnd{Outcome: record.Failed, Signal: "SIGKILL"},
		})
		layer := script{run: "s-1/job"}
		first.Parent, first.Window, first.SessionStartedAt = "s-1", "w-1", at(time.Hour)
		layer.add(61*time.Minute, event.Complete, first)
		return s.record(nil, layer.record(nil))
	},
	"row_failed": func(s *script) story.Record {
		status := 7
		r := row("s-1", session.Finished, &session.State{Outcome: "failed", ExitStatus: &status})
		r.Reason, r.EndedAt = record.CompleteReason, start.Add(3*time.Second)
		return s.record(r)
	},
	"row_before": func(s *script) story.Record { // of the window before the one that a person opened
		s.add(time.Minute, event.Complete, record.Complete{
			Reason: record.CompleteReason, SessionStartedAt: at(0), CompletedAt: at(time.Minute),
		})
		s.add(time.Hour, event.Resume, record.Resume{SessionStartedAt: at(time.Hour), PreviousStartedAt: at(0)})
		r := row("s-1", session.Finished, nil)
		r.Reason = record.CompleteReason
		return s.record(r)
	},
	"row_ended": func(s *script) story.Record {
		r := row("s-1", session.Finished, nil)
		r.Reason, r.EndedAt = record.CompleteReason, start.Add(3*time.Second)
		return s.record(r)
	},
}

func TestOf(t *testing.T) {
	for name := range stories {
		t.Run(name, func(t *testing.T) { compare(t, name, story.Of(recordOf(name), told)) })
	}
}

// TestStart protects that a start changes no story, nor does a checkpoint of before.
func TestStart(t *testing.T) {
	for name := range stories {
		without, with := recordOf(name), recordOf(name)
		for _, window := range []time.Duration{0, time.Hour} {
			for _, kind := range []string{event.Start, record.Checkpoint} {
				with.Events = append(with.Events, watchdog.Event{
					ID: kind, AggregateType: event.AggregateType, AggregateID: "s-1", Type: kind,
					Payload: record.JSON(record.Start{SessionStartedAt: at(window)}), Timestamp: start.Add(window),
				})
			}
		}
		require.Equal(t, story.Of(without, told), story.Of(with, told), name)
	}
}

// TestCodes tells the story of each stop code. Those of limits are alike, but for their names.
func TestCodes(t *testing.T) {
	var all []story.Story
	for _, code := range watchdog.StopReasons() {
		s := script{run: "s-1"}
		s.add(time.Minute, event.Cancel, cancel(time.Minute, record.Reason(string(code)), time.Minute, time.Minute))
		told := story.Of(s.record(nil), told)
		require.Equal(t, story.Stopped, told.State)
		require.Equal(t, code, told.End.Code)
		require.NotEmpty(t, story.Meaning(code), code)
		limit := record.LimitOfCode(string(code))
		if limit == nil || code == watchdog.WallClockExceeded || code == watchdog.TokensExceeded {
			all = append(all, told)
		}
	}
	compare(t, "codes", all...)
}

// TestMeanings expects the documentation to say the same.
func TestMeanings(t *testing.T) {
	docs, err := os.ReadFile("../../docs/events-codes.md")
	require.NoError(t, err)
	for _, code := range watchdog.StopReasons() {
		row := "| `" + string(code) + "` | " + story.Meaning(code) + " |\n"
		if !strings.Contains(string(docs), row) {
			t.Errorf("docs/events-codes.md has no row %s", row)
		}
	}
}

func TestStale(t *testing.T) {
	t.Run("a row that says active does not hide the end", func(t *testing.T) {
		s := script{run: "s-1"}
		s.add(time.Minute, event.Cancel, cancel(time.Minute, "idle_exceeded", time.Minute, time.Minute))
		require.Equal(t, story.Stopped, story.Of(s.record(row("s-1", session.Active, nil)), told).State)
	})
	t.Run("an end is not that of the window that the host opened after it", func(t *testing.T) {
		s := script{run: "s-1"}
		s.add(time.Minute, event.Cancel, cancel(time.Minute, "idle_exceeded", time.Minute, time.Minute))
		r := row("s-1", session.Active, nil)
		r.StartedAt = start.Add(time.Hour)
		got := story.Of(s.record(r), told)
		require.Equal(t, story.Running, got.State)
		require.Equal(t, r.StartedAt, got.StartedAt)
		require.Len(t, got.Before, 1)
		require.Equal(t, watchdog.IdleExceeded, got.Before[0].Code)
		require.Equal(t, story.Span(23*time.Hour), got.Elapsed)
	})
	t.Run("the state of another window is not told", func(t *testing.T) {
		s := script{run: "s-1"}
		s.add(2*time.Hour, event.Resume, record.Resume{SessionStartedAt: at(2 * time.Hour), PreviousStartedAt: at(0)})
		got := story.Of(s.record(row("s-1", session.Cancelled, &session.State{WallClock: 60})), told)
		require.Equal(t, start.Add(2*time.Hour), got.StartedAt)
		require.Empty(t, got.Allowed)
	})
	t.Run("an event that is neither an end nor a resume is of the window, too", func(t *testing.T) {
		s := script{run: "s-1"}
		s.add(time.Hour, event.Interrupt, record.Interrupt{Signal: "SIGTERM", SessionStartedAt: at(0)})
		got := story.Of(s.record(nil), told)
		require.Equal(t, story.Interrupted, got.State)
		require.Equal(t, start, got.StartedAt)
		require.Equal(t, story.Span(time.Hour), got.Elapsed)
		require.Empty(t, got.Before)
	})
	t.Run("an end that does not say when was when its event was", func(t *testing.T) {
		s := script{run: "s-1"}
		p := cancel(0, "idle_exceeded", time.Minute, time.Minute)
		p.FiredAt = event.Stamp{}
		s.add(time.Hour, event.Cancel, p)
		require.Equal(t, start.Add(time.Hour), story.Of(s.record(nil), told).End.At)
	})
	t.Run("a row alone has the numbers of its stop, as far as they are certain", func(t *testing.T) {
		state := &session.State{
			WallClock: 3600, Idle: 600, NoProgress: 900, Safety: 7200,
			Spent: []session.Spent{
				{Limit: "input_tokens", Used: 5, Allowed: 10}, {Limit: "tokens", Used: 2000, Allowed: 2000},
				{Limit: "cost", Currency: "EUR", Used: 6_400_000, Allowed: 6_400_000},
			},
		}
		held := *state
		held.Holds = 1
		for _, c := range []struct {
			code  watchdog.StopReason
			state *session.State
			want  string
		}{
			{watchdog.WallClockExceeded, state, "ran more than 1 h"},
			{watchdog.WallClockExceeded, nil, "its window lasted longer than its wall-clock budget"},
			{watchdog.SafetyExceeded, state, "ran from this attach for more than 2 h"},
			{watchdog.IdleExceeded, state, "no sign of life for more than 10 min"},
			{watchdog.IdleExceeded, &held, story.Meaning(watchdog.IdleExceeded)},
			{watchdog.NoProgressExceeded, state, "no progress for more than 15 min"},
			{watchdog.CommandNoOutput, state, "no output for more than 10 min"},
			{watchdog.CommandNoProgress, state, story.Meaning(watchdog.CommandNoProgress)},
			{watchdog.HoldExceeded, &held, story.Meaning(watchdog.HoldExceeded)},
			{watchdog.TokensExceeded, state, "it reached its limit: tokens: 2,000 of 2,000 used"},
			{watchdog.CostExceeded, state, "it reached its limit: cost: 6.40 EUR of 6.40 EUR used"},
			{"iteration_timeout", state, "its host or another guard stopped it"},
			{"of_a_host", state, "its host or another guard stopped it"},
		} {
			r := row("s-1", session.Cancelled, c.state)
			r.Reason, r.EndedAt = c.code, start.Add(time.Hour+30*time.Second) // the graces of its command are in it
			require.Equal(t, c.want, story.Of(story.Record{RunID: "s-1", Row: r}, told).End.Meaning)
		}
	})
	t.Run("a command that was sent a signal is ending while its process lives", func(t *testing.T) {
		s, sent := script{run: "s-1"}, &session.State{Escalation: &session.Escalation{Signal: "SIGKILL", SentAt: start}}
		got := story.Of(s.record(row("s-1", session.Active, sent)), told)
		require.Equal(t, story.Ending, got.State)
		require.Equal(t, "SIGKILL sent at 12:00:00 UTC, and nothing follows", story.EscalationText(got.Escalation))
		sent.Escalation.Next, sent.Escalation.NextAt = "SIGKILL", told.Add(-31*time.Second)
		got = story.Of(s.record(row("s-1", session.Active, sent)), told)
		require.Equal(t, "its command should have ended by now: see whether its process still lives", got.Next.Advice)
		lost := row("s-1", session.Active, sent)
		lost.Lease, lost.Lost = "", true
		for state, r := range map[story.State]*session.Session{
			story.Running: lost, story.Stopped: row("s-1", session.Cancelled, sent),
		} {
			got = story.Of(s.record(r), told)
			require.Equal(t, state, got.State)
			require.Nil(t, got.Escalation)
		}
	})
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Microsecond: "1ms", 61*time.Second + 1: "1m1s", time.Hour: "1h", 4*time.Hour + time.Second: "4h0m1s",
		90 * time.Minute: "1h30m", 10 * time.Second: "10s", 10 * time.Minute: "10m", -time.Minute: "-1m",
	} {
		require.Equal(t, want, story.Span(d).String())
	}
}

func FuzzOf(f *testing.F) {
	for name := range stories {
		for _, e := range recordOf(name).Events {
			f.Add(e.Type, []byte(e.Payload), "s-1", false)
		}
	}
	f.Add("runtime.watchdog.cancel", []byte(`[]`), "", true)
	f.Fuzz(func(t *testing.T, kind string, payload []byte, parent string, withRow bool) {
		s := script{run: "s-1"}
		s.add(time.Minute, event.Warning, record.Warning{Reason: "wall_clock", SessionStartedAt: at(0)})
		s.events = append(s.events, watchdog.Event{ID: "fuzzed", Type: kind, Payload: payload, Timestamp: start.Add(time.Hour)})
		var r *session.Session
		if withRow {
			r = row("s-1", session.Active, nil)
			r.State, r.Parent = payload, parent
		}
		got := story.Of(s.record(r, story.Record{RunID: "s-1/x", Events: s.events}), told)
		require.NotEmpty(t, got.State)
		require.NotEmpty(t, got.Next.Advice)
		text, err := json.Marshal(got)
		require.NoError(t, err)
		var again story.Story
		require.NoError(t, json.Unmarshal(text, &again))
		for _, e := range s.events {
			require.NotEmpty(t, story.Sentence(e))
		}
	})
}

// start is when the runs of the tests began, told is when their stories are.
var (
	start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	told  = start.Add(24 * time.Hour)
)

func at(d time.Duration) event.Stamp { return event.Stamp(start.Add(d)) }

// A script is the events of one run.
type script struct {
	run    string
	events []watchdog.Event
}

// add adds an event that was so long after the start.
func (s *script) add(after time.Duration, kind string, payload any) *script {
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(s.events)+1)
	s.events = append(s.events, watchdog.Event{
		ID: id, AggregateType: event.AggregateType, AggregateID: s.run, Type: kind, Payload: record.JSON(payload),
		Timestamp: start.Add(after),
	})
	return s
}

func (s *script) lastID() string { return s.events[len(s.events)-1].ID }

func (s *script) record(row *session.Session, layers ...story.Record) story.Record {
	return story.Record{RunID: s.run, Events: s.events, Row: row, Layers: layers}
}

// row is the session of a run that was attached at the start.
func row(run string, status session.Status, state *session.State) *session.Session {
	r := &session.Session{
		RunID: run, Status: status, CreatedAt: start, LastEventAt: start, StartedAt: start, Host: "host-a", Attempt: 1,
	}
	if state != nil {
		r.State, _ = json.Marshal(state)
	}
	if status == session.Active {
		r.Lease = "lease-1"
	}
	return r
}

// trip adds the two events of a directive.
func (s *script) trip(after time.Duration, kind string, p record.Trip) *script {
	p.SessionStartedAt, p.FiredAt = at(0), at(after)
	s.add(after, event.Warning, p)
	return s.add(after, kind, p)
}

func cancel(after time.Duration, reason string, used, allowed time.Duration) record.Cancel {
	return record.Cancel{
		Reason: reason, SessionStartedAt: at(0), FiredAt: at(after), Used: record.UsedOf(used, allowed),
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
