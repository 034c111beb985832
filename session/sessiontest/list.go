package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var listRules = []rule{
	{"sessions are listed newest first, by whether they are active and by parent, host and reason, which must all hold",
		"a page shows what runs apart from what has ended, the steps of a run, and the runs of a host",
		given(putListed, func(e *env, all []string) {
			lists(e, session.ListQuery{}, all...)
			lists(e, session.ListQuery{Live: true}, "5", "3", "1")
			lists(e, session.ListQuery{Ended: true}, "6 ended", "4 ended", "2 ended", "0 ended")
			lists(e, session.ListQuery{Live: true, Ended: true}, all...)
			lists(e, session.ListQuery{Parent: "run-1"}, "6 ended", "3", "0 ended")
			lists(e, session.ListQuery{Parent: "run-_"})
			lists(e, session.ListQuery{Host: "host-2"}, "5", "4 ended", "1")
			lists(e, session.ListQuery{Host: "HOST-2"})
			lists(e, session.ListQuery{Reason: why}, "2 ended", "0 ended")
			lists(e, session.ListQuery{Live: true, Host: "host-2"}, "5", "1")
			lists(e, session.ListQuery{Ended: true, Parent: "run-1", Reason: why, Host: host}, "0 ended")
			lists(e, session.ListQuery{Live: true, Reason: why})
		})},
	{"sessions whose command failed are listed by that, and not as complete",
		"who asks what failed in the night does not want to read all that went well", func(e *env) {
			for runID, ending := range map[string]session.Ending{
				"1 done":      {Status: session.Finished, Reason: "complete"},
				"2 succeeded": {Status: session.Finished, Reason: "complete", State: []byte(`{"outcome":"succeeded"}`)},
				"3 failed":    {Status: session.Finished, Reason: "complete", State: []byte(`{"phase":"\"","outcome":"failed"}`)},
				"4 foreign":   {Status: session.Finished, Reason: "complete", State: []byte(`["outcome","failed"]`)},
				"5 stopped":   {Status: session.Cancelled, Reason: why, State: []byte(`{"outcome":"failed"}`)},
				"6 closed":    {Status: session.Finished, State: []byte(`{"outcome":"failed"}`)},
			} {
				ending.RunID, ending.Attempt = runID, attach(e, newSession(runID)).Attempt
				end(e, ending)
			}
			for reason, want := range map[watchdog.StopReason][]string{
				session.ReasonFailed: {"3 failed"},
				"complete":           {"1 done", "2 succeeded", "4 foreign"},
			} {
				got := names(list(e, session.ListQuery{Reason: reason}).Sessions)
				slices.Sort(got) // whichever was made first
				require(slices.Equal(got, want), "listed with the reason %s are %q, want %q", string(reason), got, want)
			}
		}},
	{"pages of a list follow each other without a gap and without a repeat",
		"sessions that were made at one moment must not hide each other", given(putListed, func(e *env, all []string) {
			for _, limit := range []int{1, 2, 3, len(all)} {
				found, _ := listPages(e, limit, len(all))
				require(slices.Equal(found, all), "pages of %d have %q, want %q", limit, found, all)
			}
		})},
	{"the next page of a list follows the last session, whatever was made meanwhile",
		"with an offset a page would repeat a session for each new one", given(putListed, func(e *env, all []string) {
			first := list(e, session.ListQuery{Limit: 3})
			attach(e, newSession("new"))
			lists(e, session.ListQuery{After: first.Next}, all[3:]...)
		})},
	{"a listed session is as its row is",
		"a page of a run must not say something else than the list", func(e *env) {
			state := []byte(`{"ending":{"signal":"SIGINT"}}`)
			_, s := vouchedFor(e, freshness{Activity: time.Hour + 1, Quiet: true, State: state})
			warns(e, s, session.Done)
			s = look(e, homeRun)
			page := list(e, session.ListQuery{})
			require(len(page.Sessions) == 1, "listed are %q", names(page.Sessions))
			equal(page.Sessions[0], s)
			within("Now", page.Now, s.WarnedAt, s.WarnedAt.Add(time.Hour))
		}},
	{"an unreadable session is reported on its page, and hides no other",
		"one bad row must not make a page empty", given(putListed, func(e *env, all []string) {
			spoil(e, all[3])
			found, unread := listPages(e, 2, len(all))
			want := slices.Delete(slices.Clone(all), 3, 4)
			require(slices.Equal(found, want) && len(unread) == 1, "listed are %q, want %q; unread %q", found, want, unread)
			unreadable(unread[0], all[3])
		})},
	{"a limit of less than 1, and an After that is not the end of a page, are errors",
		"an empty page would look as if nothing ran", func(e *env) {
			lister := contract.Optional[session.Lister](e)
			for _, wrong := range []session.ListQuery{{}, {Limit: -1}, {Limit: 1, After: "yesterday"}} {
				_, err := lister.List(e.Ctx, wrong)
				require(err != nil, "the query %+v is no error", wrong)
			}
		}},
	{"a listener is notified of each cancel, and not of one that changed nothing",
		"a live run on another host must end when it is cancelled, and one that continued is not to be disturbed",
		listened(func(e *env, told <-chan string) {
			awake := putSilent(e, "awake", time.Minute)
			awake.Attempt++
			cancels(e, awake, session.Changed)
			for i, runID := range oddIDs {
				s, c := putSilent(e, runID, time.Hour), cancelOf(runID)
				c.Events[0].ID = fmt.Sprint("cancel ", i)
				cancelsAs(e, s, c, session.Done)
				receives(e, told, runID)
			}
		})},
	{"listening ends with its context",
		"a process that stops must not have to wait for a cancel", func(e *env) { listening(e, func(<-chan string) {}) }},
}

// list lists sessions, at most 100 if the query has no limit.
func list(e *env, q session.ListQuery) session.ListPage {
	if q.Limit == 0 {
		q.Limit = 100
	}
	page, err := contract.Optional[session.Lister](e).List(e.Ctx, q)
	must(err, "list %+v", q)
	return page
}

func lists(e *env, q session.ListQuery, want ...string) {
	got := names(list(e, q).Sessions)
	require(slices.Equal(got, want), "list %+v: listed are %q, want %q", q, got, want)
}

// listPages reads all pages of a list, which are not empty. It stops after more than most sessions.
func listPages(e *env, limit, most int) (found []string, unread []error) {
	q := session.ListQuery{Limit: limit}
	for more := true; more && len(found) <= most; {
		page := list(e, q)
		n := len(page.Sessions) + len(page.Unreadable)
		require(len(page.Sessions) <= limit && n > 0, "a page of %d has %q, after %q", limit, names(page.Sessions), q.After)
		found, unread = append(found, names(page.Sessions)...), append(unread, page.Unreadable...)
		q.After, more = page.Next, page.Next != ""
	}
	return found, unread
}

// putListed writes sessions, some of which were made at one moment, and returns their names in the order of a list.
func putListed(e *env) []string {
	contract.Optional[session.Lister](e)
	now := clockOf(e)
	rows := make([]row, 7)
	for i := range rows {
		s := silentSession(fmt.Sprint(i), now, time.Minute)
		s.CreatedAt = now.Add(time.Duration(i/3-20) * time.Hour)
		if s.Parent = "run-2"; i%3 == 0 {
			s.Parent = "run-1"
		}
		rows[i] = s
	}
	for i, reason := range map[int]watchdog.StopReason{0: why, 2: why, 4: "complete", 6: ""} {
		rows[i].RunID += " ended"
		rows[i].Status, rows[i].Reason = session.Finished, reason
	}
	for _, i := range []int{1, 4, 5} {
		rows[i].Host = "host-2"
	}
	put(e, rows...)
	slices.Reverse(rows)
	return names(rows)
}

// listened is a check while the store listens.
func listened(check func(e *env, told <-chan string)) func(e *env) {
	return func(e *env) {
		listening(e, func(told <-chan string) { check(e, told) })
	}
}

// listening runs a check while the store listens, and then checks that listening ends.
func listening(e *env, check func(told <-chan string)) {
	listener, told := contract.Optional[session.Listener](e), make(chan string, 2*len(oddIDs))
	ending := e.While(func(ctx context.Context, ready func()) error {
		return listener.Listen(ctx, ready, func(runID string) { told <- runID })
	}, func() { check(told) })
	require(ending == nil || errors.Is(ending, context.Canceled), "listening ended with %w", ending)
}

func receives(e *env, told <-chan string, want string) {
	select {
	case runID := <-told:
		require(runID == want, "the listener was told %q, want %q", runID, want)
	case <-e.Ctx.Done():
		require(false, "the listener was not told of the cancel of %q", want)
	}
}

var historyRules = []rule{
	{"cancels are counted by their reasons, and nothing else is counted",
		"an operator wants to know why runs are stopped; and a host may have events of its own with the same name",
		func(e *env) {
			events := cancelEvents(noon, noon, noon, noon, noon)
			events[1].Payload = []byte(`{"reason":"hold_exceeded","hold":"reason"}`)
			events[3].Type, events[4].AggregateType = event.Warning, "session"
			counts(e, session.ByReason, events, map[string]int{"hold_exceeded": 1, "idle_timeout": 2})
		}},
	{"cancels are counted by days of UTC, from the start of a period to before its end",
		"days in the zone of each server cannot be added up, and no cancel may be counted in two periods, or in none",
		func(e *env) {
			midnight := noon.Truncate(day)
			events := cancelEvents(midnight.Add(-time.Microsecond), midnight, midnight.Add(day-time.Microsecond),
				noon.Add(-day-time.Microsecond), noon.Add(-day), noon.Add(day-time.Microsecond), noon.Add(day))
			events[2].Timestamp = events[2].Timestamp.In(time.FixedZone("east", 5*3600))
			counts(e, session.ByDay, events, map[string]int{"2026-03-03": 2, "2026-03-04": 2, "2026-03-05": 1})
		}},
	{"cancels are counted by the hosts of their sessions, and under an empty host if there is no session",
		"a host whose sessions stall has a problem; and runs without rows are cancelled too", func(e *env) {
			events := cancelEvents(noon, noon, noon, noon)
			for i, on := range []string{"host-2", "host-1", "host-2"} {
				attach(e, row{RunID: events[i].AggregateID, StartedAt: noon, Host: on})
			}
			counts(e, session.ByHost, events, map[string]int{"": 1, "host-1": 1, "host-2": 2})
		}},
	{"a period without cancels has no counts, and no error",
		"a quiet week is not an error", func(e *env) {
			for _, by := range []session.Dimension{session.ByReason, session.ByDay, session.ByHost} {
				counts(e, by, nil, nil)
			}
		}},
}

// cancelEvents returns a cancel at each time, each of another run.
func cancelEvents(times ...time.Time) (events []event.Event) {
	for i, at := range times {
		events = append(events, cancelEvent(fmt.Sprint("cancel-", i), fmt.Sprint("run-", i), at))
	}
	return events
}

// counts appends the events and checks the history of two days around noon.
func counts(e *env, by session.Dimension, events []event.Event, want map[string]int) {
	appends(e, events...)
	got, err := e.Store.History(e.Ctx, session.HistoryQuery{From: noon.Add(-day), To: noon.Add(day), By: by})
	must(err, "count by %s", by)
	byKey := map[string]int{}
	for _, n := range got {
		byKey[n.Key] = n.Count
	}
	require(len(got) == len(want) && maps.Equal(byKey, want), "counted by %s there are %+v, want %v", by, got, want)
}
