package session

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// Stalled implements [Store].
func (m *Memory) Stalled(ctx context.Context, q Query) (Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Page{}, err
	}
	if err := q.Validate(); err != nil {
		return Page{}, err
	}
	page := Page{Now: m.now()}
	for _, runID := range slices.Sorted(maps.Keys(m.rows)) {
		switch r := m.rows[runID]; {
		case r.Status != Active:
		case r.spoiled:
			_, err := m.read(r)
			page.Unreadable = append(page.Unreadable, err)
		default:
			if s, _ := m.read(r); m.stalled(s, q, page.Now) {
				page.Sessions = append(page.Sessions, s)
			}
		}
	}
	last, err := storerows.ParsePlace(q.After)
	if err != nil {
		return Page{}, err
	}
	place := func(s Session) storerows.Place { return q.place(s, m.leases[s.Lease]) }
	if q.After != "" {
		page.Sessions = slices.DeleteFunc(page.Sessions, func(s Session) bool { return place(s).Compare(last) <= 0 })
		page.Unreadable = nil // the first page had them
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

// History implements [Store].
func (m *Memory) History(ctx context.Context, h HistoryQuery) ([]CancelCount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for of := range m.aggregates {
		events, err := m.events.Read(ctx, of.kind, of.id)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if !counted(e, h) {
				continue
			}
			key, err := m.key(e, h.By)
			if err != nil {
				return nil, err
			}
			counts[key]++
		}
	}
	var all []CancelCount
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, CancelCount{key, counts[key]})
	}
	return all, nil
}

func counted(e watchdog.Event, h HistoryQuery) bool {
	return e.AggregateType == watchdog.AggregateType && e.Type == watchdog.EventCancel &&
		!e.Timestamp.Before(h.From) && e.Timestamp.Before(h.To)
}

func (m *Memory) key(e watchdog.Event, by Dimension) (string, error) {
	switch by {
	case ByReason:
		var fields map[string]json.RawMessage // the fields of a struct ignore case
		var reason string
		_ = json.Unmarshal(e.Payload, &fields)
		_ = json.Unmarshal(fields["reason"], &reason) // another writer's cancel may have none
		return reason, nil
	case ByDay:
		return e.Timestamp.Format(time.DateOnly), nil
	case ByHost:
		if r := m.rows[e.AggregateID]; r != nil {
			return r.Host, nil
		}
		return "", nil
	default:
		return "", storerows.DimensionError(by)
	}
}
