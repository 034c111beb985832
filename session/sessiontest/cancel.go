package sessiontest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var cancelRules = []rule{
	{"a session that has not changed is cancelled, as requested",
		"the run's own watchdog and operators read the row", given2(toCancel, func(e *env, s row, c session.CancelRequest) {
			c.Reason, c.Resumes, c.StopFailed = "watchdog_idle_timeout", 3, true
			cancelsAs(e, s, c, session.Done)
			s.Status, s.Reason, s.Resumes, s.StopFailed, s.Claim = session.Cancelled, c.Reason, 3, true, by
			looksLike(e, s)
		})},
	{"the events of a cancel are stored with it",
		"if a session ended and its run has no cancel event, the next start continues the run",
		given2(toCancel, func(e *env, s row, c session.CancelRequest) {
			advisory, terminal := warning(homeRun), cancelEvent("terminal", homeRun, noon.Add(time.Second))
			c.Events = []event.Event{advisory, terminal}
			cancelsAs(e, s, c, session.Done)
			recorded(e, homeRun, advisory.ID, terminal.ID)
		})},
	{"a cancel or a warning with an invalid event, and a cancel without one, is an error and changes nothing",
		"it is one transaction: nobody could find out why a row without its events was cancelled, or who was warned",
		given(silent, func(e *env, s row) {
			c, bad := cancelOf(homeRun), cancelEvent("", homeRun, noon)
			c.Events = append(c.Events, bad)
			outcome, err := e.Store.Cancel(e.Ctx, s, c)
			invalid(outcome, err)
			outcome, err = e.Store.Warn(e.Ctx, s, []event.Event{warning(homeRun), bad})
			invalid(outcome, err)
			outcome, err = e.Store.Cancel(e.Ctx, s, session.CancelRequest{By: by, Reason: why})
			require(outcome == "" && err != nil, "the outcome is %q and the error %w, want an error", outcome, err)
			stands(e, s)
		})},
	{"a session without events is cancelled like others",
		"in SQL NULL = NULL is not true: every pass would judge such a session, and none would end it",
		func(e *env) { cancels(e, putEventless(e), session.Done) }},
	{"of eight cancels at once one counts, its events are stored, and the row is as it requested",
		"several sweepers on several hosts may judge one session in one second, and the end of a window has one ID",
		eachRound(func(e *env, round int, s row) {
			eventOf := func(caller int) string {
				if round%2 == 0 {
					return "cancel of " + s.RunID
				}
				return fmt.Sprintf("of caller %d in round %d", caller, round)
			}
			winner := onlyWinner(session.Changed, func(caller int) (session.Outcome, error) {
				c := cancelOf(s.RunID)
				c.By, c.Events[0].ID = fmt.Sprint("caller ", caller), eventOf(caller)
				return e.Store.Cancel(e.Ctx, s, c)
			})
			s.Status, s.Reason, s.Claim = session.Cancelled, why, fmt.Sprint("caller ", winner)
			stands(e, s, eventOf(winner))
		})},
	{"if a run ends while it is cancelled, its event and its row say the same",
		"a run that was ended by its own limit and looks idle is stopped a second time, and resumed by a policy",
		eachRound(func(e *env, round int, s row) {
			var outcome session.Outcome
			contract.StepsAtOnce(2, func(caller int) {
				if caller == round%2 {
					appends(e, ownEnd(s.RunID, round%4 < 2))
					return
				}
				for outcome == "" {
					var err error
					outcome, err = e.Store.Cancel(e.Ctx, s, cancelOf(s.RunID))
					if !errors.Is(err, session.ErrLocked) || e.Ctx.Err() != nil { // by the append, which has not committed yet
						must(err, "cancel %q", s.RunID)
					}
				}
			})
			agrees(e, s.RunID, outcome)
		})},
	{"of sessions that are cancelled together each has its own row and events, or is left alone, as if alone",
		"one woke up meanwhile, another sweeper stops the agents of one, and the end of one was stored by its own host",
		given(together, func(e *env, all []session.BatchedCancel) {
			awake, taken, stored := all[1].Judged, all[2].Judged, all[3].Judged
			awake.LastEventAt = awake.LastEventAt.Add(time.Microsecond)
			put(e, awake)
			claims(e, taken, "pass-2", session.Done)
			appends(e, ownEnd(stored.RunID, true))
			cancelsAll(e, all, session.Done, session.Changed, session.Taken, session.EndStored, session.Done)
			areCancelled(e, all[0], all[4])
			stands(e, awake)
			taken.Claim = "pass-2"
			stands(e, taken)
			outcome, err := e.Store.Cancel(e.Ctx, stored, all[3].Request) // at the latest then
			must(err, "cancel %q alone", stored.RunID)
			require(outcome == session.EndStored || outcome == session.Changed, "alone the outcome is %q", outcome)
			agrees(e, stored.RunID, session.EndStored)
		})},
	{"of sessions that are cancelled together none is if an event is invalid",
		"the sweeper takes an error for a transaction that was rolled back, or whose answer was lost",
		given(together, func(e *env, all []session.BatchedCancel) {
			all[2].Request.Events = []event.Event{cancelEvent("", all[2].Judged.RunID, noon)}
			_, err := contract.Optional[session.BatchCanceller](e).CancelAll(e.Ctx, all)
			require(errors.Is(err, event.ErrInvalid), "the error is %w, want event.ErrInvalid", err)
			for _, c := range all {
				stands(e, c.Judged)
			}
		})},
	{"of eight that cancel the same sessions together one cancels each, and only its events are stored",
		"sweepers may have the same page", inRounds(func(e *env, round int) { onlyOneCancels(e, putTogether(e, round)) })},
}

// putEventless writes a session that never had an event.
func putEventless(e *env) row {
	s := silentSession(homeRun, clockOf(e), 0)
	s.LastEventAt = time.Time{}
	put(e, s)
	return s
}

// invalid checks that a call did nothing about an event that is invalid.
func invalid(outcome session.Outcome, err error) {
	require(outcome == "" && errors.Is(err, event.ErrInvalid),
		"the outcome is %q and the error %w, want event.ErrInvalid", outcome, err)
}

// rounds is how often a race is run. One round finds a store without a lock only sometimes.
const rounds = 20

// eachRound puts a silent session for each round, and runs the rounds one after the other.
func eachRound(run func(e *env, round int, s row)) func(e *env) {
	return inRounds(func(e *env, round int) { run(e, round, putSilent(e, fmt.Sprint("race-", round), time.Hour)) })
}

func inRounds(run func(e *env, round int)) func(e *env) {
	return func(e *env) {
		for round := range rounds {
			contract.Part(fmt.Sprint("round ", round), func() { run(e, round) })
		}
	}
}

// onlyWinner makes a call from eight goroutines at once, and returns the only one that was done. The others have lost.
func onlyWinner(lost session.Outcome, call func(caller int) (session.Outcome, error)) (winner int) {
	outcomes := make([]session.Outcome, 8)
	contract.StepsAtOnce(len(outcomes), func(caller int) {
		outcome, err := call(caller)
		if errors.Is(err, session.ErrLocked) {
			outcome, err = lost, nil // by the winner, which may not have committed yet
		}
		must(err, "call %d", caller)
		outcomes[caller] = outcome
	})
	others := slices.DeleteFunc(slices.Clone(outcomes), func(o session.Outcome) bool { return o == lost })
	require(slices.Equal(others, []session.Outcome{session.Done}),
		"the outcomes are %q, want one that is %q, and %q", outcomes, session.Done, lost)
	return slices.Index(outcomes, session.Done)
}

// agrees checks that a run has one event, and that its row says what that says.
func agrees(e *env, runID string, outcome session.Outcome) {
	require(outcome == session.Done || outcome == session.EndStored, "the outcome is %q", outcome)
	events, err := e.Store.Read(e.Ctx, event.AggregateType, runID)
	must(err, "read the events of %q", runID)
	require(len(events) == 1, "the run has the events %+v, want one", events)
	status, reason := session.StoredEnd(events[0])
	s := look(e, runID)
	require(s.Status == status && s.Reason == reason, "the event is %+v, and the row %+v", events[0], s)
}

func together(e *env) []session.BatchedCancel { return putTogether(e, 0) }

// putTogether writes five sessions to be cancelled, others in each round.
func putTogether(e *env, round int) []session.BatchedCancel {
	now := clockOf(e)
	var all []row
	for i := range 5 {
		all = append(all, silentSession(fmt.Sprintf("run-%d-%d", round, i), now, time.Duration(i+1)*time.Hour))
	}
	put(e, all...)
	return batchOf(all)
}

func batchOf(all []row) (batch []session.BatchedCancel) {
	for _, s := range all {
		batch = append(batch, session.BatchedCancel{Judged: s, Request: cancelOf(s.RunID)})
	}
	return batch
}

// cancelsAll checks the outcomes. Of a session that is not cancelled nothing may have been decided.
func cancelsAll(e *env, all []session.BatchedCancel, want ...session.Outcome) {
	outcomes, err := contract.Optional[session.BatchCanceller](e).CancelAll(e.Ctx, all)
	must(err, "cancel %d sessions together", len(all))
	same := slices.EqualFunc(outcomes, want, func(got, want session.Outcome) bool {
		return got == want || got == "" && want != session.Done
	})
	require(same, "the outcomes are %q, want %q", outcomes, want)
}

// areCancelled checks that sessions were cancelled as requested.
func areCancelled(e *env, all ...session.BatchedCancel) {
	for _, c := range all {
		s := c.Judged
		s.Status, s.Reason, s.Claim = session.Cancelled, c.Request.Reason, c.Request.By
		stands(e, s, eventIDs(c.Request.Events)...)
	}
}

// onlyOneCancels cancels the sessions from eight goroutines at once, each in another order.
func onlyOneCancels(e *env, all []session.BatchedCancel) {
	batch := contract.Optional[session.BatchCanceller](e)
	var outcomes [8]map[string]session.Outcome
	contract.StepsAtOnce(len(outcomes), func(caller int) {
		own := slices.Clone(all)
		for i := range own {
			own[i].Request.By = fmt.Sprint("caller ", caller)
		}
		if caller%2 == 1 {
			slices.Reverse(own)
		}
		decided, err := batch.CancelAll(e.Ctx, own)
		must(err, "cancel %d sessions together", len(own))
		outcomes[caller] = map[string]session.Outcome{}
		for i, outcome := range decided {
			outcomes[caller][own[i].Judged.RunID] = outcome
		}
	})
	for _, c := range all {
		won := 0
		for caller, decided := range outcomes {
			if decided[c.Judged.RunID] == session.Done {
				won++
				c.Request.By = fmt.Sprint("caller ", caller)
			}
		}
		require(won == 1, "%d of %d calls cancelled run %s: %q", won, len(outcomes), c.Judged.RunID, outcomes)
		areCancelled(e, c)
	}
}
