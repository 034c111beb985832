package session

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

type memorySearch struct {
	after string
	limit int
	valid error
	order int // -1 to begin with the last place
	wants func(r memoryRow, now time.Time) bool
	place func(r memoryRow) Place
}

func (m *Memory) page(q memorySearch) (page Page, err error) {
	last, err := ParsePlace(q.after)
	if err = cmp.Or(q.valid, err); err != nil {
		return page, err
	}
	page.Now = m.now()
	rows := m.where(func(r memoryRow) bool {
		return q.wants(r, page.Now) && (q.after == "" || q.order*q.place(r).Compare(last) > 0)
	})
	slices.SortFunc(rows, func(a, b memoryRow) int { return q.order * q.place(a).Compare(q.place(b)) })
	if len(rows) > q.limit {
		rows, page.Next = rows[:q.limit], q.place(rows[q.limit-1]).String()
	}
	for _, r := range rows {
		page.add(r)
	}
	return page, nil
}

func (p *Page) add(r memoryRow) {
	if r.unreadable != nil {
		p.Unreadable = append(p.Unreadable, r.unreadable)
		return
	}
	p.Sessions = append(p.Sessions, r.Session)
}

// Stalled implements [Store]. A session's place is by when it exceeded what it may be silent. That of one with a lease
// is by the database's clock, as it was when the lease was renewed; only the order depends on it.
func (m *Memory) Stalled(ctx context.Context, q Query) (Page, error) {
	wants := func(r memoryRow, now time.Time) bool {
		l := m.leases[r.Lease] // the sessions of one that expired are about to leave it
		return r.Status == Active && r.unreadable == nil && !l.Expired &&
			r.SilentFor(now) > q.limit(r.Session) && now.Sub(r.CreatedAt) >= q.MinAge
	}
	place := func(r memoryRow) Place {
		silent := r.SilentSince()
		if l, there := m.leases[r.Lease]; there {
			silent = l.RenewedAt.Add(r.Activity - l.Clock)
		}
		due := silent.Add(cmp.Or(r.Allowance, r.Threshold, q.Threshold))
		return Place{Due: due.UnixMicro(), RunID: r.RunID}
	}
	return get(ctx, m, func() (Page, error) {
		page, err := m.page(memorySearch{q.After, q.Limit, q.Validate(), 1, wants, place})
		for _, r := range m.where(func(r memoryRow) bool { return r.Status == Active && r.unreadable != nil }) {
			if q.After == "" && err == nil {
				page.add(r)
			}
		}
		return page, err
	})
}

// List implements [Lister].
func (m *Memory) List(ctx context.Context, q ListQuery) (ListPage, error) {
	place := func(r memoryRow) Place {
		return Place{Due: r.CreatedAt.UnixMicro(), RunID: r.RunID}
	}
	page, err := get(ctx, m, func() (Page, error) {
		return m.page(memorySearch{q.After, q.Limit, q.Validate(), -1, q.wants, place})
	})
	return ListPage(page), err
}

func (q ListQuery) wants(r memoryRow, _ time.Time) bool {
	live, reason := r.Status == Active, r.Reason
	if r.Failed() {
		reason = ReasonFailed
	}
	return (q.Live == q.Ended || q.Live == live) && (q.Parent == "" || q.Parent == r.Parent) &&
		(q.Host == "" || q.Host == r.Host) && (q.Reason == "" || q.Reason == reason)
}

// History implements [Store].
func (m *Memory) History(ctx context.Context, h HistoryQuery) ([]CancelCount, error) {
	return get(ctx, m, func() (all []CancelCount, err error) {
		if err := h.Validate(); err != nil {
			return nil, err
		}
		keyOf := map[Dimension]func(e watchdog.Event) string{
			ByReason: reasonOf,
			ByDay:    func(e watchdog.Event) string { return e.Timestamp.Format(time.DateOnly) },
			ByHost:   func(e watchdog.Event) string { return m.rows[e.AggregateID].Host },
		}[h.By]
		counts := map[string]int{}
		for _, e := range m.stored {
			if e.AggregateType == event.AggregateType && e.Type == event.Cancel &&
				!e.Timestamp.Before(h.From) && e.Timestamp.Before(h.To) {
				counts[keyOf(e)]++
			}
		}
		for _, key := range slices.Sorted(maps.Keys(counts)) {
			all = append(all, CancelCount{key, counts[key]})
		}
		return all, nil
	})
}
