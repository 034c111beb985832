package verdict_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// TestTakeSigns protects what is told of the attach and of signs of life.
func TestTakeSigns(t *testing.T) {
	limits, seen := verdict.Off(), verdict.Snapshot{Signs: &verdict.Signs{}}
	for kind, at := range map[verdict.SignalKind]time.Duration{
		verdict.SignalAttached: 2, verdict.SignalActivity: 4, verdict.SignalProgress: 3,
	} {
		seen.Take(&limits, verdict.Signal{Kind: kind, At: at})
	}
	got := [...]time.Duration{seen.Begun, seen.Signs.Activity, seen.Signs.Progress}
	require.Equal(t, [...]time.Duration{2, 4, 3}, got)
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

// A naiveRun is the rules as one would explain them. It walks through every tick of the run's life, with counters that
// go up by one each tick and are set back to zero.
type naiveRun struct {
	limits        verdict.Limits
	observed      bool // a cancel does not end it
	wall, safety  naiveStretch
	silence, lull naiveStretch // without activity, without progress
	signalled     bool
	holds         []*naiveHold
	cancelled     bool
	decisions     []string
}

type naiveHold struct {
	id    verdict.HoldID
	limit int
	idle  int // 0 for any
	age   naiveStretch
}

// A naiveStretch is measured in ticks. Trips are those of its ladder, and quiet says that it has had the last of them.
type naiveStretch struct {
	ticks, trips int
	quiet        bool
}

func (s *naiveStretch) end() { s.ticks, s.quiet = 0, false }

// tick lets one nanosecond pass.
func (r *naiveRun) tick() {
	r.wall.ticks++
	r.safety.ticks++
	r.silence.ticks++
	r.lull.ticks++
	for _, h := range r.holds {
		h.age.ticks++
	}
	if len(r.holds) > 0 || r.limits.FromFirstSign && !r.signalled {
		r.lull.ticks = 0
	}
}

// allowed is how long the run may be silent, and the hold that says so, if one does.
func (r *naiveRun) allowed() (ticks int, says *naiveHold) {
	switch {
	case len(r.holds) > 0:
		for _, h := range r.holds {
			if h.idle == 0 {
				return math.MaxInt, nil
			}
			if says == nil || h.idle > says.idle {
				says = h
			}
		}
		return says.idle, says
	case r.limits.FromFirstSign && !r.signalled:
		return int(r.limits.FirstSign), nil
	}
	return int(r.limits.Idle), nil
}

// decide checks the limits in their order. It is called at every tick, so no limit can have been exceeded before.
func (r *naiveRun) decide(now int) {
	if r.cancelled {
		return
	}
	r.climb(now, verdict.WallClock, &r.wall, int(r.limits.WallClock), nil, nil)
	r.climb(now, verdict.Safety, &r.safety, int(r.limits.Safety), nil, nil)
	for _, h := range r.holds {
		r.climb(now, verdict.Hold, &h.age, h.limit, r.limits.Ladders[verdict.Hold], h)
	}
	r.climb(now, verdict.NoProgress, &r.lull, int(r.limits.NoProgress), r.limits.Ladders[verdict.NoProgress], nil)
	idle, says := r.allowed()
	r.climb(now, verdict.Idle, &r.silence, idle, r.limits.Ladders[verdict.Idle], says)
}

// climb trips a limit with a ladder if it is exceeded, and sets its counter back.
func (r *naiveRun) climb(
	now int, limit verdict.Limit, s *naiveStretch, allowed int, ladder []verdict.Directive, says *naiveHold,
) {
	if s.ticks <= allowed || s.quiet || r.cancelled {
		return
	}
	r.trip(now, limit, ladder, s, says)
	s.ticks = 0
}

// trip takes the next rung of the ladder: a wait at its end comes again and again, once in each stretch, and after any
// other end comes the cancel.
func (r *naiveRun) trip(now int, limit verdict.Limit, ladder []verdict.Directive, s *naiveStretch, says *naiveHold) {
	if n := len(ladder); n == 0 || ladder[n-1] != verdict.DirectWait && ladder[n-1] != verdict.DirectCancel {
		ladder = append(slices.Clone(ladder), verdict.DirectCancel)
	}
	directive := ladder[min(s.trips, len(ladder)-1)]
	s.trips = min(s.trips+1, len(ladder))
	s.quiet = s.trips == len(ladder)
	r.cancelled = directive == verdict.DirectCancel && !r.observed
	var of verdict.HoldID
	if says != nil {
		of = says.id
	}
	r.decisions = append(r.decisions, fmt.Sprint(now, " ", limit, " ", directive, " ", s.trips, " ", of))
}

func (r *naiveRun) signal(progress bool) {
	r.signalled = true
	r.silence.end()
	if !progress {
		return
	}
	r.lull.end()
	r.silence.trips, r.lull.trips = 0, 0
	for _, h := range r.holds {
		h.age.trips = 0 // but one that has had its last trip has no other
	}
}

// TestJudgeModel checks that random histories of signals, holds and ladders give the same decisions as the naive model.
func TestJudgeModel(t *testing.T) {
	for seed := range racing.Rounds[uint64](500, 10_000) {
		rng := rand.New(rand.NewPCG(seed, 11))
		limits := randomLimits(rng)
		observed := rng.IntN(3) == 0
		slow := &naiveRun{limits: limits, observed: observed}
		fast := &fastRun{limits: limits, observed: observed, seen: verdict.Snapshot{Signs: &verdict.Signs{}}}
		var log []string
		for now := 1; now < 400 && !slow.cancelled; now++ {
			slow.tick()
			slow.decide(now)
			fast.decide(now)
			require.Equal(t, slow.decisions, fast.decisions, "seed %d, %+v: %v", seed, limits, log)
			if rng.IntN(8) == 0 && !slow.cancelled {
				log = append(log, fmt.Sprint(now, " ", step(rng, slow, fast, now)))
			}
		}
	}
}

func randomLimits(rng *rand.Rand) verdict.Limits {
	length := func(most int) time.Duration { return time.Duration(1 + rng.IntN(most)) }
	ladder := func() (l []verdict.Directive) {
		for range rng.IntN(4) {
			all := []verdict.Directive{verdict.DirectWait, verdict.DirectRetry, verdict.DirectUnstick}
			l = append(l, all[rng.IntN(len(all))])
		}
		if rng.IntN(6) == 0 {
			l = append(l, verdict.DirectCancel)
		}
		return l
	}
	return verdict.Limits{
		WallClock: length(500), Safety: length(500), Idle: length(40), NoProgress: length(90),
		FromFirstSign: rng.IntN(3) == 0, FirstSign: length(60),
		Ladders: verdict.Ladders{verdict.Idle: ladder(), verdict.NoProgress: ladder(), verdict.Hold: ladder()},
	}
}

// step applies one random event to both.
func step(rng *rand.Rand, slow *naiveRun, fast *fastRun, now int) string {
	signs, at := fast.seen.Signs, time.Duration(now)
	switch rng.IntN(5) {
	case 0, 1:
		slow.signal(false)
		signs.Signal(false, at)
		return "activity"
	case 2:
		slow.signal(true)
		signs.Signal(true, at)
		return "progress"
	case 3:
		h := &naiveHold{id: verdict.HoldID{Key: fmt.Sprint(rng.IntN(2)), Serial: now}, limit: 1 + rng.IntN(60)}
		limits := verdict.HoldLimits{Cap: time.Duration(h.limit)}
		if n := rng.IntN(6); n > 1 {
			h.idle = 1 + rng.IntN(20)
			limits.Idle = time.Duration(h.idle)
		} else if n > 0 {
			limits.Idle = verdict.Never
		}
		slow.holds = append(slow.holds, h)
		slow.silence.end()
		signs.Open(h.id, limits, at)
		return fmt.Sprintf("hold %+v", h)
	}
	if len(slow.holds) == 0 {
		return "nothing"
	}
	i := rng.IntN(len(slow.holds))
	slow.silence.end()
	slow.lull.ticks = 0
	if rng.IntN(3) == 0 {
		slow.holds[i].idle = rng.IntN(20)
		id := slow.holds[i].id
		slow.holds[i].id.Serial = now
		signs.TakeOver(id, slow.holds[i].id, time.Duration(slow.holds[i].idle), at)
		return "take over"
	}
	signs.Close(slow.holds[i].id, at)
	slow.holds = append(slow.holds[:i], slow.holds[i+1:]...)
	return "release"
}

// A fastRun asks verdict.Judge.
type fastRun struct {
	limits    verdict.Limits
	observed  bool
	cancelled bool
	seen      verdict.Snapshot
	decisions []string
}

func (r *fastRun) decide(now int) {
	for !r.cancelled {
		v := verdict.Judge(r.limits, r.seen, time.Duration(now))
		if v.Action == verdict.Continue {
			return
		}
		of := verdict.HoldID{Key: v.Hold, Serial: v.HoldSerial}
		r.decisions = append(r.decisions, fmt.Sprint(now, " ", v.Limit, " ", v.Directive, " ", v.Rung, " ", of))
		r.cancelled = v.Action == verdict.Cancel && !r.observed
		r.seen.Apply(v, time.Duration(now))
	}
}
