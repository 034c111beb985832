package watchdog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
)

func TestEventGoldens(t *testing.T) {
	cancelled := func(b *fixture) { b.attach(); b.pass(4*time.Hour + 1234567*time.Microsecond) }
	by := func(c watchdog.Cancellation) func(b *fixture) {
		return func(b *fixture) {
			wd := b.attach()
			b.pass(90 * time.Second)
			cancelRun(b.t, wd, c)
			synctest.Wait()
		}
	}
	for name, c := range map[string]struct {
		kind   string
		happen func(b *fixture)
	}{
		"cancel_no_output": {event.Cancel, by(noOutput)},
		"cancel_no_progress": {event.Cancel, func(b *fixture) {
			b.run.ID, b.run.Parent = "s-1/build", "s-1"
			by(watchdog.Cancellation{Reason: watchdog.CommandNoProgress, Elapsed: time.Minute, Budget: 30 * time.Second})(b)
		}},
		"cancel_terminal":     {event.Cancel, by(watchdog.Cancellation{Reason: watchdog.CommandTerminal})},
		"cancel_idle_timeout": {event.Cancel, by(watchdog.Cancellation{Reason: watchdog.SessionIdleTimeout, Elapsed: 12 * time.Minute, Budget: 10 * time.Minute})},
		"cancel_host_lost":    {event.Cancel, by(watchdog.Cancellation{Reason: watchdog.SessionHostLost, Elapsed: 12 * time.Minute, Budget: 10 * time.Minute})},
		"cancel_host":         {event.Cancel, by(watchdog.Cancellation{Reason: "grade_regressing"})},
		"observed_no_output":  {event.Warning, func(b *fixture) { b.cfg.ObserveOnly = true; by(noOutput)(b) }},
		"cancel": {event.Cancel, func(b *fixture) {
			b.cfg.PollOnly = true
			wd := b.attach()
			b.pass(4*time.Hour + 1234567*time.Microsecond)
			b.stopped(wd)
		}},
		"cancel_layer": {event.Cancel, func(b *fixture) {
			b.run.ID, b.run.Parent = "s-1/build", "s-1"
			cancelled(b)
		}},
		"resume":  {event.Resume, func(b *fixture) { cancelled(b); b.resume() }},
		"warning": {event.Warning, func(b *fixture) { b.cfg.Budget.Reserve = time.Minute; b.attach(); b.pass(192 * time.Minute) }},
		"cancel_hold": {event.Cancel, func(b *fixture) {
			wd := b.attach()
			wd.Note("tool: grep")
			openHold(b.t, wd, "grep", watchdog.HoldLimit{Cap: 2 * time.Minute})
			b.pass(3 * time.Minute)
		}},
		"retry": {event.Retry, func(b *fixture) {
			b.cfg.Budget = laddered.Budget
			b.attach().Note("tool: grep")
			b.pass(11 * time.Minute)
		}},
		"wait_again": {event.Wait, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{Idle: 10 * time.Minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 1)}}
			wd := b.attach()
			openIdle(t, wd, "tool: grep", 10*time.Minute)
			b.pass(11 * time.Minute)
			wd.Activity()
			b.pass(11 * time.Minute)
		}},
		"cancel_hold_idle": {event.Cancel, func(b *fixture) {
			openIdle(t, b.attach(), "tool: grep", 90*time.Second)
			b.pass(2 * time.Minute)
		}},
		"decision": {event.Warning, func(b *fixture) { b.cfg.Budget = laddered.Budget; b.attach(); b.pass(11 * time.Minute) }},
		"observed": {event.Warning, func(b *fixture) {
			b.cfg.ObserveOnly = true
			b.cfg.Budget.Idle = 10 * time.Minute
			b.attach()
			b.pass(11 * time.Minute)
		}},
		"extend": {event.Extend, func(b *fixture) {
			wd := b.attach()
			b.pass(90 * time.Second)
			require.NoError(t, wd.Extend(90*time.Minute+500*time.Millisecond))
		}},
		"start": {event.Start, func(b *fixture) {
			b.run = watchdog.Run{ID: "s-1"}
			b.attach()
		}},
		"interrupt": {event.Interrupt, func(b *fixture) {
			wd := b.attach()
			b.pass(90 * time.Second)
			require.NoError(t, wd.Interrupt("SIGTERM"))
		}},
		"complete": {event.Complete, func(b *fixture) {
			wd := b.attach()
			wd.Note("report written")
			b.pass(90*time.Second + 1234567*time.Nanosecond)
			require.NoError(b.t, wd.Complete())
		}},
		"complete_command": {event.Complete, func(b *fixture) {
			b.run.ID, b.run.Parent = "s-1/job", "s-1"
			wd := b.attach()
			wd.Note("ended with status 3")
			b.pass(90 * time.Second)
			status := record.Count(3)
			end := record.CommandEnd{Outcome: "failed", ExitStatus: &status}
			require.NoError(b.t, handle.Of(wd.Context()).CompleteCommand(end))
		}},
		"complete_command_killed": {event.Complete, func(b *fixture) {
			wd := b.attach()
			b.pass(90 * time.Second)
			end := record.CommandEnd{Outcome: "failed", Signal: "SIGKILL"}
			require.NoError(b.t, handle.Of(wd.Context()).CompleteCommand(end))
		}},
		"hold":    {event.Hold, func(b *fixture) { approved(b) }},
		"release": {event.Release, func(b *fixture) { approved(b).Close() }},
		"release_taken": {event.Release, func(b *fixture) {
			wd := b.attach()
			openHold(b.t, wd, "approval", approval)
			require.NoError(b.t, wd.Close())
			b.pass(time.Minute)
			openHold(b.t, b.attach(), "approval", approval)
		}},
		"progress": {event.Progress, func(b *fixture) {
			b.cfg.Budget = laddered.Budget
			wd := b.attach()
			b.pass(11 * time.Minute)
			wd.Progress()
			wd.Fired()
		}},
		"cancel_paused": {event.Cancel, func(b *fixture) {
			approved(b)
			b.pass(3 * time.Hour)
		}},
		"wrap_up": {event.WrapUp, func(b *fixture) {
			b.cfg.Budget.Reserve = 10 * time.Minute
			b.attach().Note("tool: grep")
			b.pass(230 * time.Minute)
		}},
		"overrun": {event.Overrun, func(b *fixture) {
			wd := b.attach()
			b.pass(90 * time.Second)
			bound.Do(wd.Context(), bound.Call{Limit: time.Minute}, func(ctx context.Context) (string, error) {
				b.pass(time.Minute + 1234567*time.Nanosecond)
				return "late", ctx.Err()
			})
			b.pass(0)
		}},
		"overrun_abandoned": {event.Overrun, func(b *fixture) {
			b.run.ID, b.run.Parent = "s-1/build", "s-1"
			b.cfg.Budget = watchdog.Budget{WallClock: 90 * time.Second, Reserve: 30 * time.Second}
			b.abandon(bound.Call{Key: "tick", Calls: &bound.Calls{}, Grace: time.Second})
		}},
		"overrun_command": {event.Overrun, func(b *fixture) {
			b.run.ID, b.run.Parent = "s-1/build", "s-1"
			wd := b.attach()
			b.pass(61 * time.Second)
			pids := make([]int, 20)
			for i := range pids {
				pids[i] = 4711 + i
			}
			left := record.Overrun{Key: "build", Layer: record.LayerCommand, ElapsedSeconds: 61, Abandoned: true}
			left.SetSurvivors(pids)
			handle.Of(wd.Context()).RecordOverrun(left)
			b.pass(0)
		}},
	} {
		t.Run(name, func(t *testing.T) { goldenEvent(t, name, c.kind, c.happen) })
	}
}

// goldenEvent compares the last event of a kind with its golden file.
func goldenEvent(t *testing.T, name, kind string, happen func(b *fixture)) {
	t.Helper()
	inFixture(t, func(b *fixture) {
		happen(b)
		synctest.Wait()
		all := b.events(kind)
		e := all[len(all)-1]
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, e.ID)
		if e.ID[14] == '4' {
			e.ID = "random"
		}
		e.Payload = opener.ReplaceAll(e.Payload, []byte(`"opener":{"boot":"b","pid":1,"started":2,"host":"h","attach":"a"}`))
		if named := random.ReplaceAll(e.Payload, []byte("random")); !bytes.Equal(named, e.Payload) {
			e.Payload, e.ID = named, "of random"
		}
		text, err := json.Marshal(e)
		require.NoError(t, err)
		golden.Compare(t, "testdata/events/"+name+".json", string(text)+"\n")
	})
}

// TestLoopBefore reads the events of a run that a version before asked to leave a loop, and then ended for it. One of
// them is a checkpoint with the state of its detector.
func TestLoopBefore(t *testing.T) {
	text, err := os.ReadFile("testdata/loop_before.jsonl")
	require.NoError(t, err)
	var all []watchdog.Event
	for line := range strings.Lines(string(text)) {
		var e watchdog.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		all = append(all, e)
	}
	require.Equal(t, event.Cancel, all[len(all)-1].Type)
	for name, read := range map[string]int{"before its end": len(all) - 1, "after it": len(all)} {
		runFixture(t, name, func(b *fixture) {
			b.pass(5 * time.Minute)
			require.NoError(b.t, b.cfg.Store.Append(b.t.Context(), all[:read]...))
			wd := b.attach()
			stop := wd.Stop()
			if require.Equal(b.t, read == len(all), stop != nil); stop == nil {
				require.NoError(b.t, wd.Complete())
				return
			}
			require.EqualError(b.t, stop, "run s-1 stopped: watchdog_loop_detected: loop: the same 5 times "+
				"(tail/1/68193893529ab849), in the window that started at 2026-05-01T12:00:00Z; resume the run to go on")
			require.Equal(b.t, watchdog.LoopDetected, stop.Code)
			require.Equal(b.t, watchdog.Usage{
				Run: "s-1", Limit: "loop", Used: 5, Pattern: "tail/1/68193893529ab849",
			}, *stop.Usage)
			require.False(b.t, hasFired(b.resume()))
		})
	}
}

// opener is who opened a hold, which differs each time.
var opener = regexp.MustCompile(
	`"opener":\{"boot":"[^"]+","pid":[0-9]+,"started":[0-9]+,"host":"[^"]+","attach":"[0-9a-f-]{36}"\}`)

// random is an ID that differs each time.
var random = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// approved opens a hold that stops the wall clock and lets a minute pass.
func approved(b *fixture) *watchdog.Hold {
	wd := b.attach()
	b.pass(90 * time.Second)
	h := openHold(b.t, wd, "approval", watchdog.HoldLimit{Cap: 2 * time.Hour, PausesWallClock: true})
	b.pass(time.Minute)
	return h
}

// abandon makes a call in a run that lets go of it after a minute and a second.
func (b *fixture) abandon(call bound.Call) {
	wd, hang := b.attach(), make(chan struct{})
	b.t.Cleanup(func() { close(hang) })
	go bound.Do(wd.Context(), call, func(ctx context.Context) (string, error) {
		bound.Note(ctx, "tool: grep")
		<-hang
		return "too late", nil
	})
	synctest.Wait()
	b.pass(time.Minute + 1)
	b.pass(time.Second + 1)
}

func TestEventJSON(t *testing.T) {
	e := watchdog.Event{
		ID: "e-1", AggregateType: "session", AggregateID: "s-1", Type: "session.created", ConsensusID: "c-1",
		Payload: json.RawMessage(`{"n":9007199254740993}`), Timestamp: noon.Add(time.Microsecond),
	}
	text, err := json.Marshal(e)
	require.NoError(t, err)
	var back watchdog.Event
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, e, back)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"timestamp":"noon"}`), &back), `"noon"`)
}

func TestEventValidate(t *testing.T) {
	valid := watchdog.Event{
		ID: "e-1", AggregateType: "session", AggregateID: "s-1", Type: "session.created", Payload: json.RawMessage(` {"n":1}`), Timestamp: noon,
	}
	require.NoError(t, valid.Validate())
	for name, spoil := range map[string]func(e *watchdog.Event){
		"id":             func(e *watchdog.Event) { e.ID = strings.Repeat("x", event.MaxID+1) },
		"aggregate_type": func(e *watchdog.Event) { e.AggregateType = "" },
		"aggregate_id":   func(e *watchdog.Event) { e.AggregateID = "a\x7fb" },
		"event_type":     func(e *watchdog.Event) { e.Type = strings.Repeat("x", event.MaxType+1) },
		"consensus_id":   func(e *watchdog.Event) { e.ConsensusID = "\xff" },
		"timestamp":      func(e *watchdog.Event) { e.Timestamp = time.Time{} },
		"payload":        func(e *watchdog.Event) { e.Payload = json.RawMessage(`[1]`) },
	} {
		t.Run(name, func(t *testing.T) {
			stored := valid
			spoil(&stored)
			require.ErrorIs(t, stored.Validate(), watchdog.ErrInvalid)
			require.ErrorContains(t, stored.Validate(), name)
		})
	}
	t.Run("a payload that is no JSON, nothing or two values", func(t *testing.T) {
		for _, payload := range []string{"", "null", "{", "{} {}", "7", `{"a":"` + "\xff" + `"}`} {
			stored := valid
			stored.Payload = json.RawMessage(payload)
			require.ErrorIs(t, stored.Validate(), watchdog.ErrInvalid, payload)
		}
	})
	t.Run("a year that RFC 3339 cannot write", func(t *testing.T) {
		stored := valid
		stored.Timestamp = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		require.ErrorIs(t, stored.Validate(), watchdog.ErrInvalid)
	})
}

// TestSpendEventGoldens holds the events of counted limits to the byte.
func TestSpendEventGoldens(t *testing.T) {
	spent := func(limits watchdog.Spend, ladders watchdog.Ladders, amounts ...watchdog.Amount) func(b *fixture) {
		return func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{Spend: limits, Ladders: ladders}
			wd := b.attach()
			wd.Note("tool: grep")
			b.pass(90 * time.Second)
			for _, amount := range amounts {
				if c, err := wd.Admit(context.Background(), "", amount); err == nil {
					require.NoError(b.t, c.Settle(amount))
				}
			}
		}
	}
	ten := watchdog.Spend{Requests: 10, Reserve: watchdog.Totals{Requests: 2}}
	for name, c := range map[string]struct {
		kind   string
		happen func(b *fixture)
	}{
		"cancel_cost": {event.Cancel, spent(watchdog.Spend{Cost: euros(5_000_000)}, watchdog.Ladders{},
			watchdog.Amount{Cost: euros(4_000_000)}, watchdog.Amount{Cost: euros(1_000_001)})},
		"cancel_tool": {event.Cancel, spent(watchdog.Spend{Tools: map[string]int64{"rm": 1}}, watchdog.Ladders{},
			watchdog.Amount{ToolCalls: 1, Tool: "rm"}, watchdog.Amount{ToolCalls: 1, Tool: "rm"})},
		"complete_spent": {event.Complete, func(b *fixture) {
			b.cfg.Budget.Spend = watchdog.Spend{
				Cost: euros(5_000_000), Requests: 10, Turns: 10, Errors: 3, Tools: map[string]int64{"rm": 3},
				Used: []watchdog.Usage{{Limit: "requests", Used: 2, Admitted: 1}},
			}
			wd := b.attach()
			layer := openLayer(b.t, wd, "step", watchdog.Budget{Spend: watchdog.Spend{Requests: 5}})
			amount := watchdog.Amount{Cost: euros(40_000), Requests: 1, Result: watchdog.ResultError}
			require.NoError(b.t, admit(b.t, layer, amount).Settle(amount))
			admit(b.t, wd, watchdog.Amount{ToolCalls: 1, Tool: "rm"})
			require.NoError(b.t, wd.Complete())
		}},
		"warning_requests": {event.Warning, spent(watchdog.Spend{Requests: 10}, watchdog.Ladders{}, requests(8))},
		"wrap_up_requests": {event.WrapUp, spent(ten, watchdog.Ladders{}, requests(7), requests(2))},
		"decision_requests": {event.Warning, spent(watchdog.Spend{Requests: 10, WarnAt: []float64{}}, watchdog.Ladders{
			Requests: many(watchdog.DirectiveWait, 1),
		}, requests(7), requests(4))},
		"extend_requests": {event.Extend, func(b *fixture) {
			spent(watchdog.Spend{Requests: 10}, watchdog.Ladders{}, requests(7))(b)
			b.cfg.Budget.Spend.Used = []watchdog.Usage{{Limit: "requests", Used: 7}}
			wd := b.resume()
			require.NoError(b.t, wd.ExtendSpend(watchdog.Spend{Requests: 5}))
		}},
	} {
		t.Run(name, func(t *testing.T) { goldenEvent(t, name, c.kind, c.happen) })
	}
}

// noted returns an event of run-1 at a time.
func noted(id string, at time.Time) watchdog.Event {
	return watchdog.Event{
		ID: id, AggregateType: event.AggregateType, AggregateID: "run-1", Type: "host.note",
		Payload: []byte("{}"), Timestamp: at,
	}
}

// A Decide that panics or ends its goroutine leaves the memory unlocked, and nothing of its transaction in it.
func TestMemoryDecideFails(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for name, fail := range map[string]func(){"panics": func() { panic("flaw") }, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			m := new(watchdog.Memory)
			first := &event.Exchange{Decide: func([]watchdog.Event) []watchdog.Event {
				return []watchdog.Event{noted("a", at), noted("b", at)}
			}}
			failing := &event.Exchange{Decide: func([]watchdog.Event) []watchdog.Event { fail(); return nil }}
			var call sync.WaitGroup
			call.Go(func() {
				defer func() { _ = recover() }()
				_ = m.Transact(t.Context(), first, failing)
			})
			call.Wait()
			events, err := m.Read(t.Context(), event.AggregateType, "run-1")
			require.NoError(t, err)
			require.Empty(t, events)
			require.Nil(t, first.Kept)
			require.NoError(t, m.Transact(t.Context(), first), "the IDs are free again")
			require.Len(t, first.Kept, 2)
		})
	}
}

// Since is cut off as timestamps are: an event that was appended at that time is selected.
func TestMemorySinceMicrosecond(t *testing.T) {
	m, at := new(watchdog.Memory), time.Date(2026, 3, 4, 12, 0, 0, 700, time.UTC)
	require.NoError(t, m.Append(t.Context(), noted("a", at)))
	events, err := m.Select(t.Context(), event.Selection{
		AggregateType: event.AggregateType, AggregateID: "run-1", Since: at,
	})
	require.NoError(t, err)
	require.Len(t, events, 1)
}
