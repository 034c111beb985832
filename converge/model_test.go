package converge_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/converge"
)

// A model keeps every iteration since the loop last ended well and reads the decision off the whole of them, each time anew.
type model struct {
	stages  []converge.Stage
	memory  int
	history []string // each set as one text
	ended   bool
}

// text is a set as one text: no fingerprint of these tests has a space.
func text(set []string) string {
	set = slices.Clone(set)
	slices.Sort(set)
	return strings.Join(slices.Compact(set), " ")
}

// streak counts back from the end: how many iterations found themselves among those before them, and the one that these began with.
func (m *model) streak() []string {
	for i, set := range slices.Backward(m.history) {
		if !slices.Contains(m.history[max(i-m.memory, 0):i], set) {
			return m.history[i:]
		}
	}
	return nil
}

// observe says what the decision is, in the words of [word], and how many there were in a row.
func (m *model) observe(set []string) (want string, inRow int) {
	if !m.ended {
		m.history = append(m.history, text(set))
		if len(set) == 0 {
			m.history = nil
		}
	}
	streak := m.streak()
	left := len(streak)
	for _, stage := range m.stages {
		switch {
		case left == 0 && len(streak) > 0:
			return "move " + stage.Name, len(streak)
		case left < stage.After:
			return "continue " + stage.Name, len(streak)
		}
		left -= stage.After
	}
	m.ended = true
	return "give_up " + m.stages[len(m.stages)-1].Name, len(streak)
}

func (m *model) oscillates() bool {
	return len(slices.Compact(slices.Clone(m.streak()))) > 1
}

func (m *model) reset() { m.history, m.ended = nil, false }

func TestATrackerDecidesAsTheModelDoes(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		config := randomConfig(random)
		tracker, m := newTracker(t, config), &model{stages: config.Stages, memory: max(config.Memory, 1)}
		for step := range 60 {
			switch random.IntN(20) {
			case 0:
				tracker.Reset()
				m.reset()
			case 1, 2, 3:
				tracker = stored(t, config, tracker)
			}
			set := randomSet(random)
			d, err := tracker.Observe(set)
			require.NoError(t, err)
			want, inRow := m.observe(set)
			require.Equal(t, want, word(d), "seed %d, step %d", seed, step)
			require.Equal(t, inRow, d.InRow, "seed %d, step %d", seed, step)
			require.Equal(t, m.oscillates(), d.Oscillates, "seed %d, step %d", seed, step)
			seen[string(d.Action)]++
			if d.Oscillates && d.Action == converge.GiveUp {
				seen["oscillation"]++
			}
		}
	}
	for _, what := range []string{"continue", "move", "give_up", "oscillation"} {
		require.Greater(t, seen[what], 100, "%s came up too rarely for this to be a test", what)
	}
}

// stored sends the tracker through JSON, as a restart does.
func stored(t *testing.T, config converge.Config, tracker *converge.Tracker) *converge.Tracker {
	t.Helper()
	data, err := json.Marshal(tracker.State())
	require.NoError(t, err)
	var state converge.State
	require.NoError(t, json.Unmarshal(data, &state))
	restored, err := converge.Restore(config, state)
	require.NoError(t, err)
	require.Equal(t, tracker.State(), restored.State())
	return restored
}

func randomConfig(random *rand.Rand) converge.Config {
	config := converge.Config{Memory: random.IntN(5)}
	for i := range 1 + random.IntN(4) {
		config.Stages = append(config.Stages, converge.Stage{Name: string(rune('a' + i)), After: 1 + random.IntN(4)})
	}
	return config
}

// randomSet is one of few, so that sets come again.
func randomSet(random *rand.Rand) []string {
	switch random.IntN(12) {
	case 0:
		return nil
	case 1:
		return []string{"z", "x", "z"}
	case 2, 3:
		return []string{"y"}
	case 4:
		return []string{"x", "z"}
	default:
		return []string{"x"}
	}
}
