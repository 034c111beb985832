package verdict_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestSilence(t *testing.T) {
	for _, c := range []struct {
		name     string
		attached time.Duration
		signs    verdict.Signs
		now      time.Duration
		want     time.Duration
	}{
		{"a run without a sign is silent since its attach", 3 * hour, verdict.Signs{}, 5 * hour, 2 * hour},
		{"a run attached just now is not silent", 3 * hour, verdict.Signs{}, 3 * hour, 0},
		{"activity ends the silence", 3 * hour, verdict.Signs{Signalled: true, Activity: 4 * hour}, 5 * hour, hour},
		{
			"progress is activity, and adds nothing to it", 3 * hour,
			verdict.Signs{Activity: 4 * hour, Progress: 4 * hour}, 6 * hour, 2 * hour,
		},
		{
			"silence is expected while a hold is open", 0,
			held(verdict.Signs{Activity: hour}, 2*hour), 9 * hour, 0,
		},
		{"silence restarts when the last hold closes", 0, verdict.Signs{Activity: hour, HoldsChanged: 4 * hour}, 5 * hour, hour},
		{"activity after a hold counts", 0, verdict.Signs{Activity: 5 * hour, HoldsChanged: 4 * hour}, 7 * hour, 2 * hour},
		{"a sign later than now gives a silence of 0", 0, verdict.Signs{Activity: 2}, 1, 0},
	} {
		require.Equal(t, c.want, verdict.Silence(verdict.Snapshot{Attached: c.attached, Signs: &c.signs}, c.now), c.name)
	}
}

func TestShouldWriteRow(t *testing.T) {
	for _, c := range []struct {
		name                        string
		threshold, shown, last, now time.Duration
		want                        bool
	}{
		{"a row that shows the last sign is left alone, however old", 10 * hour, hour, hour, 100 * hour, false},
		{"a row that shows a later sign is left alone", 10 * hour, 2 * hour, hour, 100 * hour, false},
		{"a row behind by less than a tenth of the threshold is not written", 10 * hour, hour, 2*hour - 1, 2*hour - 1, false},
		{"a row behind by a tenth of the threshold is written", 10 * hour, hour, 2 * hour, 2 * hour, true},
		{"the row of a run that wakes up is written at once", 10 * hour, hour, 9 * hour, 9 * hour, true},
		{"a row slightly behind is not written before half of the threshold", 10 * hour, hour, hour + 1, 6*hour - 1, false},
		{"a row slightly behind is written after half of the threshold", 10 * hour, hour, hour + 1, 6 * hour, true},
		{"a threshold that is off never writes", verdict.Never, 0, 100 * hour, 101 * hour, false},
		{"a threshold that is off never writes, ever", verdict.Never, 0, verdict.Never / 11, verdict.Never / 3, false},
		{"a threshold too short for a tenth writes every sign", 5, 0, 1, 1, true},
		{"a threshold too short for a tenth does not write a sign twice", 5, 1, 1, 2, false},
	} {
		require.Equal(t, c.want, verdict.ShouldWriteRow(c.threshold, c.shown, c.last, c.now), c.name)
	}
}

func TestTakeAlong(t *testing.T) {
	for _, c := range []struct {
		name                   string
		threshold, shown, last time.Duration
		want                   bool
	}{
		{"a row that lacks a twentieth of the tenth goes along", 200 * hour, hour, 20 * hour, true},
		{"a row that lacks more does not", 200 * hour, hour, 20*hour - 1, false},
		{"a row that shows the last sign does not", 200 * hour, hour, hour, false},
		{"a threshold that is off takes nothing along", verdict.Never, 0, 100 * hour, false},
	} {
		require.Equal(t, c.want, verdict.TakeAlong(c.threshold, c.shown, c.last), c.name)
	}
}

// A rowSim is a run, checked once per interval, and its row.
type rowSim struct {
	threshold, interval time.Duration
	shown, last         time.Duration
	writes              []time.Duration
}

// check writes the row if it is time, and requires that the row is then not too far behind.
func (s *rowSim) check(t *testing.T, now time.Duration) {
	t.Helper()
	if verdict.ShouldWriteRow(s.threshold, s.shown, s.last, now) {
		s.shown = s.last
		s.writes = append(s.writes, now)
	}
	if behind := s.last - s.shown; behind >= s.threshold/10 || behind > 0 && now-s.shown >= s.threshold/2 {
		require.Fail(t, "the row is too far behind", "by %d at %d, %+v", behind, now, s)
	}
}

// most returns the largest number of writes within one threshold.
func (s *rowSim) most() (most int) {
	for i, begin := range s.writes {
		n := 0
		for _, at := range s.writes[i:] {
			if at-begin < s.threshold {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestRowModel checks that a row is never far behind its run, and is written about ten times per threshold.
func TestRowModel(t *testing.T) {
	const threshold = 1000
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := &rowSim{threshold: threshold, interval: time.Duration(1 + rng.IntN(threshold/20))}
		gap := 1 + rng.IntN(threshold/5)
		next := time.Duration(rng.IntN(gap))
		for now := range time.Duration(8 * threshold) {
			if now >= next {
				s.last = now
				next = now + 1 + time.Duration(rng.IntN(gap))
				if rng.IntN(50) == 0 {
					next += threshold
				}
			}
			if now%s.interval == 0 {
				s.check(t, now)
			}
		}
		require.LessOrEqual(t, s.most(), 11, "seed %d, %+v", seed, s)
	}
}

func TestStalled(t *testing.T) {
	limits := verdict.SessionLimits{Threshold: 10 * time.Minute, MinAge: 2 * time.Minute}
	young := verdict.SessionLimits{Threshold: time.Minute, MinAge: 2 * time.Minute}
	off := verdict.SessionLimits{Threshold: verdict.Never}
	for _, c := range []struct {
		name         string
		limits       verdict.SessionLimits
		age, silence time.Duration
		want         bool
	}{
		{"at its threshold a session is not stalled", limits, time.Hour, 10 * time.Minute, false},
		{"a nanosecond after its threshold it is stalled", limits, time.Hour, 10*time.Minute + 1, true},
		{"a session without events is silent since its creation", limits, 10*time.Minute + 1, 10*time.Minute + 1, true},
		{"at the minimum age a session is old enough", young, 2 * time.Minute, 2 * time.Minute, true},
		{"a nanosecond before the minimum age it is too young", young, 2*time.Minute - 1, 2*time.Minute - 1, false},
		{"no minimum age means old enough at once", verdict.SessionLimits{Threshold: time.Minute}, 0, time.Minute + 1, true},
		{"a session created in the future is too young", young, -time.Second, time.Hour, false},
		{"a session whose last event is in the future is not silent", limits, time.Hour, -time.Hour, false},
		{"a threshold that is off is never exceeded", off, verdict.Never, verdict.Never, false},
		{"the longest silence is longer than any threshold", limits, verdict.Never, verdict.Never, true},
		{"a threshold of 0 is exceeded by a nanosecond", verdict.SessionLimits{}, 1, 1, true},
		{"a threshold of 0 is not exceeded by 0", verdict.SessionLimits{}, 1, 0, false},
	} {
		require.Equal(t, c.want, verdict.Stalled(c.limits, c.age, c.silence), c.name)
	}
}

func TestTakeAlone(t *testing.T) {
	for _, c := range []struct {
		name              string
		threshold, locked time.Duration
		want              bool
	}{
		{"a row locked for less than ten seconds is not waited for", hour, 10*time.Second - 1, false},
		{"after ten seconds it is", hour, 10 * time.Second, true},
		{"before a quarter of a short threshold it is not waited for", 20 * time.Second, 5*time.Second - 1, false},
		{"after a quarter of a short threshold it is", 20 * time.Second, 5 * time.Second, true},
		{"without a threshold ten seconds count", verdict.Never, 10 * time.Second, true},
	} {
		require.Equal(t, c.want, verdict.TakeAlone(c.threshold, c.locked), c.name)
	}
}

func TestSignalled(t *testing.T) {
	for _, c := range []struct {
		name     string
		attached time.Duration
		signs    verdict.Signs
		want     bool
	}{
		{"a run has not at its start", 0, verdict.Signs{}, false},
		{"nor by a hold that was released before the attach", 2 * hour, verdict.Signs{HoldsChanged: hour}, false},
		{"it has by a hold that was released since", 2 * hour, verdict.Signs{HoldsChanged: 2*hour + 1}, true},
		{"it has by a signal", 2 * hour, verdict.Signs{Signalled: true}, true},
	} {
		require.Equal(t, c.want, verdict.Signalled(verdict.Snapshot{Attached: c.attached, Signs: &c.signs}), c.name)
	}
}

func TestRetryRefused(t *testing.T) {
	for _, c := range []struct {
		name            string
		threshold, pace time.Duration
		refusals        int
		want            time.Duration
	}{
		{"the pace at first", hour, time.Second, 1, time.Second},
		{"twice as long the second time", hour, time.Second, 2, 2 * time.Second},
		{"eight times as long the fourth time", hour, time.Second, 4, 8 * time.Second},
		{"at most a minute", hour, time.Second, 100, time.Minute},
		{"at most a quarter of the threshold", 2 * time.Minute, time.Second, 100, 30 * time.Second},
		{"a number that is not a power of two", hour, 29 * time.Second, 2, 58 * time.Second},
		{"half of the longest, doubled", 28 * time.Nanosecond, 3, 2, 6},
		{"never less than the pace", time.Minute, 20 * time.Second, 100, 20 * time.Second},
		{"a pace longer than a minute is kept", hour, 2 * time.Minute, 3, 2 * time.Minute},
	} {
		require.Equal(t, c.want, verdict.RetryRefused(c.threshold, c.pace, c.refusals), c.name)
	}
}

// held returns the signs with a hold open since then.
func held(signs verdict.Signs, since time.Duration) verdict.Signs {
	signs.Open(verdict.HoldID{Key: "tool"}, verdict.HoldLimits{Cap: verdict.Never}, since)
	return signs
}

// TestLooks protects a living process: its lease expires only after looks at every promise, for three promises, that
// all succeeded in time and found the same beat.
func TestLooks(t *testing.T) {
	const second, promise = time.Second, 10 * time.Second
	look := func(at time.Duration) verdict.Look {
		return verdict.Look{Began: at, Ended: at, Sure: true, Beat: 1}
	}
	with := func(l verdict.Look, change func(*verdict.Look)) verdict.Look {
		change(&l)
		return l
	}
	for name, test := range map[string]struct {
		looks   []verdict.Look
		expired bool
	}{
		"three promises":            {[]verdict.Look{look(0), look(promise), look(2 * promise), look(3 * promise)}, true},
		"a nanosecond less":         {[]verdict.Look{look(0), look(promise), look(2 * promise), look(3*promise - 1)}, false},
		"one look":                  {[]verdict.Look{look(3 * promise)}, false},
		"a look at twice a promise": {[]verdict.Look{look(0), look(2 * promise), look(4 * promise)}, true},
		"a gap of more": {
			[]verdict.Look{look(0), look(promise), look(3*promise + 1), look(4 * promise)}, false,
		},
		"a look that was not sure": {[]verdict.Look{
			look(0), look(promise), with(look(2*promise), func(l *verdict.Look) { l.Sure = false }), look(3 * promise),
		}, false},
		"the last one was not sure": {[]verdict.Look{
			look(0), look(promise), look(2 * promise), with(look(3*promise), func(l *verdict.Look) { l.Sure = false }),
		}, false},
		"another beat": {[]verdict.Look{
			look(0), look(promise), with(look(2*promise), func(l *verdict.Look) { l.Beat = 2 }),
			with(look(3*promise), func(l *verdict.Look) { l.Beat = 2 }),
		}, false},
		"a look that took a promise": {[]verdict.Look{
			look(0), with(look(promise), func(l *verdict.Look) { l.Ended += promise }), look(3 * promise),
		}, true},
		"a look that took longer": {[]verdict.Look{
			look(0), with(look(promise/2), func(l *verdict.Look) { l.Ended += promise + 1 }), look(3 * promise),
		}, false},
		"a last look that began too early": {[]verdict.Look{
			look(0), look(promise), look(2 * promise),
			with(look(3*promise-second), func(l *verdict.Look) { l.Ended += 2 * second }),
		}, false},
		"three promises after a failure": {[]verdict.Look{
			look(0), with(look(promise), func(l *verdict.Look) { l.Sure = false }),
			look(2 * promise), look(3 * promise), look(4 * promise), look(5 * promise),
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var looks verdict.Looks
			expired := false
			for _, l := range test.looks {
				require.False(t, expired, "no look follows")
				expired = looks.Add(promise, l)
			}
			require.Equal(t, test.expired, expired)
		})
	}
}

func TestLooksLasted(t *testing.T) {
	var looks verdict.Looks
	for i := range 3 {
		at := time.Duration(5+2*i) * time.Second
		looks.Add(2*time.Second, verdict.Look{Began: at, Ended: at, Sure: true, Beat: 1})
	}
	require.Equal(t, 5*time.Second, looks.Began())
	require.Equal(t, 4*time.Second, looks.Lasted())
}

// TestLease protects how often a lease is renewed, read and looked at, by its promise, and a record is tried again.
func TestLease(t *testing.T) {
	for promise, want := range map[time.Duration][5]time.Duration{
		9 * time.Second: {3 * time.Second, 54 * time.Second, 4500 * time.Millisecond, 36 * time.Second, 45 * time.Second},
		2 * time.Second: {2 * time.Second / 3, 12 * time.Second, time.Second, 11 * time.Second, 10 * time.Second},
	} {
		require.Equal(t, want, [...]time.Duration{
			verdict.RenewAfter(promise), verdict.CompareAfter(promise), verdict.SuspectAfter(promise),
			verdict.FoundDeadWithin(promise), verdict.ObserveFor(promise),
		})
	}
	require.EqualValues(t, 8, verdict.Doubled(1, verdict.Never, 3))
	require.Equal(t, 16*time.Second, verdict.RetryRecord(4))
	require.Equal(t, 30*time.Second, verdict.RetryRecord(5))
}

func TestFleetDied(t *testing.T) {
	for _, test := range []struct {
		dead, all     int
		renewed, died bool
	}{
		{1, 1, false, true}, {1, 100, false, true},
		{1, 2, true, false}, {2, 3, true, false}, {2, 6, true, false},
		{3, 9, true, true}, {3, 10, true, false}, {34, 100, true, true}, {33, 100, true, false},
	} {
		require.Equal(t, test.died, verdict.FleetDied(test.dead, test.all, test.renewed), "%+v", test)
	}
}

func TestQuiet(t *testing.T) {
	require.False(t, verdict.Quiet(10*time.Minute, time.Minute-1))
	require.True(t, verdict.Quiet(10*time.Minute, time.Minute))
	require.False(t, verdict.Quiet(time.Minute, 15*time.Second-1))
	require.True(t, verdict.Quiet(time.Minute, 15*time.Second))
}
