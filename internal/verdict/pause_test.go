package verdict_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A pausedRun counts the ticks that its wall clock runs.
type pausedRun struct {
	limits         verdict.Limits
	extended       int
	worked, warned int
	wrapped, ended bool
	pauses         []verdict.Pause
	decisions      []string
}

func (r *pausedRun) tick(now int) {
	for _, p := range r.pauses {
		end := p.Opened + p.Cap
		if p.Closed {
			end = min(end, p.Released)
		}
		if tick := time.Duration(now - 1); p.Opened <= tick && tick < end {
			return
		}
	}
	r.worked++
}

func (r *pausedRun) decide(now int) {
	allowed := int(r.limits.WallClock) + r.extended
	for r.worked <= allowed {
		warn, wrap := allowed+1, allowed+1 // when they are due
		if r.warned < len(r.limits.WarnAt) {
			warn = int(r.limits.WarnAt[r.warned] * float64(allowed))
		}
		if r.limits.Reserve > 0 && !r.wrapped {
			wrap = max(allowed-int(r.limits.Reserve), 0)
		}
		if r.worked < min(warn, wrap) {
			return
		}
		if wrap < warn {
			r.wrapped = true
			r.decisions = append(r.decisions, fmt.Sprint(now, " wrap up"))
			continue
		}
		r.decisions = append(r.decisions, fmt.Sprint(now, " warn ", r.warned))
		r.warned++
	}
	r.ended = true
	r.decisions = append(r.decisions, fmt.Sprint(now, " cancel ", r.worked))
}

// TestPauseModel checks the wall clock under random pauses, extensions, warnings and reserves against ticks that are
// counted, looking only when the verdict says so.
func TestPauseModel(t *testing.T) {
	for seed := range racing.Rounds[uint64](400, 10_000) {
		rng := rand.New(rand.NewPCG(seed, 12))
		limits := verdict.Limits{
			WallClock: time.Duration(20 + rng.IntN(60)), Reserve: time.Duration(rng.IntN(20)),
			WarnAt: []float64{0.25, 0.5, 0.75}[:rng.IntN(4)],
			Safety: verdict.Never, Idle: verdict.Never, NoProgress: verdict.Never, FirstSign: verdict.Never,
		}
		slow := &pausedRun{limits: limits}
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		fast := &pausedFast{limits: limits, seen: &seen}
		for now := 0; now < 400 && !slow.ended; now++ {
			if now > 0 {
				slow.tick(now)
			}
			slow.decide(now)
			fast.decide(now)
			require.Equal(t, slow.decisions, fast.decisions, "seed %d: %+v", seed, limits)
			require.Equal(t, slow.worked, now-int(verdict.Paused(seen, time.Duration(now))), "seed %d", seed)
			if !slow.ended {
				left := max(int(limits.WallClock)+slow.extended-slow.worked, 0)
				if left > int(limits.Reserve) {
					left -= int(limits.Reserve)
				}
				require.EqualValues(t, left, verdict.Remaining(limits, seen, time.Duration(now)), "seed %d", seed)
			}
			if rng.IntN(6) == 0 {
				pauseStep(rng, slow, &seen, now)
				fast.next = 0
			}
		}
	}
}

// A pausedFast asks verdict.Judge, and only when the last answer can have changed.
type pausedFast struct {
	limits    verdict.Limits
	seen      *verdict.Snapshot
	next      time.Duration
	decisions []string
}

func (r *pausedFast) decide(now int) {
	for at := time.Duration(now); at >= r.next; {
		v := verdict.Judge(r.limits, *r.seen, at)
		switch r.next = v.Next; {
		case v.Action == verdict.Continue:
			return
		case v.Action == verdict.Cancel:
			r.decisions = append(r.decisions, fmt.Sprint(now, " cancel ", int(v.Used)))
			return
		case v.Action == verdict.Warn:
			r.decisions = append(r.decisions, fmt.Sprint(now, " warn ", r.seen.Warned))
		default:
			r.decisions = append(r.decisions, fmt.Sprint(now, " wrap up"))
		}
		r.seen.Apply(v, at)
	}
}

func pauseStep(rng *rand.Rand, slow *pausedRun, seen *verdict.Snapshot, now int) {
	at := time.Duration(now)
	switch i := rng.IntN(4); {
	case i == 0:
		seen.Take(&verdict.Limits{}, verdict.Signal{Kind: verdict.SignalExtend, At: at, Length: 7})
		slow.extended, slow.warned, slow.wrapped = slow.extended+7, 0, false
	case i < 3 || len(slow.pauses) == 0:
		p := verdict.Pause{ID: strconv.Itoa(now), Opened: at, Cap: time.Duration(rng.IntN(30))}
		slow.pauses = append(slow.pauses, p)
		seen.Take(&verdict.Limits{}, verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
	default:
		p := &slow.pauses[rng.IntN(len(slow.pauses))]
		if p.Closed {
			return
		}
		p.Closed, p.Released = true, at
		seen.Take(&verdict.Limits{}, verdict.Signal{Kind: verdict.SignalUnpause, Key: p.ID, From: at})
	}
}

// naivePauses are pauses whose union is made anew at each question.
type naivePauses []verdict.Pause

func (p *naivePauses) set(pause verdict.Pause) bool {
	for i := range *p {
		known := &(*p)[i]
		switch {
		case known.ID != pause.ID:
			continue
		case !pause.Closed || known.Closed && known.Released == pause.Released:
			return false
		}
		known.Closed, known.Released = true, pause.Released
		return true
	}
	*p = append(*p, pause)
	return true
}

// union is the stretches that the wall clock does not count, sorted, apart.
func (p naivePauses) union() (merged [][2]time.Duration) {
	for _, pause := range slices.SortedFunc(slices.Values(p), func(a, b verdict.Pause) int {
		return cmp.Compare(a.Opened, b.Opened)
	}) {
		end := verdict.Sum(pause.Opened, pause.Cap)
		if pause.Closed {
			end = min(end, pause.Released)
		}
		last := len(merged) - 1
		switch {
		case end <= pause.Opened:
		case last >= 0 && pause.Opened <= merged[last][1]:
			merged[last][1] = max(merged[last][1], end)
		default:
			merged = append(merged, [2]time.Duration{pause.Opened, end})
		}
	}
	return merged
}

func (p naivePauses) before(now time.Duration) (paused time.Duration) {
	for _, stretch := range p.union() {
		paused += max(min(stretch[1], now)-stretch[0], 0)
	}
	return paused
}

func (p naivePauses) after(now time.Duration) (longer time.Duration) {
	for _, stretch := range p.union() {
		if stretch[0] <= now && now < stretch[1] {
			longer = stretch[1] - now
		}
	}
	return longer
}

func (p naivePauses) instant(worked time.Duration) time.Duration {
	at := worked
	for _, stretch := range p.union() {
		if at <= stretch[0] {
			break
		}
		at = verdict.Sum(at, stretch[1]-stretch[0])
	}
	return at
}

// randomPause is one of few, so that it may be known, opened or closed at any time: the order is not that of time.
func randomPause(rng *rand.Rand, most int) verdict.Pause {
	at := func() time.Duration { return time.Duration(rng.IntN(most)) }
	p := verdict.Pause{ID: strconv.Itoa(rng.IntN(12)), Opened: at(), Cap: at() / 3, Closed: rng.IntN(2) == 0}
	if rng.IntN(20) == 0 {
		p.Cap = verdict.Never
	}
	if rng.IntN(50) == 0 {
		p.Opened = verdict.Never
	}
	if p.Closed {
		p.Released = at()
	}
	return p
}

// open is how many are open, or will be.
func (p naivePauses) open(now time.Duration) (n int) {
	for _, pause := range p {
		if !pause.Closed && verdict.Sum(pause.Opened, pause.Cap) > now {
			n++
		}
	}
	return n
}

// TestPausesModel checks pauses that come in any order against a union that is made anew at each question.
func TestPausesModel(t *testing.T) {
	for seed := range racing.Rounds[uint64](150, 3_000) {
		rng := rand.New(rand.NewPCG(seed, 21))
		most := 2 + rng.IntN(200)
		var (
			slow, others naivePauses
			fast         verdict.Pauses
		)
		for range 30 {
			pause := randomPause(rng, most)
			if rng.IntN(3) == 0 {
				others.set(pause)
				continue
			}
			require.Equal(t, slow.set(pause), fast.Set(pause), "seed %d", seed)
			both := slices.Clone(slow)
			for _, other := range others {
				both.set(other)
			}
			with := fast.With(others)
			for range 4 {
				now := time.Duration(rng.IntN(2 * most))
				require.Equal(t, slow.before(now), fast.Before(now), "seed %d", seed)
				require.Equal(t, slow.instant(now), fast.Instant(now), "seed %d", seed)
				require.Equal(t, slow.after(now), fast.After(now), "seed %d", seed)
				require.Len(t, fast.Open(now), slow.open(now), "seed %d", seed)
				require.Equal(t, both.before(now), with.Before(now), "seed %d", seed)
				require.Equal(t, both.instant(now), with.Instant(now), "seed %d", seed)
				require.Equal(t, slow.before(now), verdict.PausedBefore(slow, now), "seed %d", seed)
			}
			require.Equal(t, slow.instant(verdict.Never), fast.Instant(verdict.Never), "seed %d", seed)
			for _, pause := range both {
				known, _ := with.Find(pause.ID)
				require.Equal(t, pause, known, "seed %d", seed)
			}
		}
	}
}

func TestPauses(t *testing.T) {
	t.Run("many are kept, so that none counts twice", func(t *testing.T) {
		var p verdict.Pauses
		for range 2 {
			for i := range 30_000 {
				id, from := strconv.Itoa(i), time.Duration(10*i)
				p.Set(verdict.Pause{ID: id, Opened: from, Cap: 100})
				p.Set(verdict.Pause{ID: id, Opened: from, Cap: 100, Released: from + 3, Closed: true})
			}
			require.EqualValues(t, 90_000, p.Before(time.Hour))
		}
	})
	t.Run("of other processes count as a store has them, one's own do not", func(t *testing.T) {
		var p verdict.Pauses
		p.Set(verdict.Pause{ID: "own", Opened: 0, Cap: 100})
		p.MakeOwn("own")
		p.MakeOwn("unknown")
		p.Set(verdict.Pause{ID: "other", Opened: 200, Cap: 100})
		closed := func(id string, from, to time.Duration) verdict.Pause {
			return verdict.Pause{ID: id, Opened: from, Cap: 100, Released: to, Closed: true}
		}
		require.Empty(t, p.News([]verdict.Pause{{ID: "own", Cap: 100}, {ID: "other", Opened: 200, Cap: 100}}))
		news := p.News([]verdict.Pause{closed("own", 0, 7), closed("other", 200, 210), {ID: "new", Opened: 400, Cap: 5}})
		require.Equal(t, []verdict.Pause{closed("other", 200, 210), {ID: "new", Opened: 400, Cap: 5}}, news)
		require.EqualValues(t, 115, p.With(news).Before(1000))
		require.EqualValues(t, 200, p.Before(1000), "they are as they were")
		p.Set(closed("own", 0, 50))
		require.Empty(t, p.News([]verdict.Pause{{ID: "own", Cap: 100}, closed("own", 0, 7)}))
		require.EqualValues(t, 65, p.With(news).Before(1000))
		require.Len(t, p.With(news).News([]verdict.Pause{closed("other", 200, 220)}), 1, "of two ends that of the store counts")
		require.Empty(t, p.With(news).News([]verdict.Pause{{ID: "other", Opened: 200, Cap: 100}}), "one that has ended has")
	})
	t.Run("of a run without any cost nothing", func(t *testing.T) {
		var p *verdict.Pauses
		require.Zero(t, p.Before(time.Hour))
		require.Zero(t, new(verdict.Snapshot).KnownPauses().Before(time.Hour))
		require.True(t, new(verdict.Pauses).None())
	})
	t.Run("are known as they are now", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		seen.Signs.Pauses.Set(verdict.Pause{ID: "a", Cap: 10})
		known := seen.KnownPauses()
		seen.Signs.Pauses.Set(verdict.Pause{ID: "b", Opened: 20, Cap: 10})
		require.EqualValues(t, 10, known.Before(100))
		require.False(t, known.None())
	})
}

func toolHold(serial int) verdict.HoldID { return verdict.HoldID{Key: "tool", Serial: serial} }

// climb gives the verdict of each instant and applies it.
func climb(t *testing.T, limits verdict.Limits, seen *verdict.Snapshot, instants ...time.Duration) (all []verdict.Verdict) {
	t.Helper()
	for _, now := range instants {
		v := verdict.Judge(limits, *seen, now)
		all = append(all, v)
		seen.Apply(v, now)
	}
	return all
}

func TestHolds(t *testing.T) {
	limits := others(verdict.Limits{
		Idle: hour, Ladders: verdict.Ladders{verdict.Hold: []verdict.Directive{verdict.DirectWait, verdict.DirectRetry}},
	})
	t.Run("of those that expire at one instant the one that was opened first trips first", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		for serial := range 9 {
			seen.Signs.Open(toolHold(serial), verdict.HoldLimits{Cap: 10}, 0)
		}
		for serial := range 9 {
			require.Equal(t, serial, climb(t, limits, &seen, 11)[0].HoldSerial)
		}
	})
	t.Run("a serial that is given out belongs to no open hold", func(t *testing.T) {
		signs := &verdict.Signs{}
		for now := range time.Duration(100) {
			id := toolHold(signs.Holds.NextSerial())
			require.Positive(t, id.Serial)
			require.False(t, signs.Held(id))
			if signs.Open(id, verdict.HoldLimits{Cap: 1}, now); now%3 == 0 {
				signs.Close(toolHold(1), now)
			}
		}
	})
	t.Run("of many that were open at once nothing is kept", func(t *testing.T) {
		signs := &verdict.Signs{}
		for serial := range 100 {
			signs.Open(toolHold(serial), verdict.HoldLimits{Cap: 10}, 0)
		}
		for serial := range 100 {
			require.NotNil(t, signs.Holds)
			signs.Close(toolHold(serial), 5)
		}
		require.Nil(t, signs.Holds)
	})
	t.Run("without any the limits begin at the last one's close", func(t *testing.T) {
		for name, end := range map[string]func(signs *verdict.Signs){
			"closed one by one": func(signs *verdict.Signs) { signs.Close(toolHold(1), 5); signs.Close(toolHold(2), 7) },
			"closed at once":    func(signs *verdict.Signs) { signs.CloseAll(7) },
		} {
			seen := verdict.Snapshot{Signs: &verdict.Signs{}}
			seen.Signs.Open(toolHold(1), verdict.HoldLimits{Cap: 10}, 0)
			seen.Signs.Open(toolHold(2), verdict.HoldLimits{Cap: 10}, 0)
			end(seen.Signs)
			require.Zero(t, seen.Signs.Holds.Len(), name)
			require.Empty(t, seen.Signs.Holds.Owners(), name)
			require.Equal(t, hour+8, verdict.Judge(limits, seen, 7).Next, name)
		}
	})
}

func TestHoldsIdle(t *testing.T) {
	never := verdict.Never
	idle := func(d time.Duration) verdict.HoldLimits { return verdict.HoldLimits{Cap: never, Idle: d} }
	t.Run("silence that is as long as the hold allows is not exceeded, a nanosecond more is", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		seen.Signs.Open(toolHold(1), idle(10), 5)
		seen.Signs.Signal(false, 7)
		require.Equal(t, verdict.Verdict{Next: 18}, verdict.Judge(others(verdict.Limits{Idle: 1}), seen, 17))
		v := verdict.Judge(others(verdict.Limits{Idle: 1}), seen, 18)
		require.Equal(t, verdict.Verdict{
			Action: verdict.Cancel, Limit: verdict.Idle, Used: 11, Allowed: 10, Directive: verdict.DirectCancel, Rung: 1,
			Last: true, Since: 7, Hold: "tool", HoldSerial: 1, Next: never,
		}, v)
	})
}

// TestPausesAtOnce counts the pauses that are merged for a window of many that overlap, and not the time it takes: noted
// one after the other they are merged once, at the first question.
func TestPausesAtOnce(t *testing.T) {
	const many = 15_000
	seen := verdict.Snapshot{Signs: &verdict.Signs{}}
	limits := &verdict.Limits{}
	for i := range time.Duration(many) {
		key := fmt.Sprint(i)
		seen.Take(limits, verdict.Signal{Kind: verdict.SignalPause, Key: key, From: i, Length: 2 * many})
		seen.Take(limits, verdict.Signal{Kind: verdict.SignalUnpause, Key: key, From: i + many})
	}
	pauses := &seen.Signs.Pauses
	require.Zero(t, pauses.Merged())
	require.Equal(t, time.Duration(2*many-1), pauses.Before(3*many))
	require.Zero(t, pauses.After(3*many))
	require.Empty(t, pauses.Open(3*many))
	require.Equal(t, many, pauses.Merged())
	known := seen.KnownPauses()
	require.Equal(t, time.Duration(2*many-1), known.Before(3*many))
	require.Equal(t, many, known.Merged())
	pauses.Set(verdict.Pause{ID: "later", Opened: 3 * many, Cap: 1})
	require.Equal(t, time.Duration(2*many), pauses.Before(4*many))
	require.Equal(t, many+1, pauses.Merged(), "one that none overlaps is merged alone")
}
