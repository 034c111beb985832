package session

import (
	"context"
	"slices"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// List implements [Lister].
func (m *Memory) List(ctx context.Context, q ListQuery) (ListPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, err := storerows.ParsePlace(q.After)
	for _, err := range []error{ctx.Err(), q.Validate(), err} {
		if err != nil {
			return ListPage{}, err
		}
	}
	page := ListPage{Now: m.now()}
	var rows []*memoryRow
	for _, r := range m.rows {
		if q.wants(r.Session) && (q.After == "" || listPlace(r).Compare(last) < 0) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *memoryRow) int { return listPlace(b).Compare(listPlace(a)) })
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		page.Next = listPlace(rows[q.Limit-1]).String()
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

// listPlace is the position of a session in a list, from its end.
func listPlace(r *memoryRow) storerows.Place {
	return storerows.Place{Due: r.CreatedAt.UnixMicro(), RunID: r.RunID}
}

// wants reports whether the query's conditions hold for a session.
func (q ListQuery) wants(s Session) bool {
	live := s.Status == Active
	return (q.Live == q.Ended || q.Live == live) &&
		(q.Parent == "" || q.Parent == s.Parent) && (q.Host == "" || q.Host == s.Host) &&
		(q.Reason == "" || q.Reason == s.listedReason())
}

// listedReason is the reason by which the session is listed.
func (s Session) listedReason() watchdog.StopReason {
	if s.Failed() {
		return ReasonFailed
	}
	return s.Reason
}

var _ Lister = (*Memory)(nil)
