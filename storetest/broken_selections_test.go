package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

const (
	idsAndSince = "a selection has its IDs and all from Since on, each once and as Read returns them"
	latestOf    = "LatestOf selects the last event of these types before Since"
)

var brokenSelections = []broken{
	{
		"selects from after Since on", idsAndSince,
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			if !s.Since.IsZero() && len(s.IDs) > 0 {
				s.Since = s.Since.Add(time.Microsecond)
			}
			return m.Select(ctx, s)
		}),
	},
	{
		"selects an event twice", idsAndSince,
		selectsChanged(func(s watchdog.Selection, selected []watchdog.Event) []watchdog.Event {
			for i, e := range selected {
				if slices.Contains(s.IDs, e.ID) && !s.Since.IsZero() && !e.Timestamp.Before(s.Since) {
					return slices.Insert(selected, i, e)
				}
			}
			return selected
		}),
	},
	{
		"takes no more than one ID", idsAndSince,
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			if len(s.IDs) > 1 && s.IDs[0] != "foreign" {
				s.IDs = s.IDs[:1]
			}
			return m.Select(ctx, s)
		}),
	},
	{
		"appends the IDs after the others", idsAndSince,
		selectsChanged(func(s watchdog.Selection, selected []watchdog.Event) []watchdog.Event {
			slices.SortStableFunc(selected, func(a, b watchdog.Event) int {
				return boolean(slices.Contains(s.IDs, a.ID)) - boolean(slices.Contains(s.IDs, b.ID))
			})
			return selected
		}),
	},
	{
		"selects without payloads", idsAndSince,
		selectsChanged(func(s watchdog.Selection, selected []watchdog.Event) []watchdog.Event {
			for i := range selected {
				if len(s.IDs) > 0 {
					selected[i].Payload = []byte("{}")
				}
			}
			return selected
		}),
	},
	{
		"selects the latest of each type", latestOf,
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			selected, err := m.Select(ctx, s)
			for _, one := range s.LatestOf {
				s.LatestOf = []string{one}
				more, _ := m.Select(ctx, s)
				selected = append(selected, more...)
			}
			slices.SortFunc(selected, watchdog.Event.Compare)
			return slices.CompactFunc(selected, func(a, b watchdog.Event) bool { return a.ID == b.ID }), err
		}),
	},
	{
		"selects the latest of all types", latestOf,
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			if len(s.LatestOf) > 0 {
				s.LatestOf = []string{watchdog.EventCancel, watchdog.EventResume, watchdog.EventExtend, "host.note"}
			}
			return m.Select(ctx, s)
		}),
	},
	{
		"leaves the latest of one time to chance", latestOf,
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			selected, err := m.Select(ctx, s)
			if len(s.LatestOf) == 0 || len(selected) == 0 || !selected[0].Timestamp.Before(s.Since) {
				return selected, err
			}
			all, _ := m.Read(ctx, s.AggregateType, s.AggregateID)
			for _, e := range all {
				if e.Timestamp.Equal(selected[0].Timestamp) && slices.Contains(s.LatestOf, e.Type) {
					selected[0] = e
					break
				}
			}
			return selected, err
		}),
	},
	{
		"leaves out from Since until Until without counting", "Until and Known leave out only what the caller knows",
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			if s.Until.After(s.Since) {
				s.Since = s.Until
			}
			return m.Select(ctx, s)
		}),
	},
	{
		"looks for IDs in all aggregates", "an ID that another aggregate has is not selected",
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			selected, err := m.Select(ctx, s)
			s.AggregateID = "run-2"
			foreign, _ := m.Select(ctx, s)
			if len(foreign) > 0 && s.Since.IsZero() {
				selected = append(foreign, selected...)
			}
			return selected, err
		}),
	},
	{
		"looks for IDs in all types of aggregates", "an ID that another aggregate has is not selected",
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			selected, err := m.Select(ctx, s)
			s.AggregateType = "session"
			foreign, _ := m.Select(ctx, s)
			return append(foreign, selected...), err
		}),
	},
	{
		"takes no Since for the beginning", "a selection of nothing is empty, and no error",
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			if s.Since.IsZero() && len(s.IDs)+len(s.LatestOf) == 0 {
				return m.Read(ctx, s.AggregateType, s.AggregateID)
			}
			return m.Select(ctx, s)
		}),
	},
	{
		"selects the latest without Since", "a selection of nothing is empty, and no error",
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			if s.Since.IsZero() && len(s.LatestOf) > 0 {
				return m.Read(ctx, s.AggregateType, s.AggregateID)
			}
			return m.Select(ctx, s)
		}),
	},
	{
		"ignores the context of a select", "a select with a done context returns the context's error",
		selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
			return m.Select(context.WithoutCancel(ctx), s)
		}),
	},
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
