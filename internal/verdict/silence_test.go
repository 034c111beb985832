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
		{"a run that was attached just now is not silent", 3 * hour, verdict.Signs{}, 3 * hour, 0},
		{"activity ends the silence", 3 * hour, verdict.Signs{Signalled: true, Activity: 4 * hour}, 5 * hour, hour},
		{"progress is activity, and adds nothing to it", 3 * hour, verdict.Signs{Activity: 4 * hour, Progress: 4 * hour}, 6 * hour, 2 * hour},
		{"silence is expected while a hold is open", 0, verdict.Signs{Activity: hour, Holds: []verdict.OpenHold{{Opened: 2 * hour}}}, 9 * hour, 0},
		{"it is measured anew when the last hold is closed", 0, verdict.Signs{Activity: hour, Released: 4 * hour}, 5 * hour, hour},
		{"activity after a hold counts", 0, verdict.Signs{Activity: 5 * hour, Released: 4 * hour}, 7 * hour, 2 * hour},
		{"a sign that is later than now is none of the future", 0, verdict.Signs{Activity: 2}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, verdict.Silence(verdict.Snapshot{Attached: c.attached, Signs: &c.signs}, c.now))
		})
	}
}

func TestFreshen(t *testing.T) {
	for _, c := range []struct {
		name                        string
		threshold, shown, last, now time.Duration
		want                        bool
	}{
		{"a row that shows the last sign is left alone, however old", 10 * hour, hour, hour, 100 * hour, false},
		{"so is one that shows a later one", 10 * hour, 2 * hour, hour, 100 * hour, false},
		{"a row is behind by less than a tenth of its threshold", 10 * hour, hour, 2*hour - 1, 2*hour - 1, false},
		{"and by a tenth", 10 * hour, hour, 2 * hour, 2 * hour, true},
		{"a run that wakes up after a silence is shown at once", 10 * hour, hour, 9 * hour, 9 * hour, true},
		{"a run that fell silent soon is not shown before half of the threshold", 10 * hour, hour, hour + 1, 6*hour - 1, false},
		{"and is then", 10 * hour, hour, hour + 1, 6 * hour, true},
		{"a threshold that is off is never near", verdict.Never, 0, 100 * hour, 101 * hour, false},
		{"not even at the end of time", verdict.Never, 0, verdict.Never / 11, verdict.Never / 3, false},
		{"a threshold too short for a tenth has every sign shown", 5, 0, 1, 1, true},
		{"but not what is shown already", 5, 1, 1, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, verdict.Freshen(c.threshold, c.shown, c.last, c.now))
		})
	}
}

// A looked is a run that is looked at every pace, and its row.
type looked struct {
	threshold, pace time.Duration
	shown, last     time.Duration
	writes          []time.Duration
}

// look lets the row be written, and says what must hold after it, and so for less than a pace more does not.
func (l *looked) look(t *testing.T, now time.Duration) {
	t.Helper()
	if verdict.Freshen(l.threshold, l.shown, l.last, now) {
		l.shown = l.last
		l.writes = append(l.writes, now)
	}
	if behind := l.last - l.shown; behind >= l.threshold/10 || behind > 0 && now-l.shown >= l.threshold/2 {
		require.Fail(t, "the row is too far behind", "by %d at %d, %+v", behind, now, l)
	}
}

// most is how many writes there were in any stretch of the threshold.
func (l *looked) most() (most int) {
	for i, begin := range l.writes {
		n := 0
		for _, at := range l.writes[i:] {
			if at-begin < l.threshold {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestARowIsNeverFarBehindItsRunAndWrittenAboutTenTimesInItsThreshold(t *testing.T) {
	const threshold = 1000
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		l := &looked{threshold: threshold, pace: time.Duration(1 + rng.IntN(threshold/20))}
		gap := 1 + rng.IntN(threshold/5)
		next := time.Duration(rng.IntN(gap))
		for now := range time.Duration(8 * threshold) {
			if now >= next {
				l.last = now
				next = now + 1 + time.Duration(rng.IntN(gap))
				if rng.IntN(50) == 0 {
					next += threshold
				}
			}
			if now%l.pace == 0 {
				l.look(t, now)
			}
		}
		require.LessOrEqual(t, l.most(), 11, "seed %d, %+v", seed, l)
	}
}

func TestARunThatIsActiveAllTheTimeIsWrittenTenTimesInItsThreshold(t *testing.T) {
	l := &looked{threshold: 1000, pace: 1}
	for now := range time.Duration(100_000) {
		l.last = now
		l.look(t, now)
	}
	require.Len(t, l.writes, 999)
}
