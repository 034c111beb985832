package session

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// Stalled implements [Store].
func (m *Memory) Stalled(ctx context.Context, q Query) (page Page, err error) {
	last, err := storerows.ParsePlace(q.After)
	if err = cmp.Or(q.Validate(), err); err != nil {
		return page, err
	}
	if err := m.lock(ctx); err != nil {
		return page, err
	}
	defer m.mu.Unlock()
	page.Now = m.now()
	place := func(s Session) storerows.Place { return q.place(s, m.leases[s.Lease]) }
	for _, r := range m.sorted() {
		if r.Status != Active {
			continue
		}
		switch s, err := m.read(r); {
		case err != nil && q.After == "":
			page.Unreadable = append(page.Unreadable, err)
		case err == nil && m.stalled(s, q, page.Now) && place(s).Compare(last) > 0:
			page.Sessions = append(page.Sessions, s)
		}
	}
	page.Sessions, page.Next = storerows.Paginate(page.Sessions, q.Limit, place)
	return page, nil
}

func (m *Memory) stalled(s Session, q Query, now time.Time) bool {
	if l := m.leases[s.Lease]; l != nil && l.Expired {
		return false // its sessions are about to leave it
	}
	return s.SilentFor(now) > q.limit(s) && now.Sub(s.CreatedAt) >= q.MinAge
}

// place is the position of a session among the stalled ones. That of a session with a lease is by the database's clock,
// as it was when the lease was renewed; only the order depends on it.
func (q Query) place(s Session, l *Lease) storerows.Place {
	silent := s.SilentSince()
	if l != nil {
		silent = l.RenewedAt.Add(s.Activity - l.Clock)
	}
	due := cmp.Or(s.Allowance, s.Threshold, q.Threshold)
	return storerows.Place{Due: silent.Add(due).UnixMicro(), RunID: s.RunID}
}

// List implements [Lister].
func (m *Memory) List(ctx context.Context, q ListQuery) (page ListPage, err error) {
	last, err := storerows.ParsePlace(q.After)
	if err = cmp.Or(q.Validate(), err); err != nil {
		return page, err
	}
	if err := m.lock(ctx); err != nil {
		return page, err
	}
	defer m.mu.Unlock()
	page.Now = m.now()
	place := func(r *memoryRow) storerows.Place {
		return storerows.Place{Due: r.CreatedAt.UnixMicro(), RunID: r.RunID}
	}
	rows := slices.DeleteFunc(m.sorted(), func(r *memoryRow) bool {
		return !q.wants(r.Session) || q.After != "" && place(r).Compare(last) >= 0
	})
	slices.SortFunc(rows, func(a, b *memoryRow) int { return place(b).Compare(place(a)) })
	if len(rows) > q.Limit {
		rows, page.Next = rows[:q.Limit], place(rows[q.Limit-1]).String()
	}
	for _, r := range rows {
		if s, err := m.read(r); err != nil {
			page.Unreadable = append(page.Unreadable, err)
		} else {
			page.Sessions = append(page.Sessions, s)
		}
	}
	return page, nil
}

// wants reports whether the query's conditions hold for a session.
func (q ListQuery) wants(s Session) bool {
	live, reason := s.Status == Active, s.Reason
	if s.Failed() {
		reason = ReasonFailed
	}
	return (q.Live == q.Ended || q.Live == live) && (q.Parent == "" || q.Parent == s.Parent) &&
		(q.Host == "" || q.Host == s.Host) && (q.Reason == "" || q.Reason == reason)
}

// History implements [Store].
func (m *Memory) History(ctx context.Context, h HistoryQuery) (all []CancelCount, err error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	counts := map[string]int{}
	for _, e := range m.log {
		if e.AggregateType == watchdog.AggregateType && e.Type == watchdog.EventCancel &&
			!e.Timestamp.Before(h.From) && e.Timestamp.Before(h.To) {
			key, err := m.key(e, h.By)
			if err != nil {
				return nil, err
			}
			counts[key]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, CancelCount{key, counts[key]})
	}
	return all, nil
}

func (m *Memory) key(e watchdog.Event, by Dimension) (string, error) {
	switch by {
	case ByReason:
		return reasonOf(e), nil
	case ByDay:
		return e.Timestamp.UTC().Format(time.DateOnly), nil
	case ByHost:
		if r := m.rows[e.AggregateID]; r != nil {
			return r.Host, nil
		}
		return "", nil
	default:
		return "", storerows.DimensionError(by)
	}
}
