package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A naiveRun is the rules as one would explain them. It walks through every tick of the run's life, with counters that
// go up by one each tick and are set back to zero.
type naiveRun struct {
	limits                verdict.Limits
	wall, safety          int
	silent, stuck         int // ticks without activity, without progress
	signalled             bool
	holds                 []*naiveHold
	idleTrips, stuckTrips int
	cancelled             bool
	decisions             []string
}

type naiveHold struct {
	id                verdict.HoldID
	limit, age, trips int
}

// tick lets one nanosecond pass.
func (r *naiveRun) tick() {
	r.wall++
	r.safety++
	r.silent++
	r.stuck++
	for _, h := range r.holds {
		h.age++
	}
	if len(r.holds) > 0 || r.limits.FromFirstSign && !r.signalled {
		r.stuck = 0
	}
	if len(r.holds) > 0 {
		r.silent = 0
	}
}

// decide checks the limits in their order. It is called at every tick, so no limit can have been exceeded before.
func (r *naiveRun) decide(now int) {
	if r.cancelled {
		return
	}
	idle := r.limits.Idle
	if r.limits.FromFirstSign && !r.signalled {
		idle = r.limits.FirstSign
	}
	switch {
	case r.wall > int(r.limits.WallClock):
		r.trip(now, verdict.WallClock, nil, nil)
	case r.safety > int(r.limits.Safety):
		r.trip(now, verdict.Safety, nil, nil)
	default:
		for _, h := range r.holds {
			r.climb(now, verdict.Hold, &h.age, h.limit, r.limits.Ladders.Hold, &h.trips)
		}
		r.climb(now, verdict.NoProgress, &r.stuck, int(r.limits.NoProgress), r.limits.Ladders.NoProgress, &r.stuckTrips)
		r.climb(now, verdict.Idle, &r.silent, int(idle), r.limits.Ladders.Idle, &r.idleTrips)
	}
}

// climb trips a limit with a ladder if it is exceeded, and sets its counter back.
func (r *naiveRun) climb(now int, limit verdict.Limit, used *int, allowed int, ladder []verdict.Directive, trips *int) {
	if *used <= allowed || r.cancelled {
		return
	}
	r.trip(now, limit, ladder, trips)
	*used = 0
}

func (r *naiveRun) trip(now int, limit verdict.Limit, ladder []verdict.Directive, trips *int) {
	directive, attempt := verdict.DirectCancel, 1
	if trips != nil {
		if *trips < len(ladder) {
			directive = ladder[*trips]
		}
		*trips++
		attempt = *trips
	}
	r.cancelled = directive == verdict.DirectCancel
	r.decisions = append(r.decisions, fmt.Sprint(now, " ", limit, " ", directive, " ", attempt))
}

func (r *naiveRun) signal(progress bool) {
	r.signalled, r.silent = true, 0
	if !progress {
		return
	}
	r.stuck, r.idleTrips, r.stuckTrips = 0, 0, 0
	for _, h := range r.holds {
		h.trips = 0
	}
}

// TestJudgeModel checks that random histories of signals, holds and ladders give the same decisions as the naive model.
func TestJudgeModel(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 11))
		limits := randomLimits(rng)
		slow := &naiveRun{limits: limits}
		fast := &fastRun{limits: limits, seen: verdict.Snapshot{Signs: &verdict.Signs{}}}
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
	ladder := func() []verdict.Directive {
		return []verdict.Directive{verdict.DirectWait, verdict.DirectRetry, verdict.DirectUnstick}[:rng.IntN(4)]
	}
	return verdict.Limits{
		WallClock: length(500), Safety: length(500), Idle: length(40), NoProgress: length(90),
		FromFirstSign: rng.IntN(3) == 0, FirstSign: length(60),
		Ladders: &verdict.Ladders{Idle: ladder(), NoProgress: ladder(), Hold: ladder()},
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
		h := &naiveHold{id: verdict.HoldID{Key: fmt.Sprint(rng.IntN(2)), Serial: now}, limit: 1 + rng.IntN(30)}
		slow.holds = append(slow.holds, h)
		signs.Open(h.id, time.Duration(h.limit), at)
		return "hold"
	}
	if len(slow.holds) == 0 {
		return "nothing"
	}
	i := rng.IntN(len(slow.holds))
	signs.Close(slow.holds[i].id, at)
	slow.holds = append(slow.holds[:i], slow.holds[i+1:]...)
	slow.silent, slow.stuck = 0, 0
	return "release"
}

// A fastRun asks verdict.Judge.
type fastRun struct {
	limits    verdict.Limits
	seen      verdict.Snapshot
	decisions []string
}

func (r *fastRun) decide(now int) {
	for {
		v := verdict.Judge(r.limits, r.seen, time.Duration(now))
		if v.Action == verdict.Continue || len(r.decisions) > 0 && v.Action == verdict.Cancel && r.cancelled() {
			return
		}
		r.decisions = append(r.decisions, fmt.Sprint(now, " ", v.Limit, " ", v.Directive, " ", v.Rung))
		if v.Action == verdict.Cancel {
			return
		}
		r.seen.Apply(v, time.Duration(now))
	}
}

func (r *fastRun) cancelled() bool {
	last := r.decisions[len(r.decisions)-1]
	return len(last) > 8 && last[len(last)-8:len(last)-2] == string(verdict.DirectCancel)
}
