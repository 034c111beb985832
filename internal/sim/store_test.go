package sim_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// The methods of the store. Each is one call of the database, whose effects the world notes where they happen.

type none = struct{}

func (l *link) Append(ctx context.Context, events ...watchdog.Event) error {
	_, err := call(ctx, l, "Append", true, func(ctx context.Context, m *session.Memory) (none, error) {
		return none{}, m.Append(ctx, events...)
	})
	return l.w.acknowledge(err, events)
}

func (l *link) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	return call(ctx, l, "Read", false, func(ctx context.Context, m *session.Memory) ([]watchdog.Event, error) {
		return m.Read(ctx, aggregateType, aggregateID)
	})
}

func (l *link) Select(ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
	return call(ctx, l, "Select", false, func(ctx context.Context, m *session.Memory) ([]watchdog.Event, error) {
		return m.Select(ctx, s)
	})
}

func (l *link) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	_, err := call(ctx, l, "Transact", true, func(ctx context.Context, m *session.Memory) (none, error) {
		return none{}, m.Transact(ctx, exchanges...)
	})
	for _, x := range exchanges {
		if err == nil {
			_ = l.w.acknowledge(nil, x.Kept)
		}
	}
	return err
}

// attached is the answer to Attach.
type attached struct{ before, after session.Session }

func (l *link) Attach(ctx context.Context, s session.Session) (before, after session.Session, err error) {
	l.uses(s.Lease)
	a, err := call(ctx, l, "Attach", true, func(ctx context.Context, m *session.Memory) (a attached, err error) {
		if l.w.rows.refused(s.RunID) {
			return a, fmt.Errorf("run %s: %w", s.RunID, errRefused)
		}
		if err := l.w.rows.await(ctx, s.RunID); err != nil {
			return a, err
		}
		a.before, a.after, err = m.Attach(ctx, s)
		if err == nil && a.after.Attempt != a.before.Attempt {
			l.w.noteAttach(a.after)
		}
		return a, err
	})
	return a.before, a.after, err
}

func (l *link) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	l.uses(lease)
	return call(ctx, l, "Freshen", true, func(ctx context.Context, m *session.Memory) (session.Skipped, error) {
		return writeRows(ctx, l.w, fresh, func(f session.Freshness) string { return f.RunID },
			func(fresh []session.Freshness) (session.Skipped, error) { return m.Freshen(ctx, lease, fresh) })
	})
}

func (l *link) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	return call(ctx, l, "End", true, func(ctx context.Context, m *session.Memory) (session.Skipped, error) {
		return writeRows(ctx, l.w, ends, func(e session.Ending) string { return e.RunID },
			func(ends []session.Ending) (session.Skipped, error) { return m.End(ctx, ends) })
	})
}

// writeRows writes the rows that are not refused. A single one that is locked is waited for.
func writeRows[E any](
	ctx context.Context, w *world, all []E, runID func(E) string, write func([]E) (session.Skipped, error),
) (session.Skipped, error) {
	refused, taken := map[string]error{}, []E(nil)
	for _, e := range all {
		if w.rows.refused(runID(e)) {
			refused[runID(e)] = fmt.Errorf("run %s: %w", runID(e), errRefused)
		} else {
			taken = append(taken, e)
		}
	}
	if len(all) == 1 && len(taken) == 1 {
		if err := w.rows.await(ctx, runID(taken[0])); err != nil {
			return session.Skipped{}, err
		}
	}
	skipped, err := write(taken)
	if len(refused) > 0 {
		skipped.Failed = refused
	}
	return skipped, err
}

func (l *link) Session(ctx context.Context, runID string) (session.Session, error) {
	return call(ctx, l, "Session", false, func(ctx context.Context, m *session.Memory) (session.Session, error) {
		return m.Session(ctx, runID)
	})
}

func (l *link) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	return call(ctx, l, "Stalled", false, func(ctx context.Context, m *session.Memory) (session.Page, error) {
		return m.Stalled(ctx, q)
	})
}

func (l *link) Claim(ctx context.Context, s session.Session, c session.ClaimRequest) (session.Outcome, error) {
	return l.judged(ctx, "Claim", s, func(ctx context.Context, m *session.Memory) (session.Outcome, error) {
		return m.Claim(ctx, s, c)
	})
}

func (l *link) Warn(ctx context.Context, s session.Session, events []watchdog.Event) (session.Outcome, error) {
	outcome, err := l.judged(ctx, "Warn", s, func(ctx context.Context, m *session.Memory) (session.Outcome, error) {
		return m.Warn(ctx, s, events)
	})
	if outcome == session.Done {
		_ = l.w.acknowledge(err, events)
	}
	return outcome, err
}

func (l *link) Cancel(ctx context.Context, s session.Session, c session.CancelRequest) (session.Outcome, error) {
	outcome, err := l.judged(ctx, "Cancel", s, func(ctx context.Context, m *session.Memory) (session.Outcome, error) {
		outcome, err := m.Cancel(ctx, s, c)
		if outcome == session.Done {
			l.w.checkSwept(l, s)
		}
		return outcome, err
	})
	if outcome == session.Done {
		_ = l.w.acknowledge(err, c.Events)
	}
	return outcome, err
}

// CancelAll writes nothing if the database refuses one of the rows.
func (l *link) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	write := func(ctx context.Context, m *session.Memory) ([]session.Outcome, error) {
		for _, c := range all {
			if l.w.rows.refused(c.Judged.RunID) {
				return nil, fmt.Errorf("run %s: %w", c.Judged.RunID, errRefused)
			}
		}
		outcomes := make([]session.Outcome, len(all))
		for i, c := range all {
			outcome, err := m.Cancel(context.WithoutCancel(ctx), c.Judged, c.Request)
			if outcome == session.Done {
				l.w.checkSwept(l, c.Judged)
			}
			if err != nil && !errors.Is(err, session.ErrLocked) {
				return nil, err
			}
			outcomes[i] = outcome
		}
		return outcomes, nil
	}
	outcomes, err := call(ctx, l, "Cancel", true, write)
	for i, outcome := range outcomes {
		if outcome == session.Done {
			_ = l.w.acknowledge(err, all[i].Request.Events)
		}
	}
	return outcomes, err
}

func (l *link) judged(
	ctx context.Context, kind string, s session.Session,
	do func(context.Context, *session.Memory) (session.Outcome, error),
) (session.Outcome, error) {
	return call(ctx, l, kind, true, func(ctx context.Context, m *session.Memory) (session.Outcome, error) {
		if l.w.rows.refused(s.RunID) {
			return "", fmt.Errorf("run %s: %w", s.RunID, errRefused)
		}
		return do(ctx, m)
	})
}

func (l *link) Ended(ctx context.Context, lease string, told []session.AttemptID) ([]session.AttemptID, error) {
	return call(ctx, l, "Ended", len(told) > 0, func(ctx context.Context, m *session.Memory) ([]session.AttemptID, error) {
		return m.Ended(ctx, lease, told)
	})
}

func (l *link) History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error) {
	return call(ctx, l, "History", false, func(ctx context.Context, m *session.Memory) ([]session.CancelCount, error) {
		return m.History(ctx, h)
	})
}

func (l *link) BeginLease(ctx context.Context, lease session.Lease) error {
	_, err := call(ctx, l, "BeginLease", true, func(ctx context.Context, m *session.Memory) (none, error) {
		return none{}, m.BeginLease(ctx, lease)
	})
	if err == nil { // else it is nobody's
		l.w.noteRenewal(l, lease.ID, lease.Beat)
	}
	return err
}

func (l *link) RenewLease(ctx context.Context, lease session.Lease) error {
	l.uses(lease.ID)
	_, err := call(ctx, l, "RenewLease", true, func(ctx context.Context, m *session.Memory) (none, error) {
		if err := l.w.leases.awaitFree(ctx, lease.ID); err != nil {
			return none{}, err
		}
		err := m.RenewLease(ctx, lease)
		if err == nil {
			l.w.checkRenewed(l, m, lease.ID)
			l.w.noteRenewal(l, lease.ID, lease.Beat)
		}
		return none{}, err
	})
	return err
}

// ObserveLeases returns the leases in the order in which they began, because their IDs are random.
func (l *link) ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	began := time.Now()
	all, err := call(ctx, l, "ObserveLeases", len(suspects) > 0,
		func(ctx context.Context, m *session.Memory) ([]session.Lease, error) {
			all, err := m.ObserveLeases(ctx, suspects)
			l.w.lockLeases(all, suspects)
			return all, err
		})
	if time.Since(began) < recordTimeout+time.Second { // else the sweeper has left it behind
		l.noteLooks(all, suspects, err)
	}
	return all, err
}

// expiry is the answer to ExpireLease.
type expiry struct {
	expired bool
	left    int
}

func (l *link) ExpireLease(ctx context.Context, lease session.Lease) (bool, int, error) {
	l.checkLooks(lease)
	e, err := call(ctx, l, "ExpireLease", true, func(ctx context.Context, m *session.Memory) (e expiry, err error) {
		if l.w.leases.locked(lease.ID) {
			return e, fmt.Errorf("lease %s: %w", lease.ID, session.ErrLocked)
		}
		if e.expired, e.left, err = m.ExpireLease(ctx, lease); e.expired {
			l.w.checkExpired(l, lease.ID)
		}
		return e, err
	})
	return e.expired, e.left, err
}

func (l *link) ClaimStart(ctx context.Context, lasts time.Duration) (session.Session, error) {
	return call(ctx, l, "ClaimStart", true, func(ctx context.Context, m *session.Memory) (session.Session, error) {
		return m.ClaimStart(ctx, lasts)
	})
}

func (l *link) PutOffStart(ctx context.Context, claimed session.Session, pause time.Duration) (bool, error) {
	return call(ctx, l, "PutOffStart", true, func(ctx context.Context, m *session.Memory) (bool, error) {
		return m.PutOffStart(ctx, claimed, pause)
	})
}

func (l *link) LeaseSessions(ctx context.Context, id string) ([]session.AttemptID, error) {
	return call(ctx, l, "LeaseSessions", false, func(ctx context.Context, m *session.Memory) ([]session.AttemptID, error) {
		return m.LeaseSessions(ctx, id)
	})
}
