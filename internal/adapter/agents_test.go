package adapter_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
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
