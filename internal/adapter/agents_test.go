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

// An agent calls a tool in each of its turns, until its model's call fails. It returns what its model read.
func agent(ctx context.Context, g *adapter.Guard, name string, turns int, call func(n int) (input, outcome string)) (
	read []string, err error,
) {
	for n := range turns {
		model, messages, err := g.Model(ctx, adapter.ModelRequest{Agent: name})
		if read = append(read, messages...); err != nil {
			return read, err
		}
		model.End(adapter.Usage{})
		input, outcome := call(n)
		_, _, err = adapter.Do(ctx, g, adapter.ToolCall{Tool: "read", Agent: name, Input: []byte(input)},
			func(context.Context) (string, error) { return outcome, nil }, func(s string) []byte { return []byte(s) })
		if err != nil {
			return read, err
		}
		time.Sleep(time.Second)
	}
	return read, nil
}

// TestAgents checks that agents which work in a run at the same time, each of which reads the same and gets on, do not
// look like a loop together, and that one of them that repeats itself is told, and ended alone.
func TestAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{WallClock: time.Hour, Reserve: time.Minute}), adapter.New(adapter.Config{})
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				read, err := agent(wd.Context(), g, "worker "+strconv.Itoa(worker), 60, func(n int) (string, string) {
					file := fmt.Sprintf("file %d", n)
					return file, "the text of " + file
				})
				assert.NoError(t, err)
				assert.Empty(t, read)
			})
		}
		all.Go(func() {
			read, err := agent(wd.Context(), g, "stuck", 60, func(int) (string, string) { return "notes", "nothing" })
			require.ErrorIs(t, err, watchdog.LoopDetected)
			require.Len(t, read, 1)
			assert.Contains(t, read[0], "You repeat yourself")
		})
		all.Wait()
		require.Nil(t, wd.Stop(), "the others go on")
		_, asked := wd.Poll()
		assert.False(t, asked, "it was asked of the agent, and not of the run")
	})
}

// TestAgentsOfRun checks that what is asked of a run is read by an agent of it, and that the agents' layers end no
// earlier than the run, also one whose wall clock was extended.
func TestAgentsOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{
			WallClock: 10 * time.Minute, Reserve: time.Minute, NoProgress: 2 * time.Minute,
			Ladders: watchdog.Ladders{NoProgress: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck}},
		}), adapter.New(adapter.Config{})
		one := func(n int) (string, string) { return "file", strconv.Itoa(n) }
		_, err := agent(wd.Context(), g, "one", 2, one)
		require.NoError(t, err)
		time.Sleep(2*time.Minute + 1)
		synctest.Wait()
		read, err := agent(wd.Context(), g, "one", 1, func(int) (string, string) { return "file", "2" })
		require.NoError(t, err)
		require.Len(t, read, 1)
		assert.Contains(t, read[0], "You have not got further")
		require.NoError(t, wd.Extend(time.Hour))
		for range 20 {
			time.Sleep(time.Minute)
			wd.Progress()
		}
		_, err = agent(wd.Context(), g, "one", 2, func(n int) (string, string) { return "file", strconv.Itoa(10 + n) })
		require.NoError(t, err)
		require.NoError(t, wd.Complete())
		_, err = agent(wd.Context(), g, "one", 1, one)
		require.ErrorIs(t, err, watchdog.ErrComplete)
	})
}

// TestSaid checks that what a person says has each agent begin anew, also one that was ended, and forgets calls that
// were not told yet; and that what was said lately, what is said to a tool's own agent, and a directive are no words of
// a person.
func TestSaid(t *testing.T) {
	says := func(words string) adapter.Said { return adapter.Said{Words: func() string { return words }} }
	same := func(int) (string, string) { return "notes", "nothing" }
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{}), adapter.New(adapter.Config{})
		for round := range 4 {
			g.Said(wd.Context(), says(fmt.Sprintf("please, %d", round)))
			_, err := agent(wd.Context(), g, "stuck", 60, same)
			require.ErrorIs(t, err, watchdog.LoopDetected)
			read, err := agent(wd.Context(), g, "", 3, same)
			require.NoError(t, err)
			require.Empty(t, read)
		}
		for round, words := range []string{"please, 3", adapter.Text(watchdog.Directive{
			Kind: watchdog.DirectiveUnstuck, Reason: watchdog.LoopDetected, Loop: strconv.Itoa(4),
		}), ""} {
			g.Said(wd.Context(), says(words))
			_, err := agent(wd.Context(), g, "stuck", 1, same)
			require.ErrorIs(t, err, watchdog.LoopDetected, round)
		}
		helper := func(ctx context.Context) (none any, _ error) {
			for n := range 3 {
				g.Said(ctx, says(fmt.Sprintf("find, %d", n)))
				_, err := agent(ctx, g, "", 1, same)
				require.NoError(t, err)
			}
			read, err := agent(ctx, g, "", 1, same)
			require.Len(t, read, 1)
			return nil, err
		}
		_, _, err := adapter.Do(wd.Context(), g, adapter.ToolCall{Tool: "helper"}, helper, nil)
		require.NoError(t, err)
	})
}

// TestManyAgents checks that agents whose names never come again are forgotten, and those that work are not.
func TestManyAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{}), adapter.New(adapter.Config{})
		same := func(int) (string, string) { return "notes", "nothing" }
		for n := range 500 {
			_, err := agent(wd.Context(), g, "one of many "+strconv.Itoa(n), 2, same)
			require.NoError(t, err)
			if n%200 == 0 {
				_, err = agent(wd.Context(), g, "forgotten", 2, same)
				require.NoError(t, err)
			}
			_, err = agent(wd.Context(), g, "working", 1, func(int) (string, string) { return "file", strconv.Itoa(n % 3) })
			require.True(t, err == nil || n > 10, n)
		}
		_, err := agent(wd.Context(), g, "working", 1, same)
		require.ErrorIs(t, err, watchdog.LoopDetected)
	})
}

// TestSaidAfterRestart checks that words with which a run is continued have what it did before count, and that what was
// said is known when the run is attached again.
func TestSaidAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store watchdog.Memory
		same := func(int) (string, string) { return "notes", "nothing" }
		turns := func(g *adapter.Guard, words string) (read []string) {
			t.Helper()
			time.Sleep(time.Second)
			run := watchdog.Run{ID: "s-1", Continue: true}
			wd, err := watchdog.New(t.Context(), run, watchdog.Config{Store: &store})
			require.NoError(t, err)
			g.Said(wd.Context(), adapter.Said{Words: func() string { return words }})
			read, err = agent(wd.Context(), g, "", 2, same)
			require.NoError(t, err)
			_, _, err = g.Model(wd.Context(), adapter.ModelRequest{}) // which tells of the last call
			require.NoError(t, err)
			require.NoError(t, wd.Close())
			return read
		}
		before := adapter.New(adapter.Config{})
		require.Empty(t, turns(before, "go"))
		require.Empty(t, turns(before, "and now"), "a person said something else")
		require.Empty(t, turns(before, "and then"), "and again")
		require.Len(t, turns(adapter.New(adapter.Config{}), "and then"), 1, "another process continues the run")
	})
}

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
