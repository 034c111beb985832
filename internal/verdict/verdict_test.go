package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hour = time.Hour

// others switches off the limits that a case does not set.
func others(l verdict.Limits) verdict.Limits {
	for _, limit := range []*time.Duration{&l.WallClock, &l.Safety, &l.Idle, &l.NoProgress, &l.FirstSign} {
		if *limit == 0 {
			*limit = verdict.Never
		}
	}
	return l
}

func TestJudge(t *testing.T) {
	eighty := []float64{0.8}
	hourly, warned := verdict.Limits{WallClock: hour}, verdict.Limits{WallClock: 10 * hour, WarnAt: eighty}
	longest, off := verdict.Limits{WallClock: verdict.Never - 1}, verdict.Limits{WallClock: verdict.Never, WarnAt: eighty}
	extended := func(by time.Duration) verdict.Snapshot { return verdict.Snapshot{Extended: by} }
	cancel := func(used time.Duration) verdict.Verdict {
		return verdict.Verdict{
			Action: verdict.Cancel, Limit: verdict.WallClock, Used: used, Allowed: hour,
			Directive: verdict.DirectCancel, Rung: 1, Last: true, Next: verdict.Never,
		}
	}
	warning := verdict.Verdict{
		Action: verdict.Warn, Limit: verdict.WallClock, Used: 8 * hour, Allowed: 10 * hour, Fraction: 0.8, Next: 8 * hour,
	}
	next := func(at time.Duration) verdict.Verdict { return verdict.Verdict{Next: at} }
	for name, c := range map[string]struct {
		limits verdict.Limits
		seen   verdict.Snapshot
		now    time.Duration
		want   verdict.Verdict
	}{
		"the next look at a fresh run is its first warning": {warned, extended(0), 0, next(8 * hour)},
		"a warning is due when its fraction is reached":     {warned, extended(0), 8 * hour, warning},
		"after it the next look is past the limit":          {warned, verdict.Snapshot{Warned: 1}, 8 * hour, next(10*hour + 1)},
		"at the limit a run has not exceeded it":            {hourly, extended(0), hour, next(hour + 1)},
		"one nanosecond later it has":                       {hourly, extended(0), hour + 1, cancel(hour + 1)},
		"a run past its limit gets no warning": {
			verdict.Limits{WallClock: hour, WarnAt: eighty}, extended(0), 2 * hour, cancel(2 * hour),
		},
		"an extension moves the limit and the warnings":        {warned, extended(10 * hour), 11 * hour, next(16 * hour)},
		"a limit that is off is not exceeded, nor warned of":   {off, extended(hour), verdict.Never - 1, next(verdict.Never)},
		"an extension too long for a Duration switches it off": {longest, extended(2), verdict.Never - 1, next(verdict.Never)},
	} {
		require.Equal(t, c.want, verdict.Judge(others(c.limits), c.seen, c.now), name)
	}
}

func TestMonotonicClock(t *testing.T) {
	m := verdict.NewMonotonicClock(hour, 0)
	require.Equal(t, 2*hour, m.Read(hour))
	require.Equal(t, 2*hour, m.Read(-5*hour), "a step back counts as no time")
	require.Equal(t, 3*hour, m.Read(-4*hour), "time goes on from there")
	early := verdict.NewMonotonicClock(-hour, 0)
	require.Zero(t, early.Read(0))
}

func TestUntil(t *testing.T) {
	require.Equal(t, 2*hour, verdict.Until(3*hour, hour))
	require.Equal(t, verdict.Never, verdict.Until(verdict.Never, hour))
}

// TestTakeSigns protects what a trace tells of the attach and of signs of life.
func TestTakeSigns(t *testing.T) {
	limits, seen := verdict.Off(), verdict.Snapshot{Signs: &verdict.Signs{}}
	for kind, at := range map[verdict.SignalKind]time.Duration{
		verdict.SignalAttach: 1, verdict.SignalAttached: 2, verdict.SignalActivity: 4, verdict.SignalProgress: 3,
	} {
		seen.Take(&limits, verdict.Signal{Kind: kind, At: at})
	}
	got := [...]time.Duration{seen.Attached, seen.Begun, seen.Signs.Activity, seen.Signs.Progress}
	require.Equal(t, [...]time.Duration{1, 2, 4, 3}, got)
}

func TestRungAtStart(t *testing.T) {
	limits := others(verdict.Limits{
		Idle: 10, Ladders: verdict.Ladders{verdict.Idle: []verdict.Directive{verdict.DirectWait, verdict.DirectRetry}},
	})
	seen := verdict.Snapshot{Signs: &verdict.Signs{OnIdle: verdict.Rung{Attempts: 1}}}
	require.Equal(t, 2, verdict.Judge(limits, seen, 11).Rung, "a rung at the window's start counts while there is no progress")
	seen.Signs.Signal(true, 0)
	require.Equal(t, 1, verdict.Judge(limits, seen, 11).Rung, "progress at that instant puts the ladder back")
}

func TestHeldOn(t *testing.T) {
	for _, c := range []struct {
		ladder []verdict.Directive
		rung   int
		trips  bool
	}{
		{nil, 0, true},
		{[]verdict.Directive{verdict.DirectWait}, 0, true},
		{[]verdict.Directive{verdict.DirectWait}, 1, false},
		{[]verdict.Directive{verdict.DirectRetry, verdict.DirectWait}, 1, true},
		{[]verdict.Directive{verdict.DirectRetry, verdict.DirectWait}, 2, false},
		{[]verdict.Directive{verdict.DirectRetry}, 1, true},
		{nil, 2, true}, // the ladder was longer
	} {
		limits := others(verdict.Limits{Ladders: verdict.Ladders{verdict.Hold: c.ladder}})
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		seen.Take(&limits, verdict.Signal{Kind: verdict.SignalHeld, Key: "tool", At: 50, Length: 10, Rung: c.rung})
		require.Equal(t, c.trips, verdict.Judge(limits, seen, 50).Limit == verdict.Hold, "%v on rung %d", c.ladder, c.rung)
	}
}

func TestClockStep(t *testing.T) {
	const s, hour = time.Second, time.Hour
	type reading = verdict.ClockReading
	for name, c := range map[string]struct {
		before, after reading
		want          time.Duration
	}{
		"it goes on":                          {reading{0, 0, 0}, reading{hour, hour, hour}, 0},
		"it is set forward":                   {reading{0, 0, 0}, reading{10 * s, 10 * s, hour}, hour - 10*s},
		"it is set back":                      {reading{0, 0, 0}, reading{10 * s, 10 * s, -hour}, -hour - 10*s},
		"five seconds and the drift are none": {reading{0, 0, 0}, reading{1000 * s, 1000 * s, 1006 * s}, 0},
		"a nanosecond more is one":            {reading{0, 0, 0}, reading{1000 * s, 1000 * s, 1006*s + 1}, 6*s + 1},
		"five seconds back are none":          {reading{0, 0, 0}, reading{1000 * s, 1000 * s, 994 * s}, 0},
		"a nanosecond more back is one":       {reading{0, 0, 0}, reading{1000 * s, 1000 * s, 994*s - 1}, -6*s - 1},
		"a slow first answer is none":         {reading{0, 60 * s, 60 * s}, reading{61 * s, 61 * s, 61 * s}, 0},
		"it is set long after the start":      {reading{hour, hour, hour}, reading{hour + s, hour + s, 2 * hour}, hour - s},
		"shown early in it, neither":          {reading{0, 60 * s, 0}, reading{61 * s, 61 * s, 61 * s}, 0},
		"a slow second answer is none":        {reading{0, 0, 0}, reading{0, 60 * s, 60 * s}, 0},
		"shown early in that, neither":        {reading{0, 0, 0}, reading{0, 60 * s, 0}, 0},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, verdict.ClockStep(c.before, c.after)) })
	}
}

func TestAllowedSilence(t *testing.T) {
	const never, wait, retry, end = verdict.Never, verdict.DirectWait, verdict.DirectRetry, verdict.DirectCancel
	asks := func(all ...verdict.Directive) verdict.Ladders { return verdict.Ladders{verdict.Idle: all} }
	for name, c := range map[string]struct {
		limits verdict.Limits
		want   time.Duration
	}{
		"no limit":                   {verdict.Limits{Idle: never, NoProgress: never}, 0},
		"idle":                       {verdict.Limits{Idle: 20, NoProgress: never}, 21},
		"no progress":                {verdict.Limits{Idle: never, NoProgress: 30}, 31},
		"the longer one":             {verdict.Limits{Idle: 20, NoProgress: 30}, 31},
		"two rungs and the cancel":   {verdict.Limits{Idle: 20, NoProgress: 30, Ladders: asks(retry, retry)}, 63},
		"a cancel that is written":   {verdict.Limits{Idle: 20, NoProgress: never, Ladders: asks(wait, end)}, 42},
		"a ladder that never ends":   {verdict.Limits{Idle: 20, NoProgress: never, Ladders: asks(retry, wait)}, never},
		"another limit that ends it": {verdict.Limits{Idle: 20, NoProgress: 30, Ladders: asks(wait)}, 31},
		"a ladder without a limit":   {verdict.Limits{Idle: never, NoProgress: never, Ladders: asks(wait)}, 0},
		"too long":                   {verdict.Limits{Idle: never / 2, NoProgress: never, Ladders: asks(retry, retry)}, never},
		"a longer wait for a first sign": {
			verdict.Limits{Idle: 20, NoProgress: never, FromFirstSign: true, FirstSign: 40}, 41,
		},
		"no limit of the wait for a first sign": {
			verdict.Limits{Idle: 20, NoProgress: never, FromFirstSign: true, FirstSign: never}, 21,
		},
	} {
		require.Equal(t, c.want, verdict.AllowedSilence(&c.limits, 1), name)
	}
}

func TestSessionThreshold(t *testing.T) {
	for _, c := range []struct{ own, swept, allowance, want time.Duration }{
		{0, 5, 0, 5}, {3, 5, 0, 3}, {8, 5, 0, 8}, {0, 5, 20, 20}, {0, 5, 2, 5}, {9, 5, 20, 20}, {verdict.Never, 5, 0, verdict.Never},
	} {
		require.Equal(t, c.want, verdict.SessionThreshold(c.own, c.swept, c.allowance), "%+v", c)
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
