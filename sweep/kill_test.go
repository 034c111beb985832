package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A world is a database with stalled runs, faults that happen once, and what became of the runs.
type world struct {
	*fixture
	runs map[string]*fate

	lock sync.Mutex // guards what follows
	once map[string]error
}

// A fate is what is to become of a run, and what did.
type fate struct {
	resumed bool // its ResumePolicy has it started again
	attach  int  // the call of Start that its next attempt follows; 0 for none
	stored  bool // its end is stored already

	cancelled, warned, stopped int
	starts                     []session.WantedStart
	late                       int // calls of Start after an attempt followed
}

const (
	killTries = 3
	killTime  = 20 * time.Minute // in which a sweeper is done with all
)

// newWorld makes the runs, and has time go by until all are stalled.
func newWorld(f *fixture, hosted bool) *world {
	w := &world{fixture: f, runs: map[string]*fate{}, once: map[string]error{}}
	f.cfg.Interval, f.cfg.MaxCancellationsPerRun = time.Minute, watchdog.NoLimit
	for _, runID := range []string{"dead-000", "dead-001", "spent", "locked", "refused", "doubtful", "ended"} {
		w.runs[runID] = &fate{stored: runID == "ended"}
	}
	if hosted {
		f.cfg.Grace = 90 * time.Second
		for _, runID := range []string{"dead-000", "dead-001", "refused", "doubtful", "attaches", "later", "never"} {
			w.runs[runID] = &fate{resumed: true, attach: 1}
		}
		w.runs["later"].attach, w.runs["never"].attach = 2, 0
	}
	f.newHost("dead", 2)
	f.advance(11 * time.Minute)
	for i, runID := range w.names() {
		if runID != "dead-000" && runID != "dead-001" {
			f.put(runID, time.Hour-time.Duration(i)*time.Second)
			s := f.get(runID)
			if !w.runs[runID].resumed {
				s.Resumes = 1
			}
			f.row(s)
		}
	}
	f.storedEnd("ended", watchdog.EventCancel, `{"reason":"wall_clock_exceeded"}`)
	w.once["locked"] = session.ErrLocked
	w.once["refused"] = errors.New("refused")
	w.once["doubtful"] = errAnswerLost
	if !hosted {
		w.once["all"] = errAnswerLost
	}
	return w
}

var errAnswerLost = errors.New("answer lost")

// names are those of the runs, in an order.
func (w *world) names() (all []string) {
	for runID := range w.runs {
		all = append(all, runID)
	}
	slices.Sort(all)
	return all
}

// fault returns what goes wrong once.
func (w *world) fault(name string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	err := w.once[name]
	delete(w.once, name)
	return err
}

func (w *world) note(runID string, note func(f *fate)) {
	w.lock.Lock()
	defer w.lock.Unlock()
	note(w.runs[runID])
}

// start is what the Start of every process does.
func (w *world) start(s session.Session) (err error) {
	row, readErr := w.Memory.Session(context.Background(), s.RunID)
	w.note(s.RunID, func(f *fate) {
		f.starts = append(f.starts, s.Start)
		if row.Attempt > 1 {
			f.late++
		}
		if f.attach > len(f.starts) {
			err = errors.New("no worker")
		} else if f.attach == len(f.starts) {
			_, _, err = w.Attach(context.Background(), session.Session{
				RunID: s.RunID, StartedAt: time.Now(), Threshold: watchdog.NoLimit,
			})
		}
	})
	return errors.Join(readErr, err)
}

// A process has a sweeper. Its steps are the calls of its store and of its host's funcs. It can be killed before or
// after one: nothing that it does then has an effect.
type process struct {
	session.Store // nil, so that a call which is no step panics
	*world
	killAt int // 1 is the first step; 0 is none
	after  bool

	mu    sync.Mutex
	steps []string
	dead  chan struct{}
}

var errDead = errors.New("the process is dead")

func newProcess(w *world, killAt int, after bool) *process {
	return &process{world: w, killAt: killAt, after: after, dead: make(chan struct{})}
}

// step does a step, unless the process is dead.
func step[T any](p *process, name string, do func() (T, error)) (done T, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dead:
		return done, errDead
	default:
	}
	p.steps = append(p.steps, name)
	killed := len(p.steps) == p.killAt
	if !killed || p.after {
		done, err = do()
	}
	if killed {
		close(p.dead)
		var none T
		return none, errDead
	}
	return done, err
}

func (p *process) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	return step(p, "Stalled", func() (session.Page, error) { return p.Memory.Stalled(ctx, q) })
}

func (p *process) Session(ctx context.Context, runID string) (session.Session, error) {
	return step(p, "Session "+runID, func() (session.Session, error) { return p.Memory.Session(ctx, runID) })
}

func (p *process) Claim(ctx context.Context, s session.Session, c session.ClaimRequest) (session.Outcome, error) {
	name := "Claim "
	if c.Stopped {
		name = "note stopped "
	}
	return step(p, name+s.RunID, func() (session.Outcome, error) { return p.Memory.Claim(ctx, s, c) })
}

func (p *process) Warn(ctx context.Context, s session.Session, events []watchdog.Event) (session.Outcome, error) {
	return step(p, "Warn "+s.RunID, func() (session.Outcome, error) {
		outcome, err := p.Memory.Warn(ctx, s, events)
		if outcome == session.Done {
			p.note(s.RunID, func(f *fate) { f.warned++ })
		}
		return outcome, err
	})
}

func (p *process) Cancel(ctx context.Context, s session.Session, c session.CancelRequest) (session.Outcome, error) {
	return step(p, "Cancel "+s.RunID, func() (session.Outcome, error) {
		fault := p.fault(s.RunID)
		if fault != nil && !errors.Is(fault, errAnswerLost) {
			return "", fault
		}
		outcome, err := p.cancelOne(ctx, s, c)
		return outcome, errors.Join(err, fault)
	})
}

func (p *process) cancelOne(
	ctx context.Context, s session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	outcome, err := p.Memory.Cancel(ctx, s, c)
	if outcome == session.Done {
		p.note(s.RunID, func(f *fate) { f.cancelled++ })
	}
	return outcome, err
}

func (p *process) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	return step(p, "CancelAll", func() (outcomes []session.Outcome, err error) {
		for _, c := range all {
			outcome, oneErr := p.cancelOne(ctx, c.Judged, c.Request)
			outcomes, err = append(outcomes, outcome), errors.Join(err, oneErr)
		}
		return outcomes, errors.Join(err, p.fault("all"))
	})
}

func (p *process) ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	return step(p, "ObserveLeases", func() ([]session.Lease, error) { return p.Memory.ObserveLeases(ctx, suspects) })
}

func (p *process) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	left, err = step(p, "ExpireLease", func() (left int, err error) {
		expired, left, err = p.Memory.ExpireLease(ctx, l)
		return left, err
	})
	return expired && err == nil, left, err
}

func (p *process) ClaimStart(ctx context.Context, lasts time.Duration) (session.Session, error) {
	return step(p, "ClaimStart", func() (session.Session, error) { return p.Memory.ClaimStart(ctx, lasts) })
}

func (p *process) PutOffStart(ctx context.Context, s session.Session, pause time.Duration) (bool, error) {
	name := "put off the start of "
	if pause == session.NoMoreStarts {
		name = "give up the start of "
	}
	return step(p, name+s.RunID, func() (bool, error) { return p.Memory.PutOffStart(ctx, s, pause) })
}

// run has the process sweep until it dies or the time is over.
func (p *process) run(hosted bool, d time.Duration) {
	cfg := p.cfg
	if hosted {
		cfg.StopHook = func(_ context.Context, s session.Session) error {
			_, err := step(p, "StopHook "+s.RunID, func() (bool, error) {
				p.note(s.RunID, func(f *fate) { f.stopped++ })
				return true, nil
			})
			return err
		}
		cfg.Resume = sweep.ResumePolicy{Max: 1, Tries: killTries, Start: func(_ context.Context, s session.Session) error {
			_, err := step(p, "Start "+s.RunID, func() (bool, error) { return true, p.start(s) })
			return err
		}}
	}
	sweeper, err := sweep.New(p, p, cfg)
	require.NoError(p, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sweeper.Run(ctx) }()
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-p.dead:
	case <-over.C:
	}
	cancel()
	require.NoError(p, <-done)
}

// check requires that everything was done, and nothing twice but what may be. It returns how often the stop hook was
// called again.
func (w *world) check(hosted bool) (stoppedAgain int) {
	for _, runID := range w.names() {
		f := w.runs[runID]
		row := w.get(runID)
		require.Zero(w, row.Start, runID)
		if f.stored {
			require.Zero(w, f.cancelled+f.stopped+len(f.starts), runID)
			require.Equal(w, watchdog.WallClockExceeded, row.Reason)
			continue
		}
		require.Equal(w, 1, f.cancelled, "%s is cancelled once", runID)
		var ends []string
		events := w.stored(runID)
		for _, e := range events {
			if e.Type == watchdog.EventCancel {
				ends = append(ends, e.ID)
			}
		}
		require.Len(w, ends, 1, runID)
		if hosted {
			require.Equal(w, 1, f.warned, "%s is warned once", runID)
			require.Positive(w, f.stopped, "%s is stopped", runID)
			stoppedAgain += f.stopped - 1
		}
		w.checkStarts(runID, f, row, ends[0])
	}
	return stoppedAgain
}

func (w *world) checkStarts(runID string, f *fate, row session.Session, key string) {
	if !f.resumed {
		require.Empty(w, f.starts, runID)
		return
	}
	require.NotEmpty(w, f.starts, "%s is started", runID)
	require.LessOrEqual(w, len(f.starts), killTries, runID)
	require.Zero(w, f.late, "%s is not started after an attempt followed", runID)
	for _, s := range f.starts {
		require.Equal(w, key, s.Key, runID)
	}
	if f.attach > 0 {
		require.Equal(w, session.Active, row.Status, runID)
		require.Equal(w, 2, row.Attempt, runID)
	}
	require.Equal(w, 1, row.Resumes, runID)
}

// busy returns the steps until there is nothing left to do, and the first that find nothing.
func busy(steps []string) []string {
	last := len(steps)
	for last > 0 && slices.Contains([]string{"ClaimStart", "ObserveLeases", "Stalled"}, steps[last-1]) {
		last--
	}
	return steps[:last+3]
}

// beforeNoted reports whether a sweeper that is killed at a step may leave a session whose agents were stopped, and
// whose row does not say so yet.
func beforeNoted(step string) bool {
	kind, _, _ := strings.Cut(step, " ")
	return slices.Contains([]string{"StopHook", "Cancel", "Session", "note"}, kind)
}

// TestKill kills a sweeper before and after each of its steps, and has another one go on. The list of steps is that of
// a sweeper that lives.
func TestKill(t *testing.T) {
	for name, hosted := range map[string]bool{"with funcs of the host": true, "in batches": false} {
		t.Run(name, func(t *testing.T) {
			var steps []string
			inBubble(t, func(f *fixture) {
				w := newWorld(f, hosted)
				p := newProcess(w, 0, false)
				p.run(hosted, killTime)
				require.Zero(f, w.check(hosted))
				require.Empty(f, w.once, "each fault happened")
				require.NotContains(f, f.log.String(), "panic")
				steps = busy(p.steps)
			})
			t.Log(strings.Join(steps, ", "))
			for i := range steps {
				if racing.Enabled && i%5 > 0 {
					continue
				}
				for _, after := range []bool{false, true} {
					subtest(t, fmt.Sprintf("step %d %s %v", i+1, steps[i], after), func(f *fixture) {
						w := newWorld(f, hosted)
						p := newProcess(w, i+1, after)
						p.run(hosted, killTime)
						require.Len(f, p.steps, i+1)
						newProcess(w, 0, false).run(hosted, killTime)
						if again := w.check(hosted); !beforeNoted(p.steps[i]) {
							require.Zero(f, again)
						} else {
							require.LessOrEqual(f, again, 1)
						}
					})
				}
			}
		})
	}
}
