package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A naiveSeries keeps every observation, and walks back through all of them for each answer.
type naiveSeries struct {
	limits verdict.SeriesLimits
	seen   []verdict.Observation
}

func (n naiveSeries) judge() verdict.SeriesVerdict {
	v := verdict.SeriesVerdict{Progress: n.progress(), Equal: n.equal(), Blind: n.blind()}
	v.Trip, v.FromBlind = n.trip()
	v.First = v.Trip != "" && n.first(v.Trip, v.FromBlind)
	return v
}

func (n naiveSeries) last() verdict.Observation { return n.seen[len(n.seen)-1] }

// before returns the series without its last k observations.
func (n naiveSeries) before(k int) naiveSeries {
	return naiveSeries{n.limits, n.seen[:len(n.seen)-k]}
}

func (n naiveSeries) progress() bool {
	last := n.last()
	if last.Blind || last.Class == verdict.ClassTerminal {
		return false
	}
	if last.Class == verdict.ClassProgressing {
		return true
	}
	for earlier := n.before(1); len(earlier.seen) > 0; earlier = earlier.before(1) {
		if seen := earlier.last(); !seen.Blind {
			return seen.Digest != last.Digest
		}
	}
	return false
}

func (n naiveSeries) equal() int {
	count := 0
	for rest := n; len(rest.seen) > 0; rest = rest.before(1) {
		seen := rest.last()
		ends := seen.Blind || seen.Class == verdict.ClassProgressing || seen.Class == verdict.ClassTerminal
		if ends || seen.Digest != n.last().Digest {
			break
		}
		count++
	}
	return count
}

func (n naiveSeries) blind() int {
	count := 0
	for rest := n; len(rest.seen) > 0 && rest.last().Blind; rest = rest.before(1) {
		count++
	}
	return count
}

func (n naiveSeries) trip() (trip verdict.Trip, blind bool) {
	switch {
	case n.last().Blind:
		if n.limits.Blind > 0 && n.limits.OnBlind != "" && n.blind() >= n.limits.Blind {
			return n.limits.OnBlind, true
		}
	case n.last().Class == verdict.ClassTerminal:
		return verdict.TripTerminal, false
	case n.equal() >= n.limits.Same:
		return verdict.TripNoProgress, false
	}
	return "", false
}

// first walks back to where the condition began, and reports whether there was no such trip on the way.
func (n naiveSeries) first(trip verdict.Trip, blind bool) bool {
	for earlier := n.before(1); len(earlier.seen) > 0; earlier = earlier.before(1) {
		seen := earlier.last()
		if t, b := earlier.trip(); t == trip && b == blind {
			return false
		}
		switch {
		case blind && !seen.Blind,
			!blind && trip == verdict.TripTerminal && !seen.Blind && seen.Class != verdict.ClassTerminal,
			!blind && trip == verdict.TripNoProgress && earlier.progress():
			return true
		}
	}
	return true
}

// TestSeriesModel checks that random series give the same verdicts as the naive model.
func TestSeriesModel(t *testing.T) {
	classes := []verdict.Class{
		"", "", "", "", verdict.ClassStalled, verdict.ClassStalled, verdict.ClassProgressing, verdict.ClassTerminal,
	}
	tripped := map[string]int{}
	for seed := range racing.Rounds[uint64](500, 20_000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		slow := naiveSeries{limits: verdict.SeriesLimits{
			Same: 2 + rng.IntN(3), Blind: rng.IntN(4),
			OnBlind: []verdict.Trip{"", verdict.TripNoProgress, verdict.TripTerminal}[rng.IntN(3)],
		}}
		var fast verdict.Series
		for range 40 {
			seen := verdict.Observation{
				Digest: string(rune('a' + rng.IntN(2))), Class: classes[rng.IntN(len(classes))], Blind: rng.IntN(4) == 0,
			}
			slow.seen = append(slow.seen, seen)
			want := slow.judge()
			require.Equal(t, want, fast.Observe(slow.limits, seen), "seed %d, %+v: %+v", seed, slow.limits, slow.seen)
			tripped[fmt.Sprint(want.Trip, want.FromBlind, want.First)]++
		}
	}
	require.Len(t, tripped, 9, "some kind of trip never happened: %v", tripped)
}
