package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
	"github.com/seed62658d38/watchdog/loop"
)

func stuck(int) (input, outcome string) { return "notes", "nothing" }

// TestAgentsCost checks that agents in a run, and in its tools, cost nothing once they are over, however many there
// were, and that nothing of them is left behind when the run has ended.
func TestAgentsCost(t *testing.T) {
	const many = 2000
	for name, work := range map[string]func(wd *watchdog.Watchdog, g *adapter.Guard, n int) error{
		"in the run": func(wd *watchdog.Watchdog, g *adapter.Guard, n int) error {
			_, err := agent(wd.Context(), g, "agent "+strconv.Itoa(n), 3, stuck)
			return err
		},
		"in tools": func(wd *watchdog.Watchdog, g *adapter.Guard, n int) error {
			_, _, err := adapter.Do(wd.Context(), g, adapter.ToolCall{Tool: "helper", Input: []byte(strconv.Itoa(n))},
				func(ctx context.Context) (string, error) {
					_, err := agent(ctx, g, "", 3, stuck)
					return strconv.Itoa(n), err
				}, func(s string) []byte { return []byte(s) })
			g.Turn(wd.Context(), wd, "")
			return err
		},
	} {
		bubble(t, name, func(t *testing.T) {
			g := adapter.New(adapter.Config{})
			ctx, end := context.WithCancel(t.Context())
			defer end()
			wd, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit}})
			require.NoError(t, err)
			for n := range 100 {
				require.NoError(t, work(wd, g, n))
			}
			synctest.Wait()
			before, goroutines := heap().bytes, runtime.NumGoroutine()
			for n := range many {
				require.NoError(t, work(wd, g, 100+n))
			}
			synctest.Wait()
			grown := heap().bytes - before
			t.Logf("%d bytes an agent, %d goroutines more", grown/many, runtime.NumGoroutine()-goroutines)
			assert.Less(t, grown/many, int64(1500), "a detector has 8 KiB")
			assert.Less(t, runtime.NumGoroutine()-goroutines, many/100, "some are the runtime's, for finalizers")
			require.NoError(t, wd.Close())
			synctest.Wait()
			t.Logf("%d bytes after the end", heap().bytes-before)
		})
	}
}

// TestAgentsOfManyRuns checks that runs that have ended leave nothing in a guard.
func TestAgentsOfManyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := adapter.New(adapter.Config{})
		one := func() {
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{})
			require.NoError(t, err)
			for _, name := range []string{"", "a", "b"} {
				_, err = agent(wd.Context(), g, name, 3, stuck)
				require.NoError(t, err)
			}
			g.Said(wd.Context(), adapter.Said{Words: func() string { return "go on" }})
			require.NoError(t, wd.Close())
			// late
			_, _, err = g.Model(wd.Context(), adapter.ModelRequest{Agent: "a"})
			require.Error(t, err)
			g.Said(wd.Context(), adapter.Said{Words: func() string { return "go on again" }})
			g.Turn(wd.Context(), wd, "c")
			g.TurnIfIdle(wd)
			_, _, err = adapter.Do(wd.Context(), g, adapter.ToolCall{Tool: "read", Agent: "b"},
				func(context.Context) (string, error) { return "", nil }, nil)
			require.Error(t, err)
			synctest.Wait()
		}
		for range 50 {
			one()
		}
		before, goroutines := heap().bytes, runtime.NumGoroutine()
		for range 500 {
			one()
		}
		t.Logf("%d bytes a run", (heap().bytes-before)/500)
		assert.Less(t, (heap().bytes-before)/500, int64(500))
		assert.Less(t, runtime.NumGoroutine()-goroutines, 50, "some are the runtime's, for finalizers")
	})
}

// TestAgentsNamedAlike checks that agents of the same name in other runs, and in tools of each other, are others.
func TestAgentsNamedAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := adapter.New(adapter.Config{})
		for range 3 {
			wd := newRun(t, watchdog.Budget{})
			var nested func(ctx context.Context, depth int) error
			nested = func(ctx context.Context, depth int) error {
				read, err := agent(ctx, g, "same", 2, stuck)
				assert.Empty(t, read)
				if err != nil || depth == 0 {
					return err
				}
				_, _, err = adapter.Do(ctx, g, adapter.ToolCall{Tool: "same", Agent: "same", Input: []byte(strconv.Itoa(depth))},
					func(ctx context.Context) (string, error) { return "", nested(ctx, depth-1) }, nil)
				return err
			}
			require.NoError(t, nested(wd.Context(), 5))
		}
	})
}

// TestAgentsOfOddRuns checks what agents do in a run that guards nothing, that ends nothing, or that polls, and with
// names that are none.
func TestAgentsOfOddRuns(t *testing.T) {
	names := []string{"a/b", "\x00", "\xff\xfe", strings.Repeat("世", 300), " ", "..", "a\nb"}
	for name, c := range map[string]struct {
		cfg   watchdog.Config
		ended bool
	}{
		"disabled":      {watchdog.Config{Disabled: true}, false},
		"observed only": {watchdog.Config{ObserveOnly: true}, false},
		"that polls":    {watchdog.Config{PollOnly: true}, true},
		"as it is":      {watchdog.Config{}, true},
	} {
		bubble(t, name, func(t *testing.T) {
			for _, long := range []string{"", strings.Repeat("r", 250)} {
				store := &watchdog.Memory{}
				c.cfg.Store = store
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "r" + long, StartedAt: time.Now()}, c.cfg)
				require.NoError(t, err)
				g := adapter.New(adapter.Config{})
				for _, agentName := range names {
					g.Said(wd.Context(), adapter.Said{Words: func() string { return agentName }})
					read, err := agent(wd.Context(), g, agentName, 8, stuck)
					if c.ended {
						assert.ErrorIs(t, err, watchdog.LoopDetected, "%q", agentName)
						assert.Len(t, read, 1, "%q", agentName)
					} else {
						assert.NoError(t, err, "%q", agentName)
					}
					if long != "" {
						break
					}
				}
				_ = wd.Close()
			}
		})
	}
}

// TestSaidInTheMiddle checks that a person who speaks while agents work, and an end of the run meanwhile, harm nothing.
func TestSaidInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for round := range 30 {
			wd, g := newRun(t, watchdog.Budget{}), adapter.New(adapter.Config{})
			var all sync.WaitGroup
			for n := range 8 {
				all.Go(func() {
					_, err := agent(wd.Context(), g, "agent "+strconv.Itoa(n%4), 20, func(n int) (string, string) {
						return strconv.Itoa(n % 5), strconv.Itoa(n)
					})
					if !errors.Is(err, watchdog.ErrEnded) && err != nil { // a layer that began while the run ended
						assert.ErrorIs(t, err, watchdog.ErrComplete)
					}
				})
			}
			all.Go(func() {
				for n := range 20 {
					g.Said(wd.Context(), adapter.Said{Words: func() string { return fmt.Sprint(round, n) }})
					time.Sleep(700 * time.Millisecond)
				}
			})
			time.Sleep(time.Duration(round) * time.Second)
			if err := wd.Complete(); err != nil {
				require.ErrorIs(t, err, watchdog.ErrComplete)
			}
			all.Wait()
		}
	})
}

// TestTextOfLoop checks that what a model reads of a loop is true of each rule, is one line, and is known for what the
// guard says: not all that is found are the same calls with the same answers.
func TestTextOfLoop(t *testing.T) {
	for _, rule := range []loop.Rule{loop.Tail, loop.Pair, loop.Futile, loop.Streak, loop.Redo, loop.Poll, ""} {
		v := loop.Verdict{Advice: loop.Ask, Rule: rule, Tool: "a\n\"b", Period: 1, Rounds: 12, Since: 12}
		text := adapter.Text(watchdog.Directive{
			Kind: watchdog.DirectiveUnstuck, Reason: watchdog.LoopDetected, Loop: v.String(),
		})
		assert.True(t, adapter.IsDirective(text), text)
		assert.NotContains(t, text, "\n")
		assert.Contains(t, text, "do something else", text)
		assert.NotContains(t, text, "the same calls and", text)
		if rule == loop.Streak || rule == loop.Redo {
			assert.NotContains(t, text, "the same answers", text)
		}
	}
}

// TestPersonOfHost checks that what the host tells of a person has all agents begin anew, also one that was ended, and
// also where nothing but agents has worked in the run yet.
func TestPersonOfHost(t *testing.T) {
	for name, person := range map[string][]loop.Step{
		"a step":           {{Class: loop.Person}},
		"beside a call":    {{Tool: "read", Input: []byte("{}")}, {Class: loop.Person}},
		"a tool that asks": {{Tool: "ask", Outcome: []byte("go on")}},
	} {
		bubble(t, name, func(t *testing.T) {
			g := adapter.New(adapter.Config{})
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
				Loop: loop.Config{Classes: map[string]loop.Class{"ask": loop.Person}},
			})
			require.NoError(t, err)
			defer wd.Close()
			for range 3 {
				read, err := agent(wd.Context(), g, "asked", 4, stuck) // three of its calls are told by then
				require.NoError(t, err)
				require.Len(t, read, 1)
				_, err = agent(wd.Context(), g, "ended", 60, stuck)
				require.ErrorIs(t, err, watchdog.LoopDetected)
				_, err = agent(wd.Context(), g, "ended", 1, stuck)
				require.ErrorIs(t, err, watchdog.LoopDetected)
				wd.Step(person...)
				for _, name := range []string{"asked", "ended"} {
					read, err = agent(wd.Context(), g, name, 3, stuck)
					require.NoError(t, err)
					require.Empty(t, read)
				}
				wd.Step(person...)
			}
		})
	}
}
