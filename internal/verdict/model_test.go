package verdict_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

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
		signs.TakeOver(slow.holds[i].id, time.Duration(slow.holds[i].idle), at)
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
