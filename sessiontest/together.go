package sessiontest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var togetherRules = []rule{
	{"sessions that are cancelled together each have their own row and events",
		"one that stays active is cancelled again, and one without its event goes on at its next start",
		func(e *env) {
			all := putTogether(e, 0)
			cancelsAll(e, all, session.Done, session.Done, session.Done)
			areCancelled(e, all...)
		}},
	{"of sessions that are cancelled together one that woke up is left alone, and the others are cancelled",
		"a page is a second old, and its runs go on meanwhile",
		func(e *env) {
			all := putTogether(e, 0)
			awake := all[1].Judged
			awake.LastEventAt = awake.LastEventAt.Add(time.Microsecond)
			put(e, awake)
			cancelsAll(e, all, session.Done, session.Changed, session.Done)
			areCancelled(e, all[0], all[2])
			stands(e, awake)
		}},
	{"of sessions that are cancelled together one that is claimed is left alone, and the others are cancelled",
		"another sweeper is stopping its agents",
		func(e *env) {
			all := putTogether(e, 0)
			s := all[2].Judged
			claims(e, s, "pass-2", session.Done)
			cancelsAll(e, all, session.Done, session.Done, session.Taken)
			areCancelled(e, all[:2]...)
			s.Claim = "pass-2"
			stands(e, s)
		}},
	{"of sessions that are cancelled together one whose end is stored has that end, at the latest after a cancel alone",
		"the events and the row of a run name one reason",
		func(e *env) {
			all := putTogether(e, 0)
			s := all[0].Judged
			appends(e, ownEnd(s.RunID, true))
			cancelsAll(e, all, session.EndStored, session.Done, session.Done)
			outcome, err := e.Store.Cancel(e.Ctx, s, all[0].Request)
			must(err, "cancel %q alone", s.RunID)
			require(outcome == session.EndStored || outcome == session.Changed, "alone the outcome is %q", outcome)
			agrees(e, s.RunID, session.EndStored)
			areCancelled(e, all[1:]...)
		}},
	{"of sessions that are cancelled together none is if an event is invalid",
		"the sweeper takes an error for a transaction that was rolled back, or whose answer was lost",
		func(e *env) {
			all := putTogether(e, 0)
			all[2].Request.Events = []watchdog.Event{cancelEvent("", all[2].Judged.RunID, noon)}
			_, err := contract.Optional[session.BatchCanceller](e).CancelAll(e.Ctx, all)
			require(errors.Is(err, watchdog.ErrInvalid), "the error is %w, want watchdog.ErrInvalid", err)
			for _, c := range all {
				stands(e, c.Judged)
			}
		}},
	{"of eight that cancel the same sessions together one cancels each, and only its events are stored",
		"several sweepers on several hosts may have the same page",
		func(e *env) {
			for round := range rounds {
				contract.Part(fmt.Sprint("round ", round), func() { onlyOneCancels(e, putTogether(e, round)) })
			}
		}},
}

// putTogether writes three sessions to be cancelled, others in each round.
func putTogether(e *env, round int) []session.BatchedCancel {
	now := clockOf(e)
	var all []session.Session
	for i := range 3 {
		all = append(all, silentSession(fmt.Sprintf("run-%d-%d", round, i), now, time.Duration(i+1)*time.Hour))
	}
	put(e, all...)
	return batchOf(all)
}

func batchOf(all []session.Session) (batch []session.BatchedCancel) {
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
