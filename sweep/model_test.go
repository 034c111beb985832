package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A model is a database whose sessions wake up, fail and hang at random. It also keeps what is true of each session,
// in the plainest way.
type model struct {
	*fixture
	random    *rand.Rand
	last      map[string]time.Time // the last event, or the creation
	threshold map[string]time.Duration
	poisoned  map[string]bool
	cancelled map[string]int
	flaky     float64 // how often a call fails
	lossy     bool    // answers about cancels are lost
}

func newModel(f *fixture, seed uint64) *model {
	w := &model{
		fixture: f, random: rand.New(rand.NewPCG(seed, 5)), last: map[string]time.Time{},
		threshold: map[string]time.Duration{}, poisoned: map[string]bool{}, cancelled: map[string]int{},
	}
	f.cfg.MaxCancellationsPerRun = 1 + w.random.Int64N(8)
	if w.random.IntN(2) == 0 {
		f.cfg.Grace = time.Duration(w.random.IntN(10)) * time.Minute
	}
	for i := range 40 {
		w.add(fmt.Sprintf("s-%02d", i))
	}
	f.onStalled = func(context.Context, session.Query) error { return w.randomError() }
	f.onCancel = w.checkCancel
	if seed%2 == 1 {
		b := f.inBatches()
		w.lossy = true
		b.onAll = w.checkCancels
		b.after = func(outcomes []session.Outcome) ([]session.Outcome, error) { return outcomes, w.randomError() }
		return w
	}
	f.cfg.StopHook = w.stop
	return w
}

func (w *model) add(runID string) {
	s := session.Session{RunID: runID, Status: session.Active, CreatedAt: time.Now(), Attempt: 1}
	switch w.random.IntN(6) {
	case 0:
		s.Threshold = watchdog.NoLimit
	case 1:
		s.Threshold = time.Duration(1+w.random.IntN(30)) * time.Minute
	case 2:
		w.poisoned[runID] = w.random.IntN(4) == 0
	}
	w.last[runID], w.threshold[runID] = time.Now(), s.Threshold
	if s.Threshold == 0 {
		w.threshold[runID] = 10 * time.Minute
	}
	w.row(s)
}

func (w *model) randomError() error {
	if w.random.Float64() < w.flaky {
		return errors.New("connection lost")
	}
	return nil
}

// wakeOne gives a random session an event.
func (w *model) wakeOne() {
	runID := fmt.Sprintf("s-%02d", w.random.IntN(40))
	if w.cancelled[runID] == 0 {
		time.Sleep(time.Microsecond) // no two events have the same time
		w.last[runID] = time.Now()
		w.wake(runID)
	}
}

// stop is the stop hook. It takes time, sometimes fails, and sessions wake up meanwhile.
func (w *model) stop(_ context.Context, s session.Session) error {
	require.True(w, w.stalled(s.RunID), "%s is not stalled, and was stopped", s.RunID)
	if w.random.IntN(3) == 0 {
		w.last[s.RunID] = time.Now()
		w.wake(s.RunID)
	}
	time.Sleep(time.Duration(w.random.IntN(3)) * time.Second) // fake time
	if w.random.IntN(5) == 0 {
		panic("hook")
	}
	return w.randomError()
}

func (w *model) stalled(runID string) bool {
	return w.threshold[runID] != watchdog.NoLimit && time.Since(w.last[runID]) > w.threshold[runID]
}

// checkCancel checks that a session may be cancelled. The guard of the store may still refuse.
func (w *model) checkCancel(_ context.Context, s session.Session) error {
	if w.poisoned[s.RunID] {
		return errors.New("poisoned")
	}
	err := w.randomError()
	if err == nil {
		w.checkJudged(s)
	}
	return err
}

// checkCancels checks a batch, of which nothing is written if one of it is refused.
func (w *model) checkCancels(all []session.BatchedCancel) error {
	if w.random.IntN(3) == 0 {
		w.wakeOne() // after it was judged
	}
	for _, c := range all {
		if w.poisoned[c.Judged.RunID] {
			return errors.New("poisoned")
		}
	}
	err := w.randomError()
	for _, c := range all {
		if err == nil {
			w.checkJudged(c.Judged)
		}
	}
	return err
}

func (w *model) checkJudged(s session.Session) {
	if w.lossy && w.status(s.RunID) == session.Cancelled {
		return // the answer was lost, and the store refuses
	}
	require.Zero(w, w.cancelled[s.RunID], "%s was cancelled already", s.RunID)
	if s.LastEventAt.Equal(w.last[s.RunID]) || s.LastEventAt.IsZero() && s.CreatedAt.Equal(w.last[s.RunID]) {
		require.True(w, w.stalled(s.RunID), "%s is awake", s.RunID)
		w.cancelled[s.RunID]++
	}
}

// TestSweepModel: whatever happens, no session that is awake is cancelled, none is cancelled twice, and none is
// forgotten.
func TestSweepModel(t *testing.T) {
	for seed := range uint64(25) {
		subtest(t, fmt.Sprint("seed ", seed), func(f *fixture) {
			w := newModel(f, seed)
			w.flaky = w.random.Float64() / 2
			for range 60 {
				f.advance(time.Duration(w.random.IntN(300)) * time.Second)
				for range w.random.IntN(15) {
					w.wakeOne()
				}
				p, _ := f.sweeper().Sweep(f.Context())
				require.LessOrEqual(f, int64(p.Cancelled), f.cfg.MaxCancellationsPerRun)
				require.LessOrEqual(f, int64(p.Warned), f.cfg.MaxCancellationsPerRun)
			}
			w.flaky, f.cfg.StopHook = 0, nil
			w.settle()
			w.checkEnd()
		})
	}
}

// settle sweeps until every stalled session is cancelled.
func (w *model) settle() {
	for range 150 {
		w.advance(time.Hour)
		_, _ = w.sweeper().Sweep(w.Context())
	}
}

func (w *model) checkEnd() {
	for runID := range w.last {
		want := session.Cancelled
		if w.poisoned[runID] || w.threshold[runID] == watchdog.NoLimit {
			want = session.Active
		}
		require.Equal(w, want, w.status(runID), runID)
		require.Equal(w, want == session.Cancelled, w.cancelled[runID] == 1, runID)
	}
	require.Equal(w, len(w.ended()), w.sweeper().Stats().Cancelled)
}
