package machine_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// An entry of the model is when a run is due.
type entry struct {
	run int
	at  time.Duration
}

// A model is a queue as a sorted slice.
type model []entry

func (m *model) remove(run int) {
	*m = slices.DeleteFunc(*m, func(e entry) bool { return e.run == run })
}

func (m *model) set(run int, at time.Duration) {
	m.remove(run)
	*m = append(*m, entry{run, at})
	slices.SortFunc(*m, func(a, b entry) int { return int(a.at - b.at) })
}

func (m *model) first() time.Duration {
	if len(*m) == 0 {
		return verdict.Never
	}
	return (*m)[0].at
}

// TestQueue checks the queue against a sorted slice.
func TestQueue(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		runs := rng.IntN(40) + 1
		line, m := machine.NewLine(runs), model{}
		for range 300 {
			run, at := rng.IntN(runs), time.Duration(rng.IntN(30))
			switch rng.IntN(4) {
			case 0:
				line.Remove(run)
				m.remove(run)
			case 1:
				took := line.Take(at)
				require.Equal(t, m.first() <= at, took >= 0, "seed %d", seed)
				if took >= 0 { // of those that are due at one instant it may be any
					require.Contains(t, m, entry{took, m.first()}, "seed %d", seed)
					m.remove(took)
				}
			default:
				line.Set(run, at)
				m.set(run, at)
			}
			require.Equal(t, m.first(), line.First(), "seed %d", seed)
			require.Equal(t, len(m), line.Kept(), "seed %d", seed)
		}
	}
}
