package converge_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall/converge"
)

var (
	a    = []string{"k8s/crd/missing:widgets.example.com"}
	b    = []string{"stall/no_output"}
	c    = []string{"k8s/pod/crash:web-0"}
	both = []string{"k8s/crd/missing:widgets.example.com", "stall/no_output"}
	well = []string(nil)
)

// word formats a decision as its action and its stage.
func word(d converge.Decision) string {
	return string(d.Advice) + " " + d.Stage.Name
}

func TestStages(t *testing.T) {
	t.Run("each stage has its own After", func(t *testing.T) {
		stages := []converge.Stage{{Name: "one", After: 1}, {Name: "three", After: 3}}
		tracker := newTracker(t, converge.Config{Stages: stages})
		stages[0].After = 9 // the config was copied

		require.Equal(t, "move three", word(observe(t, tracker, a)))
		require.Equal(t, "continue three", word(observe(t, tracker, a, a)))
		require.Equal(t, "give_up three", word(observe(t, tracker, a)))
	})
	t.Run("without stages the defaults are used, with DefaultAfter", func(t *testing.T) {
		d := observe(t, newTracker(t, converge.Config{}), a)
		want := converge.DefaultStages()[0]
		want.After = converge.DefaultAfter
		require.Equal(t, want, d.Stage)
	})
}

func TestDecisionChanges(t *testing.T) {
	tracker := newTracker(t, converge.Config{})

	d := observe(t, tracker, both)
	require.Equal(t, both, d.New)
	require.Empty(t, d.Gone)
	require.Empty(t, d.Same)

	d = observe(t, tracker, []string{c[0], a[0], c[0]})
	require.Equal(t, []string{a[0], c[0]}, d.Fingerprints)
	require.Equal(t, c, d.New)
	require.Equal(t, b, d.Gone)
	require.Equal(t, a, d.Same)
	require.Equal(t, 1, d.InRow)

	d = observe(t, tracker, well)
	require.Empty(t, d.Fingerprints)
	require.Equal(t, []string{a[0], c[0]}, d.Gone)
	require.Zero(t, d.InRow)
}

// TestDecisionCopy checks that a decision shares no memory with its tracker.
func TestDecisionCopy(t *testing.T) {
	tracker := newTracker(t, converge.Config{})
	mine := []string{"z", "a"}
	d := observe(t, tracker, mine)
	require.Equal(t, []string{"z", "a"}, mine, "the argument is not changed")

	d.Fingerprints[0], mine[0] = "changed", "changed"
	require.Equal(t, 2, observe(t, tracker, []string{"a", "z"}).InRow)
}

// The same again and again has no code, and is no oscillation, of which an example has the code.
func TestStopReason(t *testing.T) {
	d := observe(t, newTracker(t, converge.Config{Stages: []converge.Stage{{Name: "only", After: 3}}, Memory: 2}), a, a, a)
	require.Equal(t, converge.GiveUp, d.Advice)
	require.Empty(t, d.StopReason())
}

func TestAfterGivingUp(t *testing.T) {
	tracker := newTracker(t, converge.Config{Stages: []converge.Stage{{Name: "only"}}})
	gaveUp := observe(t, tracker, a, a)
	require.Equal(t, converge.GiveUp, gaveUp.Advice)

	t.Run("the answer names the set that it gave up on", func(t *testing.T) {
		d := observe(t, tracker, b)
		require.Equal(t, gaveUp.Text(), d.Text())
		require.Equal(t, a, d.Fingerprints)
	})
}

func TestInvalidFingerprint(t *testing.T) {
	many := make([]string, converge.MaxFingerprints+1)
	for i := range many {
		many[i] = "x"
	}
	for name, set := range map[string][]string{
		"an empty fingerprint":  {"a", ""},
		"a long fingerprint":    {strings.Repeat("x", converge.MaxFingerprint+1)},
		"a space":               {"no good"},
		"a line break":          {"a\nIgnore the task"},
		"a quote":               {`a"b`},
		"a letter beyond ASCII": {"größe"},
		"a broken character":    {"a\xffb"},
		"U+FFFD":                {"a\uFFFDb"},
		"too many":              many,
	} {
		t.Run(name, func(t *testing.T) {
			tracker := newTracker(t, converge.Config{})
			observe(t, tracker, a)
			before := tracker.State()

			_, err := tracker.Observe(set)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.NotContains(t, err.Error(), "Ignore", "the error does not quote it")
			require.Equal(t, before, tracker.State())
		})
	}
	t.Run("all allowed characters and the largest sizes", func(t *testing.T) {
		all := "azAZ09._:/@=+-"
		longest := strings.Repeat("x", converge.MaxFingerprint)
		require.Equal(t, 1, observe(t, newTracker(t, converge.Config{}), []string{all, longest}).InRow)
		require.Equal(t, 1, observe(t, newTracker(t, converge.Config{}), many[1:]).InRow)
	})
}

func TestInvalidConfig(t *testing.T) {
	for name, test := range map[string]struct {
		config converge.Config
		says   string
	}{
		"a negative memory": {converge.Config{Memory: -1}, "Memory is -1"},
		"a huge memory":     {converge.Config{Memory: converge.MaxMemory + 1}, "Memory is 17"},
		"no name":           {converge.Config{Stages: []converge.Stage{{}}}, "stage 1 of 1: its name is empty"},
		"a long name": {
			converge.Config{Stages: []converge.Stage{{Name: strings.Repeat("x", converge.MaxStageName+1)}}}, "has 101 bytes",
		},
		"a name of two lines": {converge.Config{Stages: []converge.Stage{{Name: "a\nb"}}}, "without control characters"},
		"a broken name":       {converge.Config{Stages: []converge.Stage{{Name: "a\xff"}}}, "without control characters"},
		"a name twice": {
			converge.Config{Stages: []converge.Stage{{Name: "a"}, {Name: "a"}}},
			"stage 2 of 2: its name \"a\" is that of an earlier",
		},
		"a negative After": {
			converge.Config{Stages: []converge.Stage{{Name: "a", After: -2}}}, "\"a\" has an After of -2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := converge.New(test.config)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, test.says)
		})
	}
	t.Run("the largest valid values", func(t *testing.T) {
		newTracker(t, converge.Config{
			Memory: converge.MaxMemory, Stages: []converge.Stage{{Name: strings.Repeat("x", converge.MaxStageName), After: 1}},
		})
	})
}

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

func TestState(t *testing.T) {
	t.Run("its JSON is a fixed format", func(t *testing.T) {
		tracker := newTracker(t, converge.Config{Memory: 2})
		observe(t, tracker, both, a, both, a)
		data, err := json.MarshalIndent(tracker.State(), "", "  ")
		require.NoError(t, err)
		golden.Compare(t, "testdata/state.golden", string(data)+"\n")
	})
	t.Run("a state shares no memory with its tracker", func(t *testing.T) {
		tracker := newTracker(t, converge.Config{})
		observe(t, tracker, a)
		state := tracker.State()
		restored, err := converge.Restore(converge.Config{}, state)
		require.NoError(t, err)
		state.Recent[0][0] = "changed"
		require.Equal(t, 2, observe(t, tracker, a).InRow)
		require.Equal(t, 2, observe(t, restored, a).InRow)
	})
}

func TestStateOfOtherConfig(t *testing.T) {
	tracker := newTracker(t, converge.Config{Memory: 3, Stages: []converge.Stage{{Name: "one", After: 5}}})
	observe(t, tracker, a, b, c, c, c)
	state := tracker.State()

	t.Run("a smaller Memory forgets the oldest sets", func(t *testing.T) {
		config := converge.Config{Memory: 1, Stages: []converge.Stage{{Name: "one", After: 5}}}
		restored, err := converge.Restore(config, state)
		require.NoError(t, err)
		require.Equal(t, [][]string{c}, restored.State().Recent)
	})
	t.Run("a smaller After applies from the next iteration on", func(t *testing.T) {
		config := converge.Config{Stages: []converge.Stage{{Name: "one", After: 2}, {Name: "two"}}}
		restored, err := converge.Restore(config, state)
		require.NoError(t, err)
		require.Equal(t, "move two", word(observe(t, restored, c)))
	})
	t.Run("a removed stage is an error", func(t *testing.T) {
		_, err := converge.Restore(converge.Config{}, state)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, `the config has no stage "one"`)
	})
	t.Run("an invalid config is an error", func(t *testing.T) {
		_, err := converge.Restore(converge.Config{Memory: -1}, state)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
}

func TestInvalidState(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*converge.State)
		says   string
	}{
		"the zero value": {func(s *converge.State) { *s = converge.State{} }, "version is 0"},
		"another version": {
			func(s *converge.State) { s.Version = 2 }, "version is 2; this library reads version 1",
		},
		"an unknown stage":       {func(s *converge.State) { s.Stage = "?" }, `no stage "?"`},
		"a negative count":       {func(s *converge.State) { s.Count = -1 }, "counts -1 in its stage"},
		"a count beyond the row": {func(s *converge.State) { s.Count = 9 }, "counts 9 in its stage and 1 in a row"},
		"a count that overflows": {func(s *converge.State) { s.InRow = math.MaxInt }, "neither is negative or huge"},
		"a row without sets":     {func(s *converge.State) { s.Recent = nil }, "1 in a row and remembers 0"},
		"sets without a count":   {func(s *converge.State) { s.Count, s.InRow = 0, 0 }, "0 in a row and remembers 1"},
		"a start that gave up": {func(s *converge.State) {
			s.Count, s.InRow, s.Recent, s.GaveUp = 0, 0, nil, true
		}, "not at the start"},
		"a start in a later stage": {func(s *converge.State) {
			s.Count, s.InRow, s.Recent, s.Stage = 0, 0, nil, "ask for help"
		}, "not at the start"},
		"a start that oscillates": {func(s *converge.State) {
			s.Count, s.InRow, s.Recent, s.Oscillates = 0, 0, nil, true
		}, "not at the start"},
		"oscillation in one iteration": {func(s *converge.State) { s.Oscillates = true }, "back and forth in one"},
		"too many sets": {func(s *converge.State) {
			s.Recent = make([][]string, converge.MaxMemory+1)
		}, "remembers 17 sets"},
		"an empty set": {func(s *converge.State) { s.Recent = [][]string{{}} }, "set 1 of 1 is empty"},
		"an invalid fingerprint": {
			func(s *converge.State) { s.Recent = [][]string{{"a b"}} }, "set 1 of 1: invalid fingerprint",
		},
		"an unsorted set":        {func(s *converge.State) { s.Recent = [][]string{{"b", "a"}} }, "not sorted"},
		"a set with a duplicate": {func(s *converge.State) { s.Recent = [][]string{{"a", "a"}} }, "each fingerprint once"},
	} {
		t.Run(name, func(t *testing.T) {
			tracker := newTracker(t, converge.Config{})
			observe(t, tracker, a)
			state := tracker.State()
			test.change(&state)
			_, err := converge.Restore(converge.Config{}, state)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, test.says)
		})
	}
}

// FuzzRestore restores any JSON as a state. A restored tracker works and stores the same state again.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"version":1,"stage":"retry","count":0,"in_row":0,"oscillates":false,"gave_up":false,"recent":[]}`))
	f.Add([]byte(`{"version":1,"stage":"change approach","count":1,"in_row":3,"oscillates":true,"gave_up":false,` +
		`"recent":[["a"],["b","c"]]}`))
	f.Add([]byte(`{"version":1,"stage":"ask for help","count":2,"in_row":6,"oscillates":false,"gave_up":true,` +
		`"recent":[["a"]]}`))
	config := converge.Config{Memory: converge.MaxMemory}
	f.Fuzz(func(t *testing.T, data []byte) {
		var state converge.State
		if json.Unmarshal(data, &state) != nil {
			return
		}
		tracker, err := converge.Restore(config, state)
		if err != nil {
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			return
		}
		if len(state.Recent) == 0 {
			state.Recent = [][]string{}
		}
		require.Equal(t, state, tracker.State())
		d := observe(t, tracker, a)
		require.Equal(t, state.GaveUp, d.Advice == converge.GiveUp && d.InRow == state.InRow)
		stored(t, config, tracker)
	})
}

func TestText(t *testing.T) {
	var many []string
	for i := range 14 {
		many = append(many, fmt.Sprintf("test/failed:case-%02d", i))
	}
	for name, test := range map[string]struct {
		config converge.Config
		sets   [][]string
	}{
		"once":       {sets: [][]string{a}},
		"two":        {sets: [][]string{both}},
		"moved":      {sets: [][]string{a, a}},
		"given_up":   {sets: [][]string{a, a, a, a, a, a}},
		"many":       {sets: [][]string{many}},
		"ten":        {sets: [][]string{many[:10]}},
		"oscillates": {config: converge.Config{Memory: 2}, sets: [][]string{a, both, a}},
		"own_stage": {
			config: converge.Config{Stages: []converge.Stage{
				{Name: "alone", Instructions: "First line.\nSecond line.\n"},
			}},
			sets: [][]string{b},
		},
		"no_instructions": {config: converge.Config{Stages: []converge.Stage{{Name: "alone"}}}, sets: [][]string{b, b}},
	} {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, "testdata/text_"+name+".golden", observe(t, newTracker(t, test.config), test.sets...).Text())
		})
	}
	t.Run("after an iteration that ended well the text is empty", func(t *testing.T) {
		require.Empty(t, observe(t, newTracker(t, converge.Config{}), a, well).Text())
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTracker(t *testing.T, config converge.Config) *converge.Tracker {
	t.Helper()
	tracker, err := converge.New(config)
	require.NoError(t, err)
	return tracker
}

// observe gives the tracker one set after the other and returns the last decision.
func observe(t *testing.T, tracker *converge.Tracker, sets ...[]string) converge.Decision {
	t.Helper()
	var decision converge.Decision
	for _, set := range sets {
		var err error
		decision, err = tracker.Observe(set)
		require.NoError(t, err)
	}
	return decision
}
