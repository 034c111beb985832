package converge

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// StateVersion is the version of the states that [Tracker.State] returns and [Restore] takes.
const StateVersion = 1

// A State is everything that a [Tracker] knows, as JSON that a host can store. It holds the stage by name, so stages
// can be added to a config. A changed After or Memory applies from the next iteration on.
type State struct {
	Version int    `json:"version"`
	Stage   string `json:"stage"`
	// Count is how many iterations counted in the stage. InRow is how many counted since the last new set.
	Count      int  `json:"count"`
	InRow      int  `json:"in_row"`
	Oscillates bool `json:"oscillates"`
	GaveUp     bool `json:"gave_up"`
	// Recent are the remembered sets, the newest last, each sorted.
	Recent [][]string `json:"recent"`
}

// State returns what the tracker knows. It shares no memory with the tracker.
func (t *Tracker) State() State {
	return State{
		Version: StateVersion, Stage: t.config.Stages[t.stage].Name, Count: t.count, InRow: t.inRow,
		Oscillates: t.oscillates, GaveUp: t.gaveUp, Recent: cloneSets(t.recent),
	}
}

// Restore returns a Tracker that continues from a stored state. It wraps [watchdog.ErrInvalid] if the config or the
// state is invalid, or if the config has no stage with the state's name. A host can then start again with [New].
func Restore(config Config, state State) (*Tracker, error) {
	t, err := New(config)
	if err != nil {
		return nil, err
	}
	if flaw := state.flaw(t.config); flaw != "" {
		return nil, fmt.Errorf("%w state: %s", watchdog.ErrInvalid, flaw)
	}
	t.stage, t.count, t.inRow = t.config.index(state.Stage), state.Count, state.InRow
	t.oscillates, t.gaveUp = state.Oscillates, state.GaveUp
	t.recent = cloneSets(state.Recent[max(len(state.Recent)-t.config.Memory, 0):])
	return t, nil
}

func (s State) flaw(config Config) string {
	switch {
	case s.Version != StateVersion:
		return fmt.Sprintf("its version is %d; this library reads version %d", s.Version, StateVersion)
	case config.index(s.Stage) < 0:
		return fmt.Sprintf("the config has no stage %q; give the stage its old name, or begin again with New", s.Stage)
	case len(s.Recent) > MaxMemory:
		return fmt.Sprintf("it remembers %d sets; at most %d are", len(s.Recent), MaxMemory)
	}
	if flaw := s.countsFlaw(config.Stages[0].Name); flaw != "" {
		return flaw
	}
	return setsFlaw(s.Recent)
}

func (s State) countsFlaw(first string) string {
	switch {
	case s.Count < 0 || s.InRow < s.Count || s.InRow > math.MaxInt32:
		return fmt.Sprintf("it counts %d in its stage and %d in a row; "+
			"neither is negative or huge, and the first is not more than the second", s.Count, s.InRow)
	case (s.InRow == 0) != (len(s.Recent) == 0):
		return fmt.Sprintf("it counts %d in a row and remembers %d sets; where one is 0 the other is", s.InRow, len(s.Recent))
	case s.InRow == 0 && (s.Oscillates || s.GaveUp || s.Stage != first):
		return "nothing was counted, but it is not at the start"
	case s.Oscillates && s.InRow < 2:
		return "it went back and forth in one iteration"
	}
	return ""
}

func setsFlaw(sets [][]string) string {
	for i, set := range sets {
		normal, err := normalise(set)
		switch {
		case err != nil:
			return fmt.Sprintf("set %d of %d: %v", i+1, len(sets), err)
		case len(set) == 0:
			return fmt.Sprintf("set %d of %d is empty; none is remembered that is", i+1, len(sets))
		case !slices.Equal(normal, set):
			return fmt.Sprintf("set %d of %d is not sorted, each fingerprint once", i+1, len(sets))
		}
	}
	return ""
}

// cloneSets returns a deep copy. The copy is never nil, so that its JSON is a list.
func cloneSets(sets [][]string) [][]string {
	clone := make([][]string, len(sets))
	for i, set := range sets {
		clone[i] = slices.Clone(set)
	}
	return clone
}
