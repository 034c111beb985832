package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

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
	subtest(t, "each resume has its tries and its key", func(f *fixture) {
		calls := f.starts(2, 0)
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
					ID: "cancel " + runID, AggregateType: watchdog.AggregateType, AggregateID: runID,
					Type: watchdog.EventCancel, Payload: []byte("{}"), Timestamp: time.Now(),
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

func (k keepsNoStart) Cancel(
	ctx context.Context, s session.Session, c session.CancelRequest,
) (session.Outcome, error) {
	c.StartFor = 0
	return k.fixture.Cancel(ctx, s, c)
}
