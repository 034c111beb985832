package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// looks reads a series: a letter is a digest, with + progressing, - stalled and ! terminal after it; ? is a blind look.
func looks(text string) []verdict.Look {
	var all []verdict.Look
	for word := range strings.FieldsSeq(text) {
		class := map[string]verdict.Class{
			"+": verdict.ClassProgressing, "-": verdict.ClassStalled, "!": verdict.ClassTerminal,
		}[word[1:]]
		all = append(all, verdict.Look{Class: class, Digest: word[:1], Blind: word == "?"})
	}
	return all
}

// spell writes a verdict: the counts, > for progress, the trip, * where it is the first.
func spell(v verdict.SeriesVerdict) string {
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
		looks  string
		want   string
	}{
		{"the third equal look of three trips, the first counted", three, "a a a", "1 2 3same*"},
		{"two are the least that can trip", verdict.SeriesLimits{Same: 2}, "a a", "1 2same*"},
		{"the first look ever is not progress", three, "a", "1"},
		{"another digest is progress and begins to count anew", three, "a a b b b", "1 2 1> 2 3same*"},
		{"a digest that comes back is another one too", three, "a b a", "1 1> 1>"},
		{"a class of stalled counts like no class", three, "a- a a-", "1 2 3same*"},
		{"a class of stalled does not trip by itself", three, "a- b- c-", "1 1> 1>"},
		{"a class of progressing is progress, also the first time", three, "a+", "0>"},
		{"a class of progressing puts the count to 0", three, "a a a+ a a a", "1 2 0> 1 2 3same*"},
		{"a change after a look that is progressing is progress", three, "a+ b", "0> 1>"},
		{"a class of terminal trips at once", three, "a a! ", "1 0end*"},
		{"a class of terminal is no progress though its digest changed", three, "a b!", "1 0end*"},
		{"a terminal state that is ignored is told once", three, "a! a! b!", "0end* 0end 0end"},
		{"a terminal state that comes back is told again", three, "a! b a!", "0end* 1> 0end*"},
		{"a terminal state lasts through a blind look", three, "a! ? a!", "0end* 0?1 0end"},
		{"a terminal look ends a series of equal ones", three, "a a a! a", "1 2 0end* 1"},
		{"no progress that is ignored is told once", three, "a a a a a", "1 2 3same* 4same 5same"},
		{"after progress it is told again", three, "a a a b b b", "1 2 3same* 1> 2 3same*"},
		{"after a blind look it is still the same, and was told", three, "a a a ? a a a", "1 2 3same* 0?1 1 2 3same"},
		{"after a look that is progressing it is told again", three, "a a a a+ a a a", "1 2 3same* 0> 1 2 3same*"},
		{"a blind look never counts as no change", three, "a a ? ? ?", "1 2 0?1 0?2 0?3"},
		{"a blind look breaks a series of equal ones", three, "a a ? a a a", "1 2 0?1 1 2 3same*"},
		{"a change is seen across a blind look", three, "a ? b", "1 0?1 1>"},
		{"the first look after blind ones is not progress", three, "? a", "0?1 1"},
		{"blind looks in a row trip as a stall", blind(verdict.TripNoProgress), "? ?", "0?1 0?2same/blind*"},
		{"blind looks in a row trip as terminal", blind(verdict.TripTerminal), "a ? ?", "1 0?1 0?2end/blind*"},
		{"a look that sees puts the blind ones to 0", blind(verdict.TripTerminal), "? a ? a! ?", "0?1 1 0?1 0end* 0?1"},
		{"blindness that is ignored is told once", blind(verdict.TripTerminal), "? ? ?", "0?1 0?2end/blind* 0?3end/blind"},
		{"blindness that comes back is told again", blind(verdict.TripNoProgress), "? ? a ? ?", "0?1 0?2same/blind* 1 0?1 0?2same/blind*"},
		{"one blind look can be enough", verdict.SeriesLimits{Same: 3, Blind: 1, OnBlind: verdict.TripTerminal}, "?", "0?1end/blind*"},
		{"blind looks mean nothing without a number", verdict.SeriesLimits{Same: 3, OnBlind: verdict.TripTerminal}, "? ?", "0?1 0?2"},
		{"blind looks mean nothing without a meaning", verdict.SeriesLimits{Same: 3, Blind: 1}, "? ?", "0?1 0?2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s verdict.Series
			var got []string
			for _, look := range looks(c.looks) {
				got = append(got, spell(s.Observe(c.limits, look)))
			}
			require.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

// A naiveSeries keeps every look, and answers each question by walking back through all of them.
type naiveSeries struct {
	limits verdict.SeriesLimits
	looks  []verdict.Look
}

func (n naiveSeries) judge() verdict.SeriesVerdict {
	v := verdict.SeriesVerdict{Progress: n.progress(), Equal: n.equal(), Blind: n.blind()}
	v.Trip, v.FromBlind = n.trip()
	v.First = v.Trip != "" && n.first(v.Trip, v.FromBlind)
	return v
}

func (n naiveSeries) last() verdict.Look { return n.looks[len(n.looks)-1] }

// before is the series without its last k looks.
func (n naiveSeries) before(k int) naiveSeries {
	return naiveSeries{n.limits, n.looks[:len(n.looks)-k]}
}

func (n naiveSeries) progress() bool {
	last := n.last()
	if last.Blind || last.Class == verdict.ClassTerminal {
		return false
	}
	if last.Class == verdict.ClassProgressing {
		return true
	}
	for earlier := n.before(1); len(earlier.looks) > 0; earlier = earlier.before(1) {
		if look := earlier.last(); !look.Blind {
			return look.Digest != last.Digest
		}
	}
	return false
}

func (n naiveSeries) equal() int {
	count := 0
	for rest := n; len(rest.looks) > 0; rest = rest.before(1) {
		look := rest.last()
		if look.Blind || look.Class == verdict.ClassProgressing || look.Class == verdict.ClassTerminal || look.Digest != n.last().Digest {
			break
		}
		count++
	}
	return count
}

func (n naiveSeries) blind() int {
	count := 0
	for rest := n; len(rest.looks) > 0 && rest.last().Blind; rest = rest.before(1) {
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

// first walks back to where the condition began: whether the same trip is met on the way.
func (n naiveSeries) first(trip verdict.Trip, blind bool) bool {
	for earlier := n.before(1); len(earlier.looks) > 0; earlier = earlier.before(1) {
		look := earlier.last()
		if t, b := earlier.trip(); t == trip && b == blind {
			return false
		}
		switch {
		case blind && !look.Blind,
			!blind && trip == verdict.TripTerminal && !look.Blind && look.Class != verdict.ClassTerminal,
			!blind && trip == verdict.TripNoProgress && earlier.progress():
			return true
		}
	}
	return true
}

func TestRandomSeriesAgreeWithTheNaiveModel(t *testing.T) {
	classes := []verdict.Class{"", "", "", "", verdict.ClassStalled, verdict.ClassStalled, verdict.ClassProgressing, verdict.ClassTerminal}
	tripped := map[string]int{}
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		slow := naiveSeries{limits: verdict.SeriesLimits{
			Same: 2 + rng.IntN(3), Blind: rng.IntN(4),
			OnBlind: []verdict.Trip{"", verdict.TripNoProgress, verdict.TripTerminal}[rng.IntN(3)],
		}}
		var fast verdict.Series
		for range 40 {
			look := verdict.Look{Digest: string(rune('a' + rng.IntN(2))), Class: classes[rng.IntN(len(classes))], Blind: rng.IntN(4) == 0}
			slow.looks = append(slow.looks, look)
			want := slow.judge()
			require.Equal(t, want, fast.Observe(slow.limits, look), "seed %d, %+v: %+v", seed, slow.limits, slow.looks)
			tripped[fmt.Sprint(want.Trip, want.FromBlind, want.First)]++
		}
	}
	require.Len(t, tripped, 9, "some kind of trip never came: %v", tripped)
}
