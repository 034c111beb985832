package machine_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/racing"
)

var (
	histories = flag.Int("histories", racing.Rounds(3_000, 100_000), "how many histories of random sessions are tried")
	firstSeed = flag.Uint64("seed", 1, "that of the first history")
)

const historyActs = 250

// live lets a world live.
func live(w *world, acts int) *world {
	for range acts {
		if w.over() {
			break
		}
		w.act()
	}
	return w
}

// TestHistories checks what always holds of random sessions. See [world.checkStep] and [world.checkAct].
func TestHistories(t *testing.T) {
	steps, phases, depths, effects := 0, map[machine.Phase]int{}, map[int]int{}, map[machine.EffectKind]int{}
	var all mix
	for i := range *histories {
		w := live(newWorld(t, *firstSeed+uint64(i), true), historyActs) //nolint:gosec // not negative
		steps += w.steps
		all.add(w.mix)
		for _, r := range w.runs {
			phases[r.phase]++
			depths[r.depth]++
		}
		for _, h := range w.trail {
			effects[h.effect]++
		}
	}
	t.Logf("%d histories, %d steps, phases %v, depths %v, effects %v, %v %%",
		*histories, steps, phases, depths, effects, all.shares())
	for kind := range effectNames {
		if effects[machine.EffectKind(kind)] == 0 && *histories >= 1000 {
			t.Errorf("no history has the effect %q", effectNames[kind])
		}
	}
}

// TestSameHistory checks that the same inputs at the same instants have the same effects.
func TestSameHistory(t *testing.T) {
	for i := range *histories / 100 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			seed := *firstSeed + uint64(i) //nolint:gosec // not negative
			one, other := live(newWorld(t, seed, true), historyActs), live(newWorld(t, seed, true), historyActs)
			if !slices.Equal(one.trail, other.trail) {
				t.Errorf("seed %d has two histories:\n%v\n%v", seed, one.trail, other.trail)
			}
		})
	}
}
