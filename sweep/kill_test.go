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
	"github.com/seed62658d38/watchdog/event"
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
	f.storedEnd("ended", event.Cancel, `{"reason":"wall_clock_exceeded"}`)
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

func (p *process) cancelOne(ctx context.Context, s session.Session, c session.CancelRequest) (session.Outcome, error) {
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
			if e.Type == event.Cancel {
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

// A startCall is one call of Start.
type startCall struct {
	after time.Duration
	start session.WantedStart
}

// starts has the first calls of Start fail, and returns them. No attempt follows any of them.
func (f *fixture) starts(tries, failing int) *[]startCall {
	began, calls := time.Now(), &[]startCall{}
	f.cfg.Resume = sweep.ResumePolicy{Max: 3, Tries: tries, Start: func(_ context.Context, s session.Session) error {
		if *calls = append(*calls, startCall{time.Since(began), s.Start}); len(*calls) <= failing {
			return errors.New("no worker")
		}
		return nil
	}}
	return calls
}

// attach begins an attempt of a run, which is silent from then on.
func (f *fixture) attach(runID string) {
	f.Helper()
	_, _, err := f.Attach(context.Background(), session.Session{RunID: runID, StartedAt: time.Now()})
	require.NoError(f, err)
}

func times(calls []startCall) (all []time.Duration) {
	for _, c := range calls {
		all = append(all, c.after)
	}
	return all
}

// TestStarts: a start is tried again until an attempt of the run follows, or until it was tried often enough.
func TestStarts(t *testing.T) {
	const minute = time.Minute
	run := func(f *fixture, d time.Duration) {
		f.put("s-1", time.Hour)
		stop := f.run()
		f.advance(d)
		stop()
	}
	for name, failing := range map[string]int{"that fails": 100, "that no attempt follows": 0} {
		subtest(t, "one "+name+" is tried after growing waits, with one key, and then given up", func(f *fixture) {
			calls := f.starts(5, failing)
			run(f, 48*time.Hour)
			require.Equal(f, []time.Duration{0, 5 * minute, 10 * minute, 20 * minute, 40 * minute}, times(*calls))
			events := f.stored("s-1")
			for i, c := range *calls {
				require.Equal(f, events[len(events)-1].ID, c.start.Key)
				require.Equal(f, i+1, c.start.Tries)
			}
			row := f.get("s-1")
			require.Zero(f, row.Start)
			require.Equal(f, 1, row.Resumes, "it is one resume")
			require.Equal(f, 5-min(failing, 5), f.sweeper().Stats().Resumed)
			says := "run s-1 is not resumed any more: Start was called 5 times, and no attempt followed; " +
				"find out why, and resume the run by hand"
			if failing > 0 {
				says += ": no worker"
			}
			require.Contains(f, f.log.String(), `"error":"`+says+`"`)
			require.Contains(f, f.log.String(), `"a cancelled session is not resumed any more","run":"s-1","tries":5`)
		})
	}
	subtest(t, "ten times by default", func(f *fixture) {
		calls := f.starts(0, 100)
		run(f, 2*24*time.Hour)
		require.Len(f, *calls, sweep.DefaultResumeTries)
	})
	for name, follows := range map[string]func(f *fixture){
		"an attempt follows": func(f *fixture) { f.attach("s-1") },
		"it is active again": func(f *fixture) {
			row := f.get("s-1")
			row.Status, row.LastEventAt = session.Active, time.Now()
			f.row(row)
		},
	} {
		subtest(t, "not if "+name, func(f *fixture) {
			calls := f.starts(9, 100)
			f.put("s-1", time.Hour)
			f.fails("resume run s-1: no worker")
			follows(f)
			for range 3 {
				f.advance(3 * minute)
				f.pass()
			}
			require.Len(f, *calls, 1)
		})
	}
	subtest(t, "nobody is told of one given up whose run attached during its last try", func(f *fixture) {
		f.put("s-1", time.Hour)
		f.cfg.Resume = sweep.ResumePolicy{Max: 1, Tries: 1, Start: func(context.Context, session.Session) error {
			f.attach("s-1")
			return errors.New("answer lost")
		}}
		_, err := f.sweeper().Sweep(f.Context())
		require.EqualError(f, err, "resume run s-1: answer lost")
	})
	subtest(t, "each resume has its tries and its key, up to the last, and is told of the row as it is", func(f *fixture) {
		calls := f.starts(2, 0)
		start := f.cfg.Resume.Start
		f.cfg.Resume.Start = func(ctx context.Context, s session.Session) error {
			row := f.get(s.RunID)
			s.EndedAt, s.Start.Due = row.EndedAt, row.Start.Due
			require.Equal(f, row, s)
			return start(ctx, s)
		}
		f.put("s-1", time.Hour)
		for range 3 {
			require.Equal(f, 1, f.pass().Cancelled)
			f.advance(3 * minute)
			f.pass()
			f.attach("s-1")
			f.advance(11 * minute)
		}
		require.Equal(f, 1, f.pass().Cancelled)
		require.Len(f, *calls, 6, "three resumes with two tries each")
		keys := map[string]int{}
		for _, c := range *calls {
			keys[c.start.Key]++
		}
		require.Len(f, keys, 3)
		require.Equal(f, 3, f.get("s-1").Resumes)
		require.Equal(f, 6, f.sweeper().Stats().Resumed, "calls of Start that worked")
	})
}

// TestStartsTakenOver: any sweeper with a policy starts the runs whose sweeper died.
func TestStartsTakenOver(t *testing.T) {
	// died has a sweeper cancel runs and die before it calls Start.
	died := func(f *fixture, runs int) {
		for _, runID := range f.putStalled(runs) {
			s := f.get(runID)
			outcome, err := f.Memory.Cancel(f.Context(), s, session.CancelRequest{
				By: "dead sweeper", Reason: watchdog.SessionIdleTimeout, Resumes: 1, StartFor: claimFor,
				Events: []watchdog.Event{{
					ID: "cancel " + runID, AggregateType: event.AggregateType, AggregateID: runID,
					Type: event.Cancel, Payload: []byte("{}"), Timestamp: time.Now(),
				}},
			})
			require.NoError(f, err)
			require.Equal(f, session.Done, outcome)
		}
	}
	subtest(t, "when the claim is over, by one of them", func(f *fixture) {
		calls := f.starts(0, 0)
		died(f, 3)
		f.pass()
		require.Empty(f, *calls)
		f.advance(claimFor)
		require.Equal(f, sweep.Tally{Resumed: 3}, f.pass().Tally)
		require.Equal(f, 2, (*calls)[0].start.Tries)
		f.made = nil
		require.Zero(f, f.pass().Tally, "the others know")
	})
	subtest(t, "not by one without a policy, nor in a dry run", func(f *fixture) {
		died(f, 1)
		f.advance(time.Hour)
		require.Zero(f, f.pass().Tally)
		calls := f.starts(0, 0)
		f.made, f.cfg.DryRun = nil, true
		f.pass()
		require.Empty(f, *calls)
		f.made, f.cfg.DryRun = nil, false
		require.Equal(f, 1, f.pass().Resumed)
	})
	subtest(t, "and are given up after the tries that died", func(f *fixture) {
		calls := f.starts(2, 0)
		died(f, 1)
		f.advance(claimFor)
		_, err := f.Memory.ClaimStart(f.Context(), time.Minute)
		require.NoError(f, err)
		f.advance(time.Minute)
		f.fails("run s-00 is not resumed any more: Start was called 2 times")
		require.Empty(f, *calls)
		f.advance(time.Hour)
		require.Zero(f, f.pass().Tally)
	})
	subtest(t, "no longer than for a while in a pass, and the next one comes at once", func(f *fixture) {
		calls := f.starts(0, 0)
		start := f.cfg.Resume.Start
		f.cfg.Resume.Start = func(ctx context.Context, s session.Session) error {
			time.Sleep(10 * time.Second) // fake time
			return start(ctx, s)
		}
		died(f, 10)
		f.advance(claimFor)
		require.Equal(f, 3, f.pass().Resumed)
		f.made = nil
		defer f.run()()
		f.advance(75 * time.Second)
		require.Len(f, *calls, 10)
	})
	subtest(t, "and many that fail end this, not the pass", func(f *fixture) {
		calls := f.starts(0, 100)
		died(f, 15)
		f.advance(claimFor)
		f.put("next", time.Hour)
		p := f.fails("")
		require.Equal(f, 1, p.Cancelled)
		require.Len(f, *calls, 10+1)
	})
	subtest(t, "beside a row that cannot be read", func(f *fixture) {
		f.starts(0, 0)
		died(f, 2)
		f.advance(claimFor)
		require.NoError(f, f.Spoil(f.Context(), "s-00"))
		p, err := f.sweeper().Sweep(f.Context())
		require.ErrorIs(f, err, session.ErrUnreadable)
		require.Equal(f, 1, p.Resumed)
	})
}

// TestStartsThatCannotBeNoted: what cannot be written about a start is due again after its claim.
func TestStartsThatCannotBeNoted(t *testing.T) {
	down := errors.New("down")
	for name, test := range map[string]struct {
		claim, putOff error
		tries         int
		says          string
	}{
		"a claim":   {claim: down, says: "down"},
		"a pause":   {putOff: down, says: "put off the next start of run s-1: down"},
		"an ending": {putOff: down, tries: 1, says: "give up the start of run s-1: down"},
	} {
		subtest(t, name, func(f *fixture) {
			f.put("s-1", time.Hour)
			calls := f.starts(test.tries, 1)
			starts := &failingStarts{fixture: f, claim: test.claim, putOff: test.putOff}
			f.use(starts)
			f.fails(test.says)
			require.Len(f, *calls, 1)
			f.advance(claimFor)
			*starts = failingStarts{fixture: f}
			if test.tries == 1 {
				f.fails("run s-1 is not resumed any more")
				return
			}
			f.pass()
			if test.claim != nil { // the start was put off
				require.Len(f, *calls, 1)
				f.advance(5 * time.Minute)
				f.pass()
			}
			require.Len(f, *calls, 2)
			require.Equal(f, (*calls)[0].start.Key, (*calls)[1].start.Key)
			require.Equal(f, 2, (*calls)[1].start.Tries)
		})
	}
}

type failingStarts struct {
	*fixture
	claim, putOff error
}

func (s *failingStarts) ClaimStart(ctx context.Context, lasts time.Duration) (session.Session, error) {
	if s.claim != nil {
		return session.Session{}, s.claim
	}
	return s.fixture.ClaimStart(ctx, lasts)
}

func (s *failingStarts) PutOffStart(ctx context.Context, of session.Session, pause time.Duration) (bool, error) {
	if s.putOff != nil {
		return false, s.putOff
	}
	return s.fixture.PutOffStart(ctx, of, pause)
}

// TestStartsOfOtherCancellers: one that keeps no starts has Start called once, right after the cancel.
func TestStartsOfOtherCancellers(t *testing.T) {
	for _, lost := range []bool{false, true} {
		subtest(t, fmt.Sprint("with the answer lost: ", lost), func(f *fixture) {
			calls := f.starts(0, 100)
			f.put("s-1", time.Hour)
			if lost {
				f.after = func() error { return errors.New("connection lost") }
			}
			f.use(noAppend{keepsNoStart{f}})
			f.fails("resume run s-1: no worker")
			for range 3 {
				f.advance(time.Hour)
				f.pass()
			}
			require.Len(f, *calls, 1)
			require.NotEmpty(f, (*calls)[0].start.Key)
		})
	}
}

// keepsNoStart is a canceller whose rows do not say that a start is wanted.
type keepsNoStart struct{ *fixture }

func (k keepsNoStart) Cancel(ctx context.Context, s session.Session, c session.CancelRequest) (session.Outcome, error) {
	c.StartFor = 0
	return k.fixture.Cancel(ctx, s, c)
}
