package sessiontest

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

// rounds is how often a race is run. One round finds a store without a lock only sometimes.
const rounds = 20

var raceRules = []rule{
	{"of eight cancels at once one counts, and only its events are stored",
		"several sweepers on several hosts may judge one session in the same second",
		func(e *env) {
			eachRound(e, func(round int, s session.Session) {
				eventOf := func(caller int) string { return fmt.Sprintf("of caller %d in round %d", caller, round) }
				winner := onlyWinner(session.Changed, func(caller int) (session.Outcome, error) {
					c := cancelOf(s.RunID)
					c.Events[0].ID = eventOf(caller)
					return e.Store.Cancel(e.Ctx, s, c)
				})
				recorded(e, s.RunID, eventOf(winner))
			})
		}},
	{"of eight cancels at once with one event one counts, and the row is as it requested",
		"the end of a window has one ID, whoever writes it: that the event is stored does not say by whom",
		func(e *env) {
			eachRound(e, func(_ int, s session.Session) {
				winner := onlyWinner(session.Changed, func(caller int) (session.Outcome, error) {
					c := cancelOf(s.RunID)
					c.By = fmt.Sprint("caller ", caller)
					return e.Store.Cancel(e.Ctx, s, c)
				})
				s.Status, s.Reason, s.Claim = session.Cancelled, why, fmt.Sprint("caller ", winner)
				stands(e, s, "cancel of "+s.RunID)
			})
		}},
	{"if a run ends while it is cancelled, its event and its row say the same",
		"a run that was ended by its own limit and looks idle is stopped a second time, and resumed by a policy",
		func(e *env) {
			eachRound(e, func(round int, s session.Session) {
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
			})
		}},
}

// eachRound puts a silent session for each round, and runs the rounds one after the other.
func eachRound(e *env, run func(round int, s session.Session)) {
	for round := range rounds {
		contract.Part(fmt.Sprint("round ", round), func() {
			run(round, putSilent(e, fmt.Sprint("race-", round), time.Hour))
		})
	}
}

// onlyWinner makes a call from eight goroutines at once, and returns the only one that was done. The other outcomes are
// those of losers.
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
	won := 0
	for caller, outcome := range outcomes {
		require(outcome == lost || outcome == session.Done, "the outcomes are %q", outcomes)
		if outcome == session.Done {
			winner = caller
			won++
		}
	}
	require(won == 1, "the outcomes are %q, want one that is %q", outcomes, session.Done)
	return winner
}

// agrees checks that a run has one event, and that its row says what that says.
func agrees(e *env, runID string, outcome session.Outcome) {
	require(outcome == session.Done || outcome == session.EndStored,
		"the outcome is %q, want %q or %q", outcome, session.Done, session.EndStored)
	events, err := e.Store.Read(e.Ctx, watchdog.AggregateType, runID)
	must(err, "read the events of %q", runID)
	require(len(events) == 1, "the run has the events %+v, want one", events)
	status, reason := session.StoredEnd(events[0])
	s := look(e, runID)
	require(s.Status == status && s.Reason == reason,
		"the event is a %s with %s, and the row says %s with the reason %q",
		events[0].Type, events[0].Payload, s.Status, string(s.Reason))
}
