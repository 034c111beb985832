package sessiontest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var startRules = []rule{
	{"a cancel can want a start of its run, which is claimed by then",
		"the sweeper that cancelled the run is about to start it, and may die before it does", func(e *env) {
			from := clockOf(e)
			s := toStart(e, "wanted")
			to := clockOf(e)
			require(s.Status == session.Cancelled && s.Start.Key == "cancel of wanted" && s.Start.Tries == 1,
				"the row is %+v", s)
			within("Due", s.Start.Due, from.Add(time.Hour), to.Add(time.Hour))
			if _, ok := e.Store.(session.Lister); ok {
				page := list(e, session.ListQuery{})
				require(len(page.Sessions) == 1, "listed are %+v", page.Sessions)
				equal(page.Sessions[0], s)
			}
			noneDue(e)
		}},
	{"sessions that are cancelled together can each want a start",
		"a page of runs that are to be started again costs one transaction", func(e *env) {
			var rows []row
			for _, runID := range []string{"batched-1", "batched-2", "batched-3"} {
				rows = append(rows, attach(e, newSession(runID)))
			}
			all := batchOf(rows)
			all[0].Request.StartFor, all[2].Request.StartFor = time.Hour, time.Hour
			cancelsAll(e, all, session.Done, session.Done, session.Done)
			wants(e, "batched-1", 1)
			wants(e, "batched-2", 0)
			wants(e, "batched-3", 1)
		}},
	{"no start is wanted after a cancel that does not say so, or that finds an end that is stored",
		"a run that has ended by itself would be started again", func(e *env) {
			s, ended := attach(e, newSession("unwanted")), attach(e, newSession("ended before"))
			c := cancelOf(ended.RunID)
			c.StartFor = time.Microsecond
			appends(e, ownEnd(ended.RunID, false))
			cancels(e, s, session.Done)
			cancelsAs(e, ended, c, session.EndStored)
			wants(e, s.RunID, 0)
			wants(e, ended.RunID, 0)
			noneDue(e)
		}},
	{"a start that is due is claimed with the same key at each try, and its tries are counted",
		"the key says that it was started before, and the tries when to give up", given(due("again"), func(e *env, s row) {
			for s.Start.Tries = 2; s.Start.Tries < 5; s.Start.Tries++ {
				claimed := claimsStart(e, s)
				looksLike(e, claimed)
				putsOff(e, claimed, 0, true)
			}
		})},
	{"a start that was claimed or put off is not due before that is over, after a day at most",
		"the run would be started twice at once; and one that is due later is one of a clock that was set back since",
		given(due("later"), func(e *env, s row) {
			s.Start.Tries = 2
			claimed := claimsStart(e, s)
			noneDue(e)
			for _, pause := range []time.Duration{2 * time.Hour, 7 * day} {
				from := clockOf(e)
				putsOff(e, claimed, pause, true)
				noneDue(e)
				lasts := min(pause, day)
				within("Due", look(e, s.RunID).Start.Due, from.Add(lasts), clockOf(e).Add(lasts))
			}
		})},
	{"the start that has been due for the longest time is claimed first",
		"behind others that are tried again and again it would never have its turn", func(e *env) {
			third, first, second := toStart(e, "order-3"), toStart(e, "order-1"), toStart(e, "order-2")
			for _, s := range []row{first, second, third} {
				putsOff(e, s, 0, true)
			}
			for _, s := range []row{first, second, third} {
				s.Start.Tries = 2
				claimsStart(e, s)
			}
		}},
	{"of eight claims at once each takes another start that is due",
		"several sweepers on several hosts look for starts in the same second", func(e *env) {
			claimed := make([]string, 8)
			want := slices.Clone(claimed)
			for i := range want[3:] {
				want[3+i] = dueStart(e, fmt.Sprint("race-", i)).RunID
			}
			contract.StepsAtOnce(len(claimed), func(caller int) {
				s, err := e.Store.ClaimStart(e.Ctx, time.Hour)
				if !errors.Is(err, session.ErrNotFound) {
					must(err, "claim a start")
				}
				claimed[caller] = s.RunID
			})
			slices.Sort(claimed)
			require(slices.Equal(claimed, want), "claimed are %q, want %q", claimed, want)
		}},
	{"only the latest claim of a start can put it off or give it up",
		"a sweeper that was stopped for long does not know that another one has taken the start over", func(e *env) {
			late := dueStart(e, "late")
			s := late
			s.Start.Tries = 2
			s = claimsStart(e, s)
			otherKey, otherAttempt := s, s
			otherKey.Start.Key, otherAttempt.Attempt = "another", s.Attempt+1
			putsOff(e, late, 0, false)
			putsOff(e, late, session.NoMoreStarts, false)
			putsOff(e, otherKey, 0, false)
			putsOff(e, otherAttempt, 0, false)
			looksLike(e, s)
			putsOff(e, s, 2*time.Hour, true)
		}},
	{"a start that was given up, or followed by the next attempt of its run, is not wanted any more",
		"a run that cannot be started would be tried for ever, and one that goes on be started beside that", func(e *env) {
			given := dueStart(e, "given up")
			putsOff(e, given, session.NoMoreStarts, true)
			wants(e, given.RunID, 0)
			before := dueStart(e, "attached")
			s, c := attach(e, newSession(before.RunID)), cancelOf(before.RunID)
			c.Events[0].ID = "second cancel"
			gone := func() {
				noneDue(e)
				putsOff(e, given, 0, false)
				putsOff(e, before, 0, false)
				wants(e, s.RunID, 0)
			}
			gone()
			cancelsAs(e, s, c, session.Done)
			gone()
		}},
	{"a row that cannot be read does not hold up the other starts",
		"one row that another program wrote would keep all cancelled runs from going on", func(e *env) {
			contract.Optional[Putter](e)
			spoilt, s := dueStart(e, "a-spoilt"), dueStart(e, "b-sound")
			spoil(e, spoilt.RunID)
			_, err := e.Store.ClaimStart(e.Ctx, time.Hour)
			unreadable(err, spoilt.RunID)
			s.Start.Tries = 2
			claimsStart(e, s)
			noneDue(e)
		}},
}

// toStart attaches to a run, has it cancelled with a start that is claimed for an hour, and returns its row.
func toStart(e *env, runID string) row {
	c := cancelOf(runID)
	c.StartFor = time.Hour
	cancelsAs(e, attach(e, newSession(runID)), c, session.Done)
	return look(e, runID)
}

func due(runID string) func(e *env) row {
	return func(e *env) row { return dueStart(e, runID) }
}

// dueStart is toStart with a start that is due.
func dueStart(e *env, runID string) row {
	s := toStart(e, runID)
	putsOff(e, s, 0, true)
	return s
}

// wants checks how often the start of a run was claimed; 0 is that of a run of which none is wanted.
func wants(e *env, runID string, tries int) {
	start := look(e, runID).Start
	require(start.Tries == tries && (start.Key == "") == (tries == 0), "%s wants %+v, want %d tries", runID, start, tries)
}

// claimsStart claims a start for an hour, and checks that it is that of a session, with its key and its tries.
func claimsStart(e *env, want row) row {
	s, err := e.Store.ClaimStart(e.Ctx, time.Hour)
	must(err, "claim the start of %s", want.RunID)
	want.Start.Due = s.Start.Due
	equal(s, want)
	return s
}

func noneDue(e *env) {
	s, err := e.Store.ClaimStart(e.Ctx, time.Hour)
	require(errors.Is(err, session.ErrNotFound), "the claim of a start returned %+v and %w, want ErrNotFound", s, err)
}

func putsOff(e *env, s row, pause time.Duration, want bool) {
	done, err := e.Store.PutOffStart(e.Ctx, s, pause)
	must(err, "put off the start of %s", s.RunID)
	require(done == want, "put off the start of %s, claimed %d times, for %v: %v", s.RunID, s.Start.Tries, pause, done)
}
