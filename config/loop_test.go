package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/loop"
)

// TestLoop gives a run the rules of a file.
func TestLoop(t *testing.T) {
	const stop = "period: 0, pairs: 0, futile: 0"
	for sentence, test := range map[string]struct {
		rules string
		found loop.Rule
		turns int // of one that is repeated
	}{
		"the default rounds":                    {"", loop.Tail, 3},
		"more rounds":                           {"rounds: 5, pairs: 0", loop.Tail, 5},
		"pairs without rounds":                  {"period: 0, pairs: 5", loop.Pair, 5},
		"a fuse alone":                          {stop + ", fuse: 3, fuse_of: 5", loop.Fuse, 4},
		"a fuse of less than the default count": {stop + ", fuse_of: 10", loop.Fuse, 11},
	} {
		t.Run(sentence, func(t *testing.T) {
			v, turns := repeat(t, "runtime_controls: {loop: {"+test.rules+"}}\n", `{"at": 7}`)
			require.Equal(t, test.found, v.Rule)
			require.Equal(t, test.turns, turns)
		})
	}
	t.Run("nothing that is off", func(t *testing.T) {
		v, _ := repeat(t, "runtime_controls: {loop: {"+stop+", fuse: 0, polls: 0}}\n", `{"at": 7}`)
		require.Equal(t, loop.Go, v.Advice)
	})
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
		v = wd.Step(loop.Step{Tool: "grep", Input: []byte(`{"q": 1}`), Outcome: outcome, Class: loop.Look, Gap: time.Second})
		turns++
	}
	return v, turns
}
