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
	"github.com/seed62658d38/watchdog/sweep"
)

// A world is a database whose sessions wake up, fail and hang at random, and what is so about each of them, kept in the plainest way.
type world struct {
	*bed
	random    *rand.Rand
	last      map[string]time.Time // the last event, or the creation
	threshold map[string]time.Duration
	poisoned  map[string]bool
	cancelled map[string]int
	stopped   map[string]time.Time
	flaky     float64 // how often a call fails
}

func newWorld(b *bed, seed uint64) *world {
	w := &world{
		bed: b, random: rand.New(rand.NewPCG(seed, 5)), last: map[string]time.Time{}, threshold: map[string]time.Duration{},
		poisoned: map[string]bool{}, cancelled: map[string]int{}, stopped: map[string]time.Time{},
	}
	b.cfg.MaxCancellationsPerRun = 1 + w.random.Int64N(8)
	if w.random.IntN(2) == 0 {
		b.cfg.Grace = time.Duration(w.random.IntN(10)) * time.Minute
	}
	for i := range 40 {
		w.add(fmt.Sprintf("s-%02d", i))
	}
	b.onStalled = func(context.Context, session.Query) error { return w.trouble() }
	b.onCancel = w.check
	b.cfg.StopHook = w.stop
	return w
}

func (w *world) add(runID string) {
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

func (w *world) trouble() error {
	if w.random.Float64() < w.flaky {
		return errors.New("connection lost")
	}
	return nil
}

// anyone has a session do something that is alive.
func (w *world) anyone() {
	runID := fmt.Sprintf("s-%02d", w.random.IntN(40))
	if w.cancelled[runID] == 0 {
		time.Sleep(time.Microsecond) // the bubble's, so that no two events are at one time
		w.last[runID] = time.Now()
		w.wake(runID)
	}
}

// stop is the hook: it takes its time, fails at times, and meanwhile sessions wake up.
func (w *world) stop(_ context.Context, s session.Session) error {
	require.True(w, w.stalled(s.RunID), "%s is not stalled, and was stopped", s.RunID)
	if w.random.IntN(3) == 0 {
		w.last[s.RunID] = time.Now()
		w.wake(s.RunID)
	}
	time.Sleep(time.Duration(w.random.IntN(3)) * time.Second) // the bubble's
	if w.random.IntN(5) == 0 {
		panic("hook")
	}
	return w.trouble()
}

func (w *world) stalled(runID string) bool {
	return w.threshold[runID] != watchdog.NoLimit && time.Since(w.last[runID]) > w.threshold[runID]
}

// check is what has to be so when a session is to be cancelled, which the guard may yet refuse.
func (w *world) check(_ context.Context, s session.Session) error {
	require.Zero(w, w.cancelled[s.RunID], "%s was cancelled already", s.RunID)
	if w.poisoned[s.RunID] {
		return errors.New("poisoned")
	}
	if err := w.trouble(); err != nil {
		return err
	}
	if s.LastEventAt.Equal(w.last[s.RunID]) || s.LastEventAt.IsZero() && s.CreatedAt.Equal(w.last[s.RunID]) {
		require.True(w, w.stalled(s.RunID), "%s is awake", s.RunID)
		w.cancelled[s.RunID]++
	}
	return nil
}

func TestWhateverHappensNobodyAwakeIsCancelledNobodyTwiceAndNobodyForgotten(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBed(t, func(b *bed) {
				w := newWorld(b, seed)
				w.flaky = w.random.Float64() / 2
				for range 60 {
					b.after(time.Duration(w.random.IntN(300)) * time.Second)
					for range w.random.IntN(15) {
						w.anyone()
					}
					p, _ := b.the().Sweep(b.Context())
					require.LessOrEqual(b, int64(p.Cancelled), b.cfg.MaxCancellationsPerRun)
					require.LessOrEqual(b, int64(p.Warned), b.cfg.MaxCancellationsPerRun)
				}
				w.flaky, b.cfg.StopHook = 0, nil
				w.settle()
				w.compare()
			})
		})
	}
}

// settle lets all be quiet for as long as it takes.
func (w *world) settle() {
	for range 150 {
		w.after(time.Hour)
		_, _ = w.the().Sweep(w.Context())
	}
}

func (w *world) compare() {
	for runID := range w.last {
		want := session.Cancelled
		if w.poisoned[runID] || w.threshold[runID] == watchdog.NoLimit {
			want = session.Active
		}
		require.Equal(w, want, w.status(runID), runID)
		require.Equal(w, want == session.Cancelled, w.cancelled[runID] == 1, runID)
	}
	require.Equal(w, len(w.ended()), w.the().Stats().Cancelled)
}

func TestSeveralSweepersOfOneDatabase(t *testing.T) {
	inBed(t, func(b *bed) {
		names := b.putStalled(60)
		sweepers := make([]*sweep.Sweeper, 5)
		results := make(chan sweep.Pass, 100)
		for i := range sweepers {
			s, err := sweep.New(b, b, sweep.Config{MaxCancellationsPerRun: 7, Logger: b.cfg.Logger, StopHook: func(context.Context, session.Session) error {
				time.Sleep(time.Duration(1+i) * time.Millisecond) // the bubble's
				return nil
			}})
			require.NoError(b, err)
			sweepers[i] = s
			go func() {
				for range 20 {
					p, _ := s.Sweep(context.Background())
					results <- p
				}
			}()
		}
		sum := 0
		for range cap(results) {
			sum += (<-results).Cancelled
		}
		require.Equal(b, 60, sum)
		require.ElementsMatch(b, names, b.ended())
	})
}
