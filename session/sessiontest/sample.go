package sessiontest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

type (
	rule      = contract.Rule[session.Store]
	env       = contract.Env[session.Store]
	row       = session.Session
	freshness = session.Freshness
	lease     = session.Lease
)

func must(err error, doing string, args ...any) { contract.Must(err, doing, args...) }

func require(holds bool, found string, args ...any) { contract.Require(holds, found, args...) }

// given is a check that starts with what begin returns, and given2 with two things.
func given[T any](begin func(e *env) T, check func(e *env, made T)) func(e *env) {
	return func(e *env) { check(e, begin(e)) }
}

func given2[T, U any](begin func(e *env) (T, U), check func(e *env, one T, other U)) func(e *env) {
	return func(e *env) {
		one, other := begin(e)
		check(e, one, other)
	}
}

// calls are calls of a store, by what they are called.
type calls = map[string]func(context.Context) error

// withDoneContexts makes calls with contexts that are done. They must return the context's error.
func withDoneContexts(e *env, all calls) {
	for name, call := range all {
		e.WithDoneContexts(name, func(done *env) { must(call(done.Ctx), "call") })
	}
}

func errorOf[T any](_ T, err error) error { return err }

// A Putter is a store under test that can also write rows as another program would.
type Putter interface {
	// Put inserts or replaces rows as they are, in one transaction. The rows have no lease, and nothing else that only
	// a keeper or a sweeper writes: no warning, claim or state.
	Put(ctx context.Context, rows ...session.Session) error
	// Spoil makes a row unreadable, for instance with an invalid time of the last event.
	Spoil(ctx context.Context, runID string) error
}

// The values of rows and queries in checks that are not about them.
const (
	homeRun   = "run-1"
	homeLease = "lease-1"
	awayLease = "lease-2"
	host      = "host-1"
	threshold = 10 * time.Minute
	minAge    = 2 * time.Minute
	day       = 24 * time.Hour
	// why is a reason, and by who cancels.
	why = watchdog.StopReason("watchdog_idle_timeout")
	by  = "pass-1"
)

// noon is the start of windows, and the time of events.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func newSession(runID string) row {
	return row{RunID: runID, StartedAt: noon, Host: host}
}

func attach(e *env, s row) row {
	_, after, err := e.Store.Attach(e.Ctx, s)
	must(err, "attach to %q", s.RunID)
	return after
}

func look(e *env, runID string) row {
	s, err := e.Store.Session(e.Ctx, runID)
	must(err, "look at the session of %q", runID)
	return s
}

func looksLike(e *env, want row) { equal(look(e, want.RunID), want) }

// equal checks that two rows are. It compares times as instants, without their zones, and the state as JSON.
func equal(got, want row) {
	same := reflect.DeepEqual(comparison(got), comparison(want)) && contract.SameJSON(got.State, want.State)
	require(same, "the session is\n\t%s, want\n\t%s", text(got), text(want))
}

func comparison(s row) row {
	// What a row is expected to be is read before it ends, or leaves its lease: rules of their own check these.
	s.EndedAt, s.Expired, s.State = time.Time{}, session.ExpiredLease{}, nil
	for _, at := range []*time.Time{&s.CreatedAt, &s.LastEventAt, &s.StartedAt, &s.WarnedAt} {
		*at = at.UTC()
	}
	return s
}

// text prints a session with its state as text.
func text(s row) string {
	state := string(s.State)
	s.State = nil
	return fmt.Sprintf("%+v with the state %q", s, state)
}

// clockOf returns the time of the store's clock.
func clockOf(e *env) time.Time {
	return find(e, session.Query{Threshold: watchdog.NoLimit, Limit: 1}).Now
}

func within(what string, at, from, to time.Time) {
	require(!at.Before(from) && !at.After(to), "%s is %v, want a time from %v to %v", what, at, from, to)
}

// silentSession returns an active session, a day old, whose last event was so long before now.
func silentSession(runID string, now time.Time, silence time.Duration) row {
	return row{
		RunID: runID, Status: session.Active, CreatedAt: now.Add(-day), LastEventAt: now.Add(-silence),
		StartedAt: noon, Host: host, Attempt: 1,
	}
}

func withThreshold(s row, own time.Duration) row {
	s.Threshold = own
	return s
}

// put writes rows as another program would.
func put(e *env, rows ...row) {
	must(contract.Optional[Putter](e).Put(e.Ctx, rows...), "put %d rows", len(rows))
}

func putSilent(e *env, runID string, silence time.Duration) row {
	s := silentSession(runID, clockOf(e), silence)
	put(e, s)
	return s
}

// silent writes the row of a run that was silent for an hour.
func silent(e *env) row { return putSilent(e, homeRun, time.Hour) }

func spoil(e *env, runID string) {
	must(contract.Optional[Putter](e).Spoil(e.Ctx, runID), "spoil the row of %q", runID)
}

// activity is a run's last activity, at an instant of the clock of its lease.
func activity(s row, at time.Duration) freshness {
	return freshness{RunID: s.RunID, Attempt: s.Attempt, Activity: at}
}

// quietSince is the last activity of a run that is quiet.
func quietSince(s row, at time.Duration) freshness {
	f := activity(s, at)
	f.Quiet = true
	return f
}

// freshen writes activities and returns the runs that are gone.
func freshen(e *env, lease string, fresh ...freshness) (gone []string) {
	skipped, err := e.Store.Freshen(e.Ctx, lease, fresh)
	must(err, "freshen %d sessions", len(fresh))
	require(len(skipped.Locked)+len(skipped.Failed) == 0,
		"freshen %d sessions: skipped are %+v, of rows that nobody else has", len(fresh), skipped)
	slices.Sort(skipped.Gone)
	return skipped.Gone
}

// freshens writes activities, and checks that no session is gone.
func freshens(e *env, lease string, fresh ...freshness) {
	gone := freshen(e, lease, fresh...)
	require(len(gone) == 0, "gone are %s", contract.Shorten(gone))
}

func end(e *env, ends ...session.Ending) {
	skipped, err := e.Store.End(e.Ctx, ends)
	must(err, "end %d sessions", len(ends))
	require(len(skipped.Gone)+len(skipped.Locked)+len(skipped.Failed) == 0,
		"end %d sessions: skipped are %+v, of rows that nobody else has", len(ends), skipped)
}

func finish(e *env, runID string) {
	end(e, session.Ending{RunID: runID, Attempt: 1, Status: session.Finished})
}

func find(e *env, q session.Query) session.Page {
	page, err := e.Store.Stalled(e.Ctx, q)
	must(err, "find stalled sessions")
	return page
}

// findUsual finds at most so many of the sessions that are stalled with the usual limits.
func findUsual(e *env, limit int) session.Page {
	return find(e, session.Query{Threshold: threshold, MinAge: minAge, Limit: limit})
}

// findsOnly checks that exactly these sessions are stalled, in this order.
func findsOnly(e *env, want ...string) {
	got := names(findUsual(e, 100).Sessions)
	require(slices.Equal(got, want), "stalled are %s, want %s", contract.Shorten(got), contract.Shorten(want))
}

// findsOne returns the only session that is stalled.
func findsOne(e *env) row {
	page := findUsual(e, 10)
	require(len(page.Sessions) == 1, "stalled are %q", names(page.Sessions))
	return page.Sessions[0]
}

func names(sessions []row) []string {
	all := make([]string, len(sessions))
	for i, s := range sessions {
		all[i] = s.RunID
	}
	return all
}

func appends(e *env, events ...event.Event) {
	must(e.Store.Append(e.Ctx, events...), "append %d events", len(events))
}

// recorded checks that a run has exactly these events.
func recorded(e *env, runID string, want ...string) {
	events, err := e.Store.Read(e.Ctx, event.AggregateType, runID)
	must(err, "read the events of %q", runID)
	require(slices.Equal(eventIDs(events), want), "the run %q has the events %q, want %q", runID, eventIDs(events), want)
}

// stands checks the row of a run, and that the run has exactly these events.
func stands(e *env, want row, eventIDs ...string) {
	looksLike(e, want)
	recorded(e, want.RunID, eventIDs...)
}

func eventIDs(events []event.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

func cancelOf(runID string) session.CancelRequest {
	events := []event.Event{cancelEvent("cancel of "+runID, runID, noon)}
	return session.CancelRequest{By: by, Reason: why, Events: events}
}

// toCancel writes a silent session, and returns it with a cancel of it.
func toCancel(e *env) (row, session.CancelRequest) { return silent(e), cancelOf(homeRun) }

func cancelEvent(id, runID string, at time.Time) event.Event {
	return event.Event{
		ID: id, AggregateType: event.AggregateType, AggregateID: runID, Type: event.Cancel,
		Payload: []byte(`{"reason":"idle_timeout"}`), Timestamp: at,
	}
}

func warning(runID string) event.Event {
	e := cancelEvent("warning of "+runID, runID, noon)
	e.Type = event.Warning
	return e
}

// ownEnd is the end that a run writes itself. It has the ID of a cancel's event.
func ownEnd(runID string, complete bool) event.Event {
	e := cancelOf(runID).Events[0]
	e.Payload = []byte(`{"reason":"wall_clock_exceeded"}`)
	if complete {
		e.Type, e.Payload = event.Complete, []byte(`{"completed_at":"2026-03-04T12:00:00Z"}`)
	}
	return e
}

func cancels(e *env, judged row, want session.Outcome) {
	cancelsAs(e, judged, cancelOf(judged.RunID), want)
}

func cancelsAs(e *env, judged row, c session.CancelRequest, want session.Outcome) {
	got, err := e.Store.Cancel(e.Ctx, judged, c)
	came("cancel", judged.RunID, got, want, err)
}

func cancelsEach(e *env, all []row) {
	for _, s := range all {
		cancels(e, s, session.Done)
	}
}

// claims checks what becomes of a claim for an hour.
func claims(e *env, judged row, by string, want session.Outcome) {
	claimsFor(e, judged, by, time.Hour, want)
}

func claimsFor(e *env, judged row, by string, length time.Duration, want session.Outcome) {
	claimsAs(e, judged, session.ClaimRequest{By: by, For: length, EndID: "cancel of " + judged.RunID}, want)
}

func claimsAs(e *env, judged row, c session.ClaimRequest, want session.Outcome) {
	got, err := e.Store.Claim(e.Ctx, judged, c)
	came("claim", judged.RunID, got, want, err)
}

func warns(e *env, judged row, want session.Outcome) {
	got, err := e.Store.Warn(e.Ctx, judged, []event.Event{warning(judged.RunID)})
	came("warn", judged.RunID, got, want, err)
}

// came checks what became of a call about a judged session.
func came(call, runID string, got, want session.Outcome, err error) {
	must(err, "%s %q", call, runID)
	require(got == want, "%s %q: the outcome is %q, want %q", call, runID, got, want)
}
