package converge_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/converge"
	"github.com/seed62658d38/watchdog/internal/golden"
)

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
