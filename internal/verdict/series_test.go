package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// parse reads a series. A letter is a digest, followed by + if progressing, - if stalled and ! if terminal. A ? is a
// blind observation.
func parse(text string) []verdict.Observation {
	var all []verdict.Observation
	for word := range strings.FieldsSeq(text) {
		class := map[string]verdict.Class{
			"+": verdict.ClassProgressing, "-": verdict.ClassStalled, "!": verdict.ClassTerminal,
		}[word[1:]]
		all = append(all, verdict.Observation{Class: class, Digest: word[:1], Blind: word == "?"})
	}
	return all
}

// format writes a verdict: the counts, > for progress, the trip, and * if it is the first.
func format(v verdict.SeriesVerdict) string {
	var b strings.Builder
	fmt.Fprint(&b, v.Equal)
	if v.Blind > 0 {
		fmt.Fprint(&b, "?", v.Blind)
	}
	if v.Progress {
		b.WriteString(">")
	}
	b.WriteString(map[verdict.Trip]string{verdict.TripNoProgress: "same", verdict.TripTerminal: "end"}[v.Trip])
	if v.FromBlind {
		b.WriteString("/blind")
	}
	if v.First {
		b.WriteString("*")
	}
	return b.String()
}

func TestSeries(t *testing.T) {
	three := verdict.SeriesLimits{Same: 3}
	blind := func(as verdict.Trip) verdict.SeriesLimits {
		return verdict.SeriesLimits{Same: 3, Blind: 2, OnBlind: as}
	}
	for _, c := range []struct {
		name   string
		limits verdict.SeriesLimits
		seen   string
		want   string
	}{
		{"the third equal observation trips", three, "a a a", "1 2 3same*"},
		{"two is the smallest limit", verdict.SeriesLimits{Same: 2}, "a a", "1 2same*"},
		{"the very first observation is not progress", three, "a", "1"},
		{"another digest is progress and resets the count", three, "a a b b b", "1 2 1> 2 3same*"},
		{"a digest that comes back is progress too", three, "a b a", "1 1> 1>"},
		{"the class stalled counts like no class", three, "a- a a-", "1 2 3same*"},
		{"the class stalled does not trip by itself", three, "a- b- c-", "1 1> 1>"},
		{"the class progressing is progress, even the first time", three, "a+", "0>"},
		{"the class progressing sets the count to 0", three, "a a a+ a a a", "1 2 0> 1 2 3same*"},
		{"a change after a progressing observation is progress", three, "a+ b", "0> 1>"},
		{"the class terminal trips at once", three, "a a! ", "1 0end*"},
		{"the class terminal is no progress even if the digest changed", three, "a b!", "1 0end*"},
		{"a terminal state that is ignored is reported once", three, "a! a! b!", "0end* 0end 0end"},
		{"a terminal state that comes back is reported again", three, "a! b a!", "0end* 1> 0end*"},
		{"a terminal state lasts through a blind observation", three, "a! ? a!", "0end* 0?1 0end"},
		{"a terminal observation ends a series of equal ones", three, "a a a! a", "1 2 0end* 1"},
		{"no progress that is ignored is reported once", three, "a a a a a", "1 2 3same* 4same 5same"},
		{"no progress is reported again after progress", three, "a a a b b b", "1 2 3same* 1> 2 3same*"},
		{"no progress is not reported again after a blind observation", three, "a a a ? a a a", "1 2 3same* 0?1 1 2 3same"},
		{"no progress is reported again after a progressing one", three, "a a a a+ a a a", "1 2 3same* 0> 1 2 3same*"},
		{"a blind observation never counts as equal", three, "a a ? ? ?", "1 2 0?1 0?2 0?3"},
		{"a blind observation ends a series of equal ones", three, "a a ? a a a", "1 2 0?1 1 2 3same*"},
		{"a change is seen across a blind observation", three, "a ? b", "1 0?1 1>"},
		{"the first observation after blind ones is not progress", three, "? a", "0?1 1"},
		{"blind observations in a row can trip as no progress", blind(verdict.TripNoProgress), "? ?", "0?1 0?2same/blind*"},
		{"blind observations in a row can trip as terminal", blind(verdict.TripTerminal), "a ? ?", "1 0?1 0?2end/blind*"},
		{"any other observation sets the blind count to 0", blind(verdict.TripTerminal), "? a ? a! ?", "0?1 1 0?1 0end* 0?1"},
		{"ignored blindness is reported once", blind(verdict.TripTerminal), "? ? ?", "0?1 0?2end/blind* 0?3end/blind"},
		{
			"blindness that comes back is reported again", blind(verdict.TripNoProgress),
			"? ? a ? ?", "0?1 0?2same/blind* 1 0?1 0?2same/blind*",
		},
		{
			"one blind observation can trip", verdict.SeriesLimits{Same: 3, Blind: 1, OnBlind: verdict.TripTerminal},
			"?", "0?1end/blind*",
		},
		{
			"blind observations never trip with Blind 0", verdict.SeriesLimits{Same: 3, OnBlind: verdict.TripTerminal},
			"? ?", "0?1 0?2",
		},
		{"blind observations never trip without OnBlind", verdict.SeriesLimits{Same: 3, Blind: 1}, "? ?", "0?1 0?2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s verdict.Series
			var got []string
			for _, seen := range parse(c.seen) {
				got = append(got, format(s.Observe(c.limits, seen)))
			}
			require.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

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
