package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
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

func (l *link) Select(ctx context.Context, s event.Selection) ([]watchdog.Event, error) {
	return call(ctx, l, "Select", false, func(ctx context.Context, m *session.Memory) ([]watchdog.Event, error) {
		return m.Select(ctx, s)
	})
}

func (l *link) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
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

// noteRenewal notes that a lease was begun or renewed in the database.
func (w *world) noteRenewal(l *link, id string, beat int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if beat <= w.beats[id] {
		return // it came late
	}
	w.beats[id] = beat
	if _, there := w.leaseOrder[id]; !there {
		w.leaseOrder[id] = len(w.leaseOrder)
	}
	h, now := l.host, time.Now()
	w.renewed[id] = now
	if now.Sub(h.renewedAt) >= 3*promise {
		h.gapUntil = now
	}
	h.renewedAt = now
}

// uses notes the lease that a process uses now.
func (l *link) uses(lease string) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.host.lease != lease {
		l.host.lease, l.host.leaseSince = lease, time.Now()
	}
}

// lockLeases marks the suspects that are locked, and orders the leases as they began: their IDs are random.
func (w *world) lockLeases(all []session.Lease, suspects []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(all, func(a, b session.Lease) int { return w.leaseOrder[a.ID] - w.leaseOrder[b.ID] })
	for i := range all {
		all[i].Locked = slices.Contains(suspects, all[i].ID) && w.leases.locked(all[i].ID)
	}
}

// checkExpired checks that a lease which a sweeper has expired was not renewed for three promises.
func (w *world) checkExpired(l *link, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	was := w.expired[id]
	w.expired[id] = true
	if was || l.host != nil || w.renewed[id].IsZero() { // it was expired already, or its process ended it
		return
	}
	if since := now.Sub(w.renewed[id]); since < 3*promise && now.Sub(w.restoredAt) > horizon {
		w.failf("sweeper %s expired a lease that was renewed %v ago", l.name, since)
	}
}

// checkRenewed checks that a lease which a process has just renewed had not expired. A call that waited for a lock
// while the database came back older is of no interest.
func (w *world) checkRenewed(l *link, m *session.Memory, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == m && w.expired[id] {
		w.failf("host %s renewed a lease that has expired", l.name)
	}
}

// checkLeases checks that no lease lives which has expired.
func (w *world) checkLeases() {
	for id, expired := range expiredIn(w.db) {
		if w.expired[id] && !expired {
			w.failf("lease %d has expired and lives again", w.leaseOrder[id])
		}
		w.expired[id] = w.expired[id] || expired
	}
}

// expiredIn returns the leases in a database, and whether they have expired.
func expiredIn(db *session.Memory) map[string]bool {
	expired := map[string]bool{}
	all, _ := db.ObserveLeases(context.Background(), nil)
	for _, l := range all {
		expired[l.ID] = l.Expired
	}
	return expired
}

// looks are looks at a lease in a row that succeeded and found the same beat.
type looks struct {
	beat  int64
	since time.Time
	count int
}

// noteLooks notes which leases a sweeper found as it did before.
func (l *link) noteLooks(all []session.Lease, suspects []string, err error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for _, id := range suspects {
		i := slices.IndexFunc(all, func(lease session.Lease) bool { return lease.ID == id && !lease.Locked })
		switch before := l.looks[id]; {
		case err != nil || i < 0:
			delete(l.looks, id)
		case before == nil || before.beat != all[i].Beat:
			l.looks[id] = &looks{all[i].Beat, time.Now(), 1}
		default:
			before.count++
		}
	}
}

// checkLooks checks that a sweeper which expires a lease has looked at it for three promises.
func (l *link) checkLooks(lease session.Lease) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.host != nil || lease.Expired || l.w.expired[lease.ID] {
		return
	}
	if seen := l.looks[lease.ID]; seen == nil || seen.count < 3 || time.Since(seen.since) < 3*promise {
		l.w.failf("sweeper %s expires a lease without three promises of looks: %+v", l.name, seen)
	}
}

// A hostClock is the wall clock of one process. It can be set; its timers and its Uptime go on as the time of the
// bubble does.
type hostClock struct {
	began time.Time
	ahead atomic.Int64 // nanoseconds before the time of the bubble
}

func newHostClock(ahead time.Duration) *hostClock {
	c := &hostClock{began: time.Now()}
	c.set(ahead)
	return c
}

// set sets the clock forward, or back.
func (c *hostClock) set(by time.Duration) { c.ahead.Add(int64(by)) }

// Now is the wall clock.
func (c *hostClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// AfterFunc sets a timer of the bubble.
func (c *hostClock) AfterFunc(d time.Duration, f func()) watchdog.Timer { return time.AfterFunc(d, f) }

// Uptime never goes back, and nobody sets it.
func (c *hostClock) Uptime() time.Duration { return time.Since(c.began) }
