package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/loop"
)

// TestLoop gives a run what a file says of loops.
func TestLoop(t *testing.T) {
	for sentence, test := range map[string]struct {
		settings string
		found    loop.Advice
		turns    int // of one that is repeated
	}{
		"on, if it says nothing":     {"", loop.Ask, 3},
		"on":                         {"mode: on", loop.Ask, 3},
		"off":                        {"mode: off", loop.Go, 100},
		"a tool that waits":          {"classes: {grep: wait}", loop.Go, 100},
		"waits that are asked about": {"classes: {grep: wait}, waits: ask", loop.Ask, 20},
		"waits that end a run":       {"classes: {grep: wait}, waits: end", loop.End, 10},
		"a class without an outcome": {"classes: {grep: look, other: drive}", loop.Ask, 3},
	} {
		t.Run(sentence, func(t *testing.T) {
			v, turns := repeat(t, "runtime_controls: {loop: {"+test.settings+"}}\n", `{"at": 7}`)
			require.Equal(t, test.found, v.Advice)
			require.Equal(t, test.turns, turns)
		})
	}
	t.Run("what differs in a volatile field only", func(t *testing.T) {
		v, _ := repeat(t, "runtime_controls: {loop: {volatile: [at]}}\n", `{"at": 7}`, `{"at": 8}`, `{"at": 9}`)
		require.Equal(t, loop.Tail, v.Rule)
	})
}

// repeat tells a run of turns until something is found, 100 at most. The outcomes take turns.
func repeat(t *testing.T, text string, outcomes ...string) (v loop.Verdict, turns int) {
	t.Helper()
	c, err := config.Parse(file, []byte(text), config.NoEnvironment)
	require.NoError(t, err)
	wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
		SpendStore: &watchdog.Memory{}, Budget: c.Budget, Loop: c.Loop, PollOnly: true,
	})
	require.NoError(t, err)
	defer wd.Close()
	for turns < 100 && (turns == 0 || v.Advice == loop.Go) {
		outcome := []byte(outcomes[turns%len(outcomes)])
		v = wd.Step(loop.Step{Tool: "grep", Input: []byte(`{"q": 1}`), Outcome: outcome, Gap: time.Second})
		turns++
	}
	return v, turns
}
