package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

// A memoryRow is a session with the store's own columns.
type memoryRow struct {
	Session
	unreadable   error
	quiet        bool      // sweepers may look at it
	claimedUntil time.Time // when the latest claim ends
}

// row returns a row as it reads now, an empty one if there is none.
func (m *Memory) row(runID string) memoryRow {
	r := m.rows[runID]
	r.Silence, r.Behind = 0, false
	if l := m.leases[r.Lease]; r.quiet && r.Activity != NoActivity {
		r.Silence, r.Behind = l.silenceOf(r.Session)
	}
	return r
}

func (m *Memory) write(r memoryRow) {
	for _, at := range []*time.Time{&r.CreatedAt, &r.LastEventAt, &r.StartedAt} {
		*at = event.Truncate(*at)
	}
	m.rows[r.RunID] = r
}

// Session implements [Store].
func (m *Memory) Session(ctx context.Context, runID string) (Session, error) {
	return get(ctx, m, func() (Session, error) {
		r := m.row(runID)
		if r.RunID == "" {
			return Session{}, fmt.Errorf("%w: run %s", ErrNotFound, runID)
		}
		return r.Session, r.unreadable
	})
}

// Attach implements [Store].
func (m *Memory) Attach(ctx context.Context, s Session) (before, after Session, err error) {
	err = m.do(ctx, func() (err error) {
		if _, err := m.living(s.Lease); err != nil && s.Lease != "" {
			return err
		}
		r := m.row(s.RunID)
		if err := cmp.Or(r.unreadable, m.free(r.RunID)); err != nil {
			return err
		}
		if before, after = r.Session, r.Session; s.Attempt == 0 || s.Attempt > before.Attempt {
			after = m.begin(s, before)
		}
		return nil
	})
	return before, after, err
}

func (m *Memory) begin(s, before Session) Session {
	r := memoryRow{Session: Session{
		RunID: s.RunID, Parent: s.Parent, Status: Active, CreatedAt: before.CreatedAt, LastEventAt: m.now(),
		Threshold: s.Threshold, StartedAt: s.StartedAt, Host: s.Host, Attempt: max(before.Attempt+1, s.Attempt),
		Resumes: before.Resumes, Lease: s.Lease, State: s.State,
	}}
	if s.Lease != "" {
		r.Activity = NoActivity
		r.Allowance = s.Allowance
	}
	if before.Attempt == 0 {
		r.CreatedAt = r.LastEventAt
	}
	if before.Status == Active {
		m.noteEnd(before)
	}
	m.write(r)
	return m.row(s.RunID).Session
}

// Freshen implements [Store]. No row is ever refused.
func (m *Memory) Freshen(ctx context.Context, lease string, fresh []Freshness) (Skipped, error) {
	return get(ctx, m, func() (Skipped, error) {
		if _, err := m.living(lease); err != nil {
			return Skipped{}, err
		}
		return writeEach(m, fresh, func(r *memoryRow, f Freshness) {
			if r.Lease == lease && f.Activity < r.Activity {
				return
			}
			r.sign(lease, f.Activity)
			r.Lost, r.Expired, r.quiet = false, ExpiredLease{}, f.Quiet
			r.Allowance = f.Allowance
			r.tell(f.State)
		}), nil
	})
}

// End implements [Store].
func (m *Memory) End(ctx context.Context, ends []Ending) (Skipped, error) {
	for _, e := range ends {
		if err := e.Validate(); err != nil {
			return Skipped{}, err
		}
	}
	return get(ctx, m, func() (Skipped, error) {
		skipped := writeEach(m, ends, func(r *memoryRow, e Ending) {
			r.eventAt(m.now().Add(-e.Age))
			m.end(r, e.Status, e.Reason, e.State)
		})
		skipped.Gone = nil
		return skipped, nil
	})
}

// writeEach changes the rows that are active, of that attempt, and not locked.
func writeEach[E interface{ key() AttemptID }](m *Memory, all []E, change func(r *memoryRow, e E)) (skipped Skipped) {
	for _, e := range all {
		switch r, key := m.rows[e.key().RunID], e.key(); {
		case r.Status != Active || r.Attempt != key.Attempt:
			skipped.Gone = append(skipped.Gone, key.RunID)
		case m.free(key.RunID) != nil:
			skipped.Locked = append(skipped.Locked, key.RunID)
		default:
			change(&r, e)
			m.write(r)
		}
	}
	return skipped
}

func (m *Memory) end(r *memoryRow, status Status, reason watchdog.StopReason, state json.RawMessage) {
	r.leave(m.leases[r.Lease])
	r.tell(state)
	r.Status, r.Reason, r.EndedAt, r.Stopped, r.StopFailed = status, reason, m.now(), false, false
}

// leave takes a row out of its lease: its times are by the database's clock again.
func (r *memoryRow) leave(l memoryLease) {
	if r.Activity != NoActivity && l.ID != "" {
		r.eventAt(l.RenewedAt.Add(r.Activity - l.Clock))
	}
	r.sign("", 0)
	r.Lost, r.quiet, r.Allowance = false, false, 0
}

// sign notes a sign of life. What sweepers noted before is void.
func (r *memoryRow) sign(lease string, activity time.Duration) {
	if r.Lease != lease || r.Activity != activity {
		r.void()
	}
	r.Lease, r.Activity = lease, activity
}

// void forgets what sweepers noted, because the row is not as it was then.
func (r *memoryRow) void() { r.WarnedAt, r.Stopped, r.StopFailed = time.Time{}, false, false }

func (r *memoryRow) eventAt(at time.Time) {
	if at = event.Truncate(at); at.After(r.LastEventAt) {
		r.void()
		r.LastEventAt = at
	}
}

// tell has the row say what its run's process does, unless that is nothing new.
func (r *memoryRow) tell(state json.RawMessage) {
	if state != nil {
		r.State = state
	}
}

// Claim implements [Store].
func (m *Memory) Claim(ctx context.Context, judged Session, c ClaimRequest) (Outcome, error) {
	return m.judge(ctx, judged, c.By, func(r *memoryRow) (Outcome, error) {
		switch {
		case r.Stopped != judged.Stopped:
			return Changed, nil
		case m.endStored(r, c.EndID):
			return EndStored, nil
		case c.Stopped:
			r.Stopped, r.StopFailed = true, c.StopFailed
		}
		r.Session.Claim, r.claimedUntil = c.By, m.now().Add(c.For)
		return Done, nil
	})
}

// Warn implements [Store].
func (m *Memory) Warn(ctx context.Context, judged Session, events []watchdog.Event) (Outcome, error) {
	return m.judge(ctx, judged, "", func(r *memoryRow) (Outcome, error) {
		r.WarnedAt = m.now()
		return Done, m.append(ctx, events)
	})
}

// Cancel implements [Store].
func (m *Memory) Cancel(ctx context.Context, judged Session, c CancelRequest) (Outcome, error) {
	if len(c.Events) == 0 {
		return "", fmt.Errorf("cancel session %s: there is no cancel event", judged.RunID)
	}
	return m.judge(ctx, judged, c.By, func(r *memoryRow) (Outcome, error) {
		id := c.Events[len(c.Events)-1].ID
		if m.endStored(r, id) {
			return EndStored, nil
		}
		if err := m.append(ctx, c.Events); err != nil {
			return "", err
		}
		m.noteEnd(r.Session)
		m.end(r, Cancelled, c.Reason, nil)
		r.Resumes, r.StopFailed, r.Session.Claim = c.Resumes, c.StopFailed, c.By
		if c.StartFor > 0 {
			r.Start = WantedStart{Key: id, Tries: 1, Due: m.now().Add(StartPause(c.StartFor))}
		}
		return Done, nil
	})
}

// judge changes the row of a session that is still as it was judged and that nobody else has claimed, or else returns
// what became of it.
func (m *Memory) judge(
	ctx context.Context, judged Session, by string, change func(r *memoryRow) (Outcome, error),
) (Outcome, error) {
	return get(ctx, m, func() (outcome Outcome, err error) {
		r := m.row(judged.RunID)
		l := m.leases[r.Lease]
		if !r.isAs(judged) || l.Expired || l.refutes(judged) {
			return Changed, nil
		}
		if err = m.free(judged.RunID); err != nil {
			return "", err
		}
		if m.now().Before(r.claimedUntil) && r.Session.Claim != by {
			return Taken, nil
		}
		outcome, err = change(&r)
		if err != nil {
			return "", err
		}
		m.write(r)
		return outcome, nil
	})
}

// isAs reports whether the row is one that can be judged, and still as it was judged.
func (r *memoryRow) isAs(judged Session) bool {
	return r.Status == Active && r.unreadable == nil && r.stalledAs(judged)
}

// endStored writes the end of the run's window down in the row, if it is stored.
func (m *Memory) endStored(r *memoryRow, id string) bool {
	e := m.stored[id]
	if e.AggregateType != event.AggregateType || e.AggregateID != r.RunID {
		return false
	}
	status, reason := StoredEnd(e)
	m.noteEnd(r.Session)
	m.end(r, status, reason, StoredState(r.State, e))
	return true
}

// ClaimStart implements [Starts].
func (m *Memory) ClaimStart(ctx context.Context, lasts time.Duration) (Session, error) {
	return get(ctx, m, func() (Session, error) {
		due := m.where(func(r memoryRow) bool {
			wait := r.Start.Due.Sub(m.now())
			return r.Start.Key != "" && (wait <= 0 || wait > MaxStartPause) && m.free(r.RunID) == nil
		})
		if len(due) == 0 {
			return Session{}, fmt.Errorf("claim a start: %w is to be started now", ErrNotFound)
		}
		r := slices.MinFunc(due, func(a, b memoryRow) int { return a.Start.Due.Compare(b.Start.Due) })
		r.Start.Tries++
		r.Start.Due = m.now().Add(StartPause(lasts))
		m.write(r)
		return r.Session, r.unreadable
	})
}

// PutOffStart implements [Starts]. It waits for no row that is locked.
func (m *Memory) PutOffStart(ctx context.Context, claimed Session, pause time.Duration) (bool, error) {
	return get(ctx, m, func() (done bool, err error) {
		r, of := m.rows[claimed.RunID], claimed.Start
		if of.Key == "" || r.Start.Key != of.Key || r.Start.Tries != of.Tries || r.Attempt != claimed.Attempt {
			return false, nil
		}
		if r.Start.Due = m.now().Add(StartPause(pause)); pause == NoMoreStarts {
			r.Start = WantedStart{}
		}
		if err = m.free(r.RunID); err == nil {
			m.write(r)
		}
		return err == nil, err
	})
}
