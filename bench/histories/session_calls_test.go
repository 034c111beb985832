//go:build linux

package histories_test

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// longClaim is how long a claim lasts that outlives its history, briefClaim that of one which does not.
const (
	longClaim  = time.Hour
	briefClaim = time.Millisecond
)

// end does something to a run, most of which ends it.
func (c *client) end(ctx context.Context, run string) {
	seen, known := c.seen[run]
	switch n := c.rand.IntN(40); {
	case n < 1, n < 12 && seen.Status != session.Active:
		c.attach(ctx, run)
	case n < 12, !known:
		c.read(ctx, run)
	case n < 15:
		c.freshen(ctx, seen)
	case n < 17:
		c.endByKeeper(ctx, seen)
	case n < 20:
		c.warn(ctx, seen)
	case n < 27:
		c.claim(ctx, seen)
	case n < 31:
		c.cancel(ctx, seen)
	case n < 34:
		c.cancelAll(ctx, c.runs())
	case n < 35:
		c.complete(run, windowStart(c.rand.IntN(windows)))
	default:
		c.ofLease(ctx, run)
	}
}

var firstStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func windowStart(window int) time.Time { return firstStart.Add(time.Duration(window) * time.Hour) }

func windowOf(start time.Time) int { return int(start.Sub(firstStart) / time.Hour) }

// rowOf returns what histories say of a session.
func rowOf(s session.Session) sessionRow {
	row := sessionRow{signs: signs{Attempt: s.Attempt}, sessionEnd: sessionEnd{s.Status, s.Reason}}
	if s.Status == session.Active {
		row.signs, row.Expired = signsOf(s), numberOf(s.Expired.ID)
		row.Warned = s.Lease != "" && !s.WarnedAt.IsZero()
	}
	return row
}

// signsOf returns the signs of a session. A lease is an hour ahead with each activity, and its renewals, like the
// attaches, are in the first minutes after the row was made.
func signsOf(s session.Session) signs {
	return signs{
		Attempt: s.Attempt, Lease: numberOf(s.Lease), Activity: int64(max(s.Activity, 0) / activityUnit),
		Last: int64(s.LastEventAt.Sub(s.CreatedAt).Round(activityUnit) / activityUnit),
	}
}

const activityUnit = time.Hour

// begin notes a call about a run, and returns what notes its answer. An error says nothing of what became of the call,
// but for two.
func (c *client) begin(run string, call sessionCall) (answered func(sessionAnswer, error)) {
	note := c.book.call(run, call)
	return func(a sessionAnswer, err error) {
		switch {
		case errors.Is(err, session.ErrLocked):
			note(sessionAnswer{Undone: true})
		case errors.Is(err, session.ErrLeaseExpired):
			note(sessionAnswer{Expired: true})
		case err == nil:
			note(a)
		default:
			c.failed = true
		}
	}
}

func (c *client) attach(ctx context.Context, run string) {
	number := c.anyLease()
	if c.rand.IntN(4) == 0 {
		number = 0
	}
	call := sessionCall{Do: doAttach, Window: c.rand.IntN(windows), signs: signs{Lease: number}}
	answered := c.begin(run, call)
	before, after, err := c.store.Attach(ctx, session.Session{
		RunID: run, StartedAt: windowStart(call.Window), Lease: leaseOf(run, number),
	})
	answered(sessionAnswer{Before: rowOf(before), Row: rowOf(after)}, err)
	if err == nil {
		c.seen[run] = after
	}
}

func (c *client) read(ctx context.Context, run string) {
	answered := c.begin(run, sessionCall{Do: doRead})
	s, err := c.store.Session(ctx, run)
	if errors.Is(err, session.ErrNotFound) {
		err = nil
	}
	answered(sessionAnswer{Row: rowOf(s)}, err)
	if err == nil && s.Attempt > 0 {
		c.seen[run] = s
	}
}

// freshen writes an activity that no other call writes.
func (c *client) freshen(ctx context.Context, seen session.Session) {
	call := sessionCall{Do: doFreshen, signs: signs{Attempt: seen.Attempt, Lease: c.anyLease(), Activity: c.number}}
	answered := c.begin(seen.RunID, call)
	skipped, err := c.store.Freshen(ctx, leaseOf(seen.RunID, call.Lease), []session.Freshness{{
		RunID: seen.RunID, Attempt: seen.Attempt, Activity: time.Duration(c.number) * activityUnit,
	}})
	answered(sessionAnswer{Gone: len(skipped.Gone) > 0}, errorOf(skipped, err))
}

func (c *client) endByKeeper(ctx context.Context, seen session.Session) {
	call := sessionCall{
		Do: doEnd, signs: signs{Attempt: seen.Attempt}, End: sessionEnd{Status: session.Finished},
	}
	if c.rand.IntN(2) == 0 {
		call.End.Status = session.Interrupted
	}
	answered := c.begin(seen.RunID, call)
	answered(sessionAnswer{}, errorOf(c.store.End(ctx, []session.Ending{{
		RunID: seen.RunID, Attempt: seen.Attempt, Status: call.End.Status,
	}})))
}

// errorOf returns why the only row of a batch was not written, but for one that is gone.
func errorOf(skipped session.Skipped, err error) error {
	if len(skipped.Locked) > 0 {
		return session.ErrLocked
	}
	for _, failed := range skipped.Failed {
		err = errors.Join(err, failed)
	}
	return err
}

func (c *client) warn(ctx context.Context, seen session.Session) {
	answered := c.begin(seen.RunID, sessionCall{Do: doWarn, signs: signsOf(seen)})
	outcome, err := c.store.Warn(ctx, seen, []watchdog.Event{stalled(seen).WarningEvent()})
	answered(sessionAnswer{Outcome: outcome}, err)
}

func (c *client) claim(ctx context.Context, seen session.Session) {
	call := sessionCall{Do: doClaim, signs: signsOf(seen), By: c.name, Brief: c.rand.IntN(4) == 0}
	request := session.ClaimRequest{By: c.name, For: longClaim, EndID: endID(seen)}
	if call.Brief {
		request.For = briefClaim
	}
	answered := c.begin(seen.RunID, call)
	outcome, err := c.store.Claim(ctx, seen, request)
	answered(sessionAnswer{Outcome: outcome}, err)
}

func (c *client) cancel(ctx context.Context, seen session.Session) {
	answered := c.begin(seen.RunID, sessionCall{Do: doCancel, signs: signsOf(seen), By: c.name})
	outcome, err := c.store.Cancel(ctx, seen, c.cancelOf(seen))
	answered(sessionAnswer{Outcome: outcome}, err)
}

// cancelAll cancels those of the runs that the client knows.
func (c *client) cancelAll(ctx context.Context, runs []string) {
	var all []session.BatchedCancel
	var answered []func(sessionAnswer, error)
	for _, run := range runs {
		if seen, known := c.seen[run]; known {
			all = append(all, session.BatchedCancel{Judged: seen, Request: c.cancelOf(seen)})
			call := sessionCall{Do: doCancelAll, signs: signsOf(seen), By: c.name}
			answered = append(answered, c.begin(run, call))
		}
	}
	outcomes, err := c.store.CancelAll(ctx, all)
	for i, note := range answered {
		if err != nil {
			note(sessionAnswer{}, err)
			continue
		}
		note(sessionAnswer{Outcome: outcomes[i], Undone: outcomes[i] == ""}, nil)
	}
}

func (c *client) cancelOf(judged session.Session) session.CancelRequest {
	return session.CancelRequest{By: c.name, Reason: swept.Reason, Events: stalled(judged).CancelEvents()}
}

// stalled holds what the events say that a sweeper writes.
func stalled(s session.Session) sweep.StalledRun {
	return sweep.StalledRun{
		RunID: s.RunID, StartedAt: s.StartedAt, LastEventAt: s.LastEventAt, DecidedAt: time.Now(), Silence: time.Hour,
		Threshold: time.Minute,
	}
}

func endID(s session.Session) string {
	events := stalled(s).CancelEvents()
	return events[len(events)-1].ID
}

// complete attaches a watchdog to the run in a window, and says that the run has done its work. Which window it is the
// watchdog says: that which the run had last, if it finds a later one.
func (c *client) complete(run string, start time.Time) {
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: run, StartedAt: start}, watchdog.Config{
		Store: c.store, Logger: quiet, RecordTimeout: patienceOfCall,
		Budget: watchdog.Budget{WallClock: watchdog.NoLimit},
	})
	if err != nil { // nothing was written
		c.failed = !errors.Is(err, watchdog.ErrComplete)
		return
	}
	defer func() { _ = wd.Close() }() // what it could not record it tries once more
	answered := c.begin(run, sessionCall{Do: doComplete, Window: windowOf(wd.StartedAt())})
	err = wd.Complete()
	a := sessionAnswer{End: completed}
	var stop *watchdog.Stop
	if errors.As(err, &stop) {
		a.End, err = sessionEnd{session.Cancelled, stop.Code}, nil
	}
	answered(a, err)
}
