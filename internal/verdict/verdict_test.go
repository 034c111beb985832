package verdict_test

import (
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
	for _, c := range []struct {
		name   string
		limits verdict.Limits
		seen   verdict.Snapshot
		now    time.Duration
		want   verdict.Verdict
	}{
		{
			name:   "the next look at a fresh run is its first warning",
			limits: verdict.Limits{WallClock: 10 * hour, WarnAt: eighty},
			want:   verdict.Verdict{Next: 8 * hour},
		},
		{
			name:   "a warning is due when its fraction is reached",
			limits: verdict.Limits{WallClock: 10 * hour, WarnAt: eighty},
			now:    8 * hour,
			want: verdict.Verdict{
				Action: verdict.Warn, Limit: verdict.WallClock, Used: 8 * hour, Allowed: 10 * hour, Fraction: 0.8, Next: 8 * hour,
			},
		},
		{
			name:   "after the warning the next look is past the limit",
			limits: verdict.Limits{WallClock: 10 * hour, WarnAt: eighty},
			seen:   verdict.Snapshot{Warned: 1},
			now:    8 * hour,
			want:   verdict.Verdict{Next: 10*hour + 1},
		},
		{
			name:   "at the limit a run has not exceeded it",
			limits: verdict.Limits{WallClock: hour},
			now:    hour,
			want:   verdict.Verdict{Next: hour + 1},
		},
		{
			name:   "one nanosecond later it has",
			limits: verdict.Limits{WallClock: hour},
			now:    hour + 1,
			want: verdict.Verdict{
				Action: verdict.Cancel, Limit: verdict.WallClock, Used: hour + 1, Allowed: hour,
				Directive: verdict.DirectCancel, Rung: 1, Last: true, Next: verdict.Never,
			},
		},
		{
			name:   "a run past its limit gets no warning",
			limits: verdict.Limits{WallClock: hour, WarnAt: eighty},
			now:    2 * hour,
			want: verdict.Verdict{
				Action: verdict.Cancel, Limit: verdict.WallClock, Used: 2 * hour, Allowed: hour,
				Directive: verdict.DirectCancel, Rung: 1, Last: true, Next: verdict.Never,
			},
		},
		{
			name:   "an extension moves the limit and the warnings",
			limits: verdict.Limits{WallClock: 10 * hour, WarnAt: eighty},
			seen:   verdict.Snapshot{Extended: 10 * hour},
			now:    11 * hour,
			want:   verdict.Verdict{Next: 16 * hour},
		},
		{
			name:   "a limit that is off is never exceeded and gives no warning",
			limits: verdict.Limits{WallClock: verdict.Never, WarnAt: eighty},
			seen:   verdict.Snapshot{Extended: hour},
			now:    verdict.Never - 1,
			want:   verdict.Verdict{Next: verdict.Never},
		},
		{
			name:   "an extension too long for a Duration switches the limit off",
			limits: verdict.Limits{WallClock: verdict.Never - 1},
			seen:   verdict.Snapshot{Extended: 2},
			now:    verdict.Never - 1,
			want:   verdict.Verdict{Next: verdict.Never},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, verdict.Judge(others(c.limits), c.seen, c.now))
		})
	}
}

// naive is the rule without a next look: it returns what was due by now.
func naive(limits verdict.Limits, extended, now time.Duration) (warned int, cancelled bool) {
	budget := limits.WallClock + extended
	if now > budget {
		return 0, true
	}
	for _, fraction := range limits.WarnAt {
		if now >= time.Duration(fraction*float64(budget)) {
			warned++
		}
	}
	return warned, false
}

// TestNext checks that Next is the first instant at which the answer changes.
func TestNext(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range racing.Rounds(200, 6_000) {
		limits := others(verdict.Limits{
			WallClock: time.Duration(1 + rng.Int64N(200)),
			WarnAt:    []float64{0.25, 0.5, 0.8}[:rng.IntN(4)],
		})
		extended := time.Duration(rng.Int64N(50))
		next, seen := time.Duration(0), verdict.Snapshot{Extended: extended}
		for now := range time.Duration(300) {
			if now < next {
				requireNothingDue(t, limits, extended, now, seen.Warned)
				continue
			}
			v := verdict.Judge(limits, seen, now)
			for ; v.Action == verdict.Warn; v = verdict.Judge(limits, seen, now) {
				seen.Warned++
			}
			warned, cancelled := naive(limits, extended, now)
			require.Equal(t, cancelled, v.Action == verdict.Cancel)
			if cancelled {
				require.Equal(t, limits.WallClock+extended+1, now, "looked too late")
				break
			}
			require.Equal(t, warned, seen.Warned)
			require.Equal(t, limits.WallClock+extended-now, verdict.Remaining(limits, seen, now))
			require.Greater(t, v.Next, now)
			next = v.Next
		}
	}
}

// requireNothingDue checks that nothing was due at an instant that was skipped.
func requireNothingDue(t *testing.T, limits verdict.Limits, extended, now time.Duration, warned int) {
	t.Helper()
	due, cancelled := naive(limits, extended, now)
	require.False(t, cancelled, "missed a cancel at %v", now)
	require.Equal(t, warned, due, "missed a warning at %v", now)
}

func TestMonotonicClock(t *testing.T) {
	m := verdict.NewMonotonicClock(hour, 0)
	require.Equal(t, 2*hour, m.Read(hour))
	require.Equal(t, 2*hour, m.Read(-5*hour), "a step back counts as no time")
	require.Equal(t, 3*hour, m.Read(-4*hour), "time goes on from there")
	early := verdict.NewMonotonicClock(-hour, 0)
	require.Zero(t, early.Read(0))
}
