package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var rowRules = []rule{
	{"a row is read as it was written, its times in UTC and cut off below the microsecond",
		"a cancel compares with the row that was read, and a window is identified by its start", func(e *env) {
			start, east := noon.Add(1234*time.Microsecond), time.FixedZone("east", 5*3600+1800)
			for i, own := range []time.Duration{0, time.Microsecond, 90 * time.Minute, watchdog.NoLimit} {
				s := attach(e, row{
					RunID: fmt.Sprint(i), Parent: "päir", Threshold: own, StartedAt: start.Add(567).In(east), Host: "höst",
				})
				require(s.Parent == "päir" && s.Threshold == own && s.StartedAt.Equal(start) && s.Host == "höst",
					"attached as %+v", s)
				looksLike(e, s)
				s = look(e, s.RunID)
				for _, at := range []time.Time{s.CreatedAt, s.LastEventAt, s.StartedAt} {
					require(at.Location() == time.UTC, "a time is %v, in %v", at, at.Location())
				}
			}
		}},
	{"a run that has no row is not found",
		"a keeper must be able to distinguish a missing row from a store that fails", func(e *env) {
			_, err := e.Store.Session(e.Ctx, "unknown")
			require(errors.Is(err, session.ErrNotFound), "the error is %w, want ErrNotFound", err)
		}},
	{"an unreadable row is an error that says so and names the run, and to attach to it changes nothing",
		"an invalid time that is read as the year 1 makes a session long overdue", func(e *env) {
			const runID = "run-spoilt"
			putSilent(e, runID, time.Hour)
			spoil(e, runID)
			_, err := e.Store.Session(e.Ctx, runID)
			unreadable(err, runID)
			_, _, err = e.Store.Attach(e.Ctx, newSession(runID))
			unreadable(err, runID)
			s, err := e.Store.Session(e.Ctx, runID)
			require(err != nil || s.Attempt <= 1, "the row is %+v", s)
		}},
	{"every character of a run ID counts, and none has a special meaning",
		"two runs that share a row are cancelled together, or keep each other alive", func(e *env) {
			begin(e, homeLease)
			var fresh []freshness
			for i, runID := range oddIDs {
				fresh = append(fresh, activity(attach(e, row{RunID: runID, StartedAt: noon, Host: fmt.Sprint(i)}), 0))
			}
			freshens(e, homeLease, fresh...)
			for i, runID := range oddIDs {
				s := look(e, runID)
				require(s.RunID == runID && s.Host == fmt.Sprint(i) && s.Attempt == 1, "the row of %q is %+v", runID, s)
			}
		}},
	{"a call with a done context changes nothing and returns the context's error",
		"a keeper repeats a write that it gave up, and an empty answer looks as if nothing had stalled", func(e *env) {
			s, l := attach(e, newSession(homeRun)), begin(e, homeLease)
			start := look(e, dueStart(e, "to start").RunID)
			for name, call := range callsAbout(e.Store, s, l, start) {
				withDoneContexts(e, calls{name: call})
				contract.Part("after "+name, func() {
					stands(e, s)
					looksLike(e, start)
					leaseIs(e, l)
					noLease(e, "new")
				})
			}
		}},
}

// oddIDs are different IDs that patterns, collations or conversions may treat as equal.
var oddIDs = []string{
	"run", "RUN", "rün", " run", "run ", "run/a", "run/a/b",
	"r_n", "r%", "%", "r*", "r?n", "r[u]n", `r\_n`,
	"o'brien", `"run"`, "`run`", "run;--", `\`, `\\`, "$1", "?1", ":id", "@id", "{", "[]",
	"null", "0", "00", "0.0", "1e1", "10",
	"日本語", "🜁🜂", "é", "e\u0301", "e", "a\u200db", "\u202ea", "\ufeff", "a\u2028b", "straße", "STRASSE",
	strings.Repeat("x", event.MaxAggregateID), strings.Repeat("ж", event.MaxAggregateID),
}

func unreadable(err error, runID string) {
	require(errors.Is(err, session.ErrUnreadable) && strings.Contains(err.Error(), runID),
		"the error is %w, want ErrUnreadable and the run ID", err)
}

// callsAbout are the calls of a store about a session, a lease that is not the session's, and a run that is to start.
func callsAbout(store session.Store, s row, l lease, start row) calls {
	next := l
	next.Beat++
	fresh := []freshness{activity(s, 0)}
	ends := []session.Ending{{RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished}}
	claim := session.ClaimRequest{By: by, For: time.Hour}
	warnings := []event.Event{warning(s.RunID)}
	days := session.HistoryQuery{By: session.ByDay}
	all := calls{
		"Attach":        func(ctx context.Context) error { _, _, err := store.Attach(ctx, newSession(s.RunID)); return err },
		"Freshen":       func(ctx context.Context) error { return errorOf(store.Freshen(ctx, l.ID, fresh)) },
		"End":           func(ctx context.Context) error { return errorOf(store.End(ctx, ends)) },
		"Claim":         func(ctx context.Context) error { return errorOf(store.Claim(ctx, s, claim)) },
		"Warn":          func(ctx context.Context) error { return errorOf(store.Warn(ctx, s, warnings)) },
		"Cancel":        func(ctx context.Context) error { return errorOf(store.Cancel(ctx, s, cancelOf(s.RunID))) },
		"ClaimStart":    func(ctx context.Context) error { return errorOf(store.ClaimStart(ctx, time.Hour)) },
		"PutOffStart":   func(ctx context.Context) error { return errorOf(store.PutOffStart(ctx, start, time.Hour)) },
		"BeginLease":    func(ctx context.Context) error { return store.BeginLease(ctx, lease{ID: "new"}) },
		"RenewLease":    func(ctx context.Context) error { return store.RenewLease(ctx, next) },
		"ExpireLease":   func(ctx context.Context) error { _, _, err := store.ExpireLease(ctx, l); return err },
		"Session":       func(ctx context.Context) error { return errorOf(store.Session(ctx, s.RunID)) },
		"Stalled":       func(ctx context.Context) error { return errorOf(store.Stalled(ctx, session.Query{Limit: 1})) },
		"ObserveLeases": func(ctx context.Context) error { return errorOf(store.ObserveLeases(ctx, nil)) },
		"LeaseSessions": func(ctx context.Context) error { return errorOf(store.LeaseSessions(ctx, l.ID)) },
		"Ended":         func(ctx context.Context) error { return errorOf(store.Ended(ctx, l.ID, nil)) },
		"History":       func(ctx context.Context) error { return errorOf(store.History(ctx, days)) },
	}
	if lister, ok := store.(session.Lister); ok {
		all["List"] = func(ctx context.Context) error { return errorOf(lister.List(ctx, session.ListQuery{Limit: 1})) }
	}
	return all
}

var attachRules = []rule{
	{"a new run gets an active row, created now and last active now, with attempt 1, and had none before",
		"a row without a start time cannot be judged, and one that starts in the past is cancelled at once", func(e *env) {
			from := clockOf(e)
			before, s, err := e.Store.Attach(e.Ctx, newSession(homeRun))
			must(err, "attach")
			to := clockOf(e)
			require(before.Attempt == 0, "before the first attempt the row was %+v", before)
			within("CreatedAt", s.CreatedAt, from, to)
			within("LastEventAt", s.LastEventAt, from, to)
			equal(s, row{
				RunID: homeRun, Status: session.Active, CreatedAt: s.CreatedAt, LastEventAt: s.LastEventAt, StartedAt: noon,
				Host: host, Attempt: 1,
			})
		}},
	{"attaching again counts the attempt, and returns the row as it was",
		"writes of a lost attempt must not count as writes of the new one, and only the old row shows that it was lost",
		func(e *env) {
			last := attach(e, row{RunID: homeRun, Parent: "p", Threshold: time.Hour, StartedAt: noon, Host: "first"})
			for n := 2; n <= 3; n++ {
				before, after, err := e.Store.Attach(e.Ctx, newSession(homeRun))
				must(err, "attach again")
				equal(before, last)
				require(after.Attempt == n, "attempt %d has the number %d", n, after.Attempt)
				last = after
			}
		}},
	{"attaching again keeps when the row was made and how often its run was resumed, and nothing else",
		"the new attempt would be stalled by the silence of the old one, cancelled after its warning, or ended by its end",
		func(e *env) {
			_, s := vouchedFor(e, freshness{Activity: time.Hour, Quiet: true, State: json.RawMessage(`{"phase":"first"}`)})
			warns(e, s, session.Done)
			claims(e, s, by, session.Done)
			want := row{
				RunID: homeRun, Status: session.Active, Parent: "other", Threshold: watchdog.NoLimit,
				CreatedAt: s.CreatedAt, StartedAt: noon.Add(time.Hour), Host: "host-2", Attempt: 2,
			}
			again := func() {
				from := clockOf(e)
				s := attach(e, row{
					RunID: homeRun, Parent: want.Parent, Threshold: want.Threshold, StartedAt: want.StartedAt, Host: want.Host,
				})
				within("LastEventAt", s.LastEventAt, from, clockOf(e))
				want.LastEventAt = s.LastEventAt
				equal(s, want)
				looksLike(e, want)
			}
			again()
			claims(e, want, "pass-2", session.Done)
			c := cancelOf(homeRun)
			c.By, c.Resumes, c.StopFailed = "pass-2", 2, true
			cancelsAs(e, want, c, session.Done)
			want.Resumes, want.Attempt = c.Resumes, 3
			again()
		}},
	{"callers that attach to one run at once get different attempts",
		"two attempts with one number would keep each other's row fresh", func(e *env) {
			attempts := make([]int, 8)
			contract.StepsAtOnce(len(attempts), func(caller int) { attempts[caller] = attach(e, newSession(homeRun)).Attempt })
			slices.Sort(attempts)
			require(slices.Equal(attempts, []int{1, 2, 3, 4, 5, 6, 7, 8}), "the attempts are %v, want 1 to 8", attempts)
		}},
	{"attaching under a lease names it, without an activity",
		"the activity of the attempt before was by another clock", func(e *env) {
			for range 2 {
				s := attachLeased(e, homeLease, homeRun)
				require(s.Lease == homeLease && s.Activity == session.NoActivity && s.Silence == 0, "attached as %+v", s)
				looksLike(e, s)
				freshens(e, homeLease, quietSince(s, time.Hour))
			}
		}},
	{"attaching with an attempt makes a lost row again, with that attempt",
		"after a failover the database may have forgotten the row of a live run, or its latest attempt", func(e *env) {
			for _, attempt := range []int{3, 7} { // without a row, and with an older one
				lost := newSession(homeRun)
				lost.Attempt = attempt
				s := attach(e, lost)
				require(s.Attempt == attempt && s.Status == session.Active, "the row is %+v, want the attempt %d", s, attempt)
				looksLike(e, s)
			}
		}},
	{"attaching with an attempt that is in the row, or is over, changes nothing",
		"the row was not lost: a process that has been taken over would take its run back", func(e *env) {
			for _, status := range []session.Status{session.Active, session.Cancelled} {
				s := silentSession(string(status), clockOf(e), time.Hour)
				s.Status, s.Attempt = status, 3
				put(e, s)
				for _, attempt := range []int{3, 2} {
					lost := row{RunID: s.RunID, Host: "host-2", Attempt: attempt, StartedAt: noon}
					before, after, err := e.Store.Attach(e.Ctx, lost)
					must(err, "attach with the attempt %d", attempt)
					equal(before, s)
					equal(after, s)
					looksLike(e, s)
				}
			}
		}},
	{"a lease is told of an attempt that is followed by another before it ended",
		"two processes run one run until the first learns that it was taken over", func(e *env) {
			before := attachEach(e, homeLease, "again", "lost", "ended")
			lost := newSession("lost")
			lost.Attempt = 4
			end(e, session.Ending{RunID: "ended", Attempt: 1, Status: session.Interrupted})
			attachEach(e, awayLease, "again", "ended", "new")
			attach(e, lost)
			tells(e, homeLease, nil, attemptsOf(before[:2])...)
			tells(e, awayLease, nil)
		}},
	{"a listener is notified of each takeover, and of no other attach",
		"a process whose run goes on elsewhere must end it now; but each start of a run would wake every host", func(e *env) {
			attach(e, newSession("ended"))
			finish(e, "ended")
			listening(e, func(told <-chan string) {
				for _, runID := range []string{"ended", "new", "taken over", "taken over"} {
					attach(e, newSession(runID))
				}
				receives(e, told, "taken over")
			})
		}},
	{"a state is read as it was written",
		"a page shows the runs of other hosts by it", func(e *env) {
			for i, state := range []string{
				"", `{}`, `{"phase":"tests","wall_clock_seconds":14400.5,"warned":2,"wrapped_up":true}`,
				`{"phase":"it's \"quoted\" \\ and\nbroken — über 日本語 🜁"}`,
				`{"n":12345678901234567890.125,"a":[1,null,{"b":[]}]}`,
			} {
				s := newSession(fmt.Sprint("run-", i))
				if s.State = json.RawMessage(state); state == "" {
					s.State = nil
				}
				after := attach(e, s)
				require(contract.SameJSON(after.State, s.State), "the state is %q, want %q", after.State, state)
				looksLike(e, after)
			}
		}},
}
