package converge_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/converge"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// A model keeps every iteration since the loop last ended well, and computes each decision from all of them.
type model struct {
	stages  []converge.Stage
	memory  int
	history []string // each set as one text
	gaveUp  bool
}

// text joins a set to one string. No fingerprint of these tests has a space.
func text(set []string) string {
	set = slices.Clone(set)
	slices.Sort(set)
	return strings.Join(slices.Compact(set), " ")
}

// streak returns the last iterations whose set is among those before them, and the iteration that they began with.
func (m *model) streak() []string {
	for i, set := range slices.Backward(m.history) {
		if !slices.Contains(m.history[max(i-m.memory, 0):i], set) {
			return m.history[i:]
		}
	}
	return nil
}

// observe returns the decision, as [word] formats it, and how many iterations were the same in a row.
func (m *model) observe(set []string) (want string, inRow int) {
	if !m.gaveUp {
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
	m.gaveUp = true
	return "give_up " + m.stages[len(m.stages)-1].Name, len(streak)
}

func (m *model) oscillates() bool {
	return len(slices.Compact(slices.Clone(m.streak()))) > 1
}

func (m *model) reset() { m.history, m.gaveUp = nil, false }

// TestTrackerModel checks that a tracker decides as the naive model does.
func TestTrackerModel(t *testing.T) {
	seen := map[string]int{}
	for seed := range racing.Rounds[uint64](500, 2000) {
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
			seen[string(d.Advice)]++
			if d.Oscillates && d.Advice == converge.GiveUp {
				seen["oscillation"]++
			}
		}
	}
	for _, what := range []string{"continue", "move", "give_up", "oscillation"} {
		require.Greater(t, seen[what], 100, "too few cases of %s for a meaningful test", what)
	}
}

// stored stores the tracker as JSON and restores it, as a restart does.
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

// randomSet returns one of a few sets, so that sets repeat.
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
