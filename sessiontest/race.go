package sessiontest

import (
	"context"
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
	{
		"of eight cancels at once one counts, and only its events are stored",
		"several sweepers on several hosts may judge one session in the same second",
		func(ctx context.Context, store session.Store) error {
			return eachRound(ctx, store, func(round int, s session.Session) error {
				winner, err := onlyWinner(session.Changed, func(caller int) (session.Outcome, error) {
					c := cancelOf(s.RunID)
					c.Events[0].ID = fmt.Sprintf("of caller %d in round %d", caller, round)
					return store.Cancel(ctx, s, c)
				})
				if err != nil {
					return err
				}
				return recorded(ctx, store, s.RunID, fmt.Sprintf("of caller %d in round %d", winner, round))
			})
		},
	},
	{
		"of eight cancels at once with one event one counts, and the row is as it requested",
		"the end of a window has one ID, whoever writes it: that the event is stored does not say by whom",
		func(ctx context.Context, store session.Store) error {
			return eachRound(ctx, store, func(_ int, s session.Session) error {
				winner, err := onlyWinner(session.Changed, func(caller int) (session.Outcome, error) {
					c := cancelOf(s.RunID)
					c.By = fmt.Sprint("caller ", caller)
					return store.Cancel(ctx, s, c)
				})
				if err != nil {
					return err
				}
				s.Status, s.Reason, s.Claim = session.Cancelled, why, fmt.Sprint("caller ", winner)
				return errors.Join(looksLike(ctx, store, s), recorded(ctx, store, s.RunID, "cancel of "+s.RunID))
			})
		},
	},
	{
		"if a run ends while it is cancelled, its event and its row say the same",
		"a run that was ended by its own limit and looks idle is stopped a second time, and resumed by a policy",
		func(ctx context.Context, store session.Store) error {
			return eachRound(ctx, store, func(round int, s session.Session) error {
				own := ownEnd(s.RunID, round%4 < 2)
				cancel, outcome := cancelOf(s.RunID), session.Outcome("")
				err := contract.AtOnce(2, func(caller int) (err error) {
					if caller == round%2 {
						return store.Append(ctx, own)
					}
					for outcome == "" && err == nil {
						outcome, err = store.Cancel(ctx, s, cancel)
						if errors.Is(err, session.ErrLocked) && ctx.Err() == nil {
							err = nil // by the append, which has not committed yet
						}
					}
					return err
				})
				if err != nil {
					return err
				}
				return agrees(ctx, store, s.RunID, outcome)
			})
		},
	},
}

// eachRound puts a silent session for each round, and runs the rounds one after the other.
func eachRound(ctx context.Context, store session.Store, run func(round int, s session.Session) error) error {
	for round := range rounds {
		s, err := putSilent(ctx, store, fmt.Sprint("race-", round), time.Hour)
		if err != nil {
			return err
		}
		if err := run(round, s); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// onlyWinner makes a call from eight goroutines at once, and returns the only one that was done. The other outcomes are
// those of losers.
func onlyWinner(lost session.Outcome, call func(caller int) (session.Outcome, error)) (winner int, err error) {
	outcomes := make([]session.Outcome, 8)
	err = contract.AtOnce(len(outcomes), func(caller int) (err error) {
		outcomes[caller], err = call(caller)
		if errors.Is(err, session.ErrLocked) {
			outcomes[caller], err = lost, nil // by the winner, which may not have committed yet
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	won := 0
	for caller, outcome := range outcomes {
		switch outcome {
		case lost:
		case session.Done:
			winner = caller
			won++
		default:
			return 0, fmt.Errorf("the outcomes are %q", outcomes)
		}
	}
	if won != 1 {
		return 0, fmt.Errorf("the outcomes are %q, want one that is %q", outcomes, session.Done)
	}
	return winner, nil
}

// ownEnd is the end that a run writes itself. It has the ID of a cancel's event.
func ownEnd(runID string, complete bool) watchdog.Event {
	e := cancelOf(runID).Events[0]
	e.Payload = []byte(`{"reason":"wall_clock_exceeded"}`)
	if complete {
		e.Type, e.Payload = watchdog.EventComplete, []byte(`{"completed_at":"2026-03-04T12:00:00Z"}`)
	}
	return e
}

// agrees checks that a run has one event, and that its row says what that says.
func agrees(ctx context.Context, store session.Store, runID string, outcome session.Outcome) error {
	if outcome != session.Done && outcome != session.EndStored {
		return fmt.Errorf("the outcome is %q, want %q or %q", outcome, session.Done, session.EndStored)
	}
	events, err := store.Read(ctx, watchdog.AggregateType, runID)
	if err != nil {
		return err
	}
	if len(events) != 1 {
		return fmt.Errorf("the run has the events %+v, want one", events)
	}
	status, reason := session.StoredEnd(events[0])
	s, err := look(ctx, store, runID)
	if err == nil && (s.Status != status || s.Reason != reason) {
		err = fmt.Errorf("the event is a %s with %s, and the row says %s with the reason %q",
			events[0].Type, events[0].Payload, s.Status, string(s.Reason))
	}
	return err
}
