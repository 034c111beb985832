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
	switch n := c.rand.IntN(20); {
	case n < 1, n < 8 && seen.Status != session.Active:
		c.attach(ctx, run)
	case n < 8, !known:
		c.read(ctx, run)
	case n < 9:
		c.endByKeeper(ctx, seen)
	case n < 15:
		c.claim(ctx, seen)
	case n < 19:
		c.cancel(ctx, seen)
	default:
		c.complete(run, windowStart(c.rand.IntN(windows)))
	}
}

var firstStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func windowStart(window int) time.Time { return firstStart.Add(time.Duration(window) * time.Hour) }

func windowOf(start time.Time) int { return int(start.Sub(firstStart) / time.Hour) }

func rowOf(s session.Session) sessionRow {
	return sessionRow{Attempt: s.Attempt, sessionEnd: sessionEnd{s.Status, s.Reason}}
}

// begin notes a call about a run, and returns what notes its answer. An error says nothing of what became of the call,
// but for one.
func (c *client) begin(run string, call sessionCall) (answered func(sessionAnswer, error)) {
	note := c.book.call(run, call)
	return func(a sessionAnswer, err error) {
		switch {
		case errors.Is(err, session.ErrLocked):
			note(sessionAnswer{Locked: true})
		case err == nil:
			note(a)
		default:
			c.failed = true
		}
	}
}

func (c *client) attach(ctx context.Context, run string) {
	call := sessionCall{Do: doAttach, Window: c.rand.IntN(windows)}
	answered := c.begin(run, call)
	before, after, err := c.store.Attach(ctx, session.Session{
		RunID: run, StartedAt: windowStart(call.Window), Lease: c.lease,
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

func (c *client) endByKeeper(ctx context.Context, seen session.Session) {
	call := sessionCall{Do: doEnd, Attempt: seen.Attempt, End: sessionEnd{Status: session.Finished}}
	if c.rand.IntN(2) == 0 {
		call.End.Status = session.Interrupted
	}
	answered := c.begin(seen.RunID, call)
	skipped, err := c.store.End(ctx, []session.Ending{{RunID: seen.RunID, Attempt: seen.Attempt, Status: call.End.Status}})
	if len(skipped.Locked) > 0 {
		err = session.ErrLocked
	}
	for _, failed := range skipped.Failed {
		err = errors.Join(err, failed)
	}
	answered(sessionAnswer{}, err)
}

func (c *client) claim(ctx context.Context, seen session.Session) {
	call := sessionCall{Do: doClaim, Attempt: seen.Attempt, By: c.name, Brief: c.rand.IntN(4) == 0}
	request := session.ClaimRequest{By: c.name, For: longClaim, EndID: endID(seen)}
	if call.Brief {
		request.For = briefClaim
	}
	answered := c.begin(seen.RunID, call)
	outcome, err := c.store.Claim(ctx, seen, request)
	answered(sessionAnswer{Outcome: outcome}, err)
}

func (c *client) cancel(ctx context.Context, seen session.Session) {
	answered := c.begin(seen.RunID, sessionCall{Do: doCancel, Attempt: seen.Attempt, By: c.name})
	outcome, err := c.store.Cancel(ctx, seen, session.CancelRequest{
		By: c.name, Reason: swept.Reason, Events: cancelEvents(seen),
	})
	answered(sessionAnswer{Outcome: outcome}, err)
}

// cancelEvents returns the events that a sweeper writes.
func cancelEvents(s session.Session) []watchdog.Event {
	return sweep.StalledRun{
		RunID: s.RunID, StartedAt: s.StartedAt, LastEventAt: s.LastEventAt, DecidedAt: time.Now(), Silence: time.Hour,
		Threshold: time.Minute,
	}.CancelEvents()
}

func endID(s session.Session) string {
	events := cancelEvents(s)
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
