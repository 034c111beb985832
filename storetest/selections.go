package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var selectionRules = []rule{
	{
		"a selection has its IDs and all from Since on, each once and as Read returns them",
		"a watchdog attaches with a selection: an event that is missing or out of order is another window",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			return selectsAtRandom(ctx, store, false)
		}),
	},
	{
		"LatestOf selects the last event of these types before Since",
		"it is the one that opened the window: without it, or with an older one, the run gets another deadline",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			return selectsAtRandom(ctx, store, true)
		}),
	},
	{
		"Until and Known leave out only what the caller knows",
		"another program's event of before, such as an extension, would never be read, and the run cancelled",
		transacting(leavesOutWhatIsKnown),
	},
	{
		"an ID that another aggregate has is not selected",
		"a run would take another run's cancel for its own and end",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			foreign := inAggregate(numbered("foreign", 1), "run-2")
			host := numbered("host", 2)
			host.AggregateType = "session"
			if err := put(ctx, store, numbered("own", 3), foreign, host); err != nil {
				return err
			}
			return selects(ctx, store, watchdog.Selection{IDs: []string{"foreign", "own", "host", "nowhere"}}, "own")
		}),
	},
	{
		"a selection of nothing is empty, and no error",
		"a caller that looks for no events, or in a new run, must not have to check that before",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			return errors.Join(
				selects(ctx, store, watchdog.Selection{IDs: []string{"a"}, Since: noon, LatestOf: types}),
				put(ctx, store, numbered("a", 1)),
				selects(ctx, store, watchdog.Selection{}),
				selects(ctx, store, watchdog.Selection{LatestOf: []string{watchdog.EventCancel}}),
				selects(ctx, store, watchdog.Selection{Since: noon.Add(time.Hour)}),
			)
		}),
	},
	{
		"a select with a done context returns the context's error",
		"the caller no longer waits: an answer that looks like an empty run is worse than the error",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			return contract.WithDoneContexts(ctx, func(done context.Context) error {
				_, err := store.Select(done, ofRun(watchdog.Selection{Since: noon}))
				return wrapsContextError(done, "Select", err)
			})
		}),
	},
}

// types are the types of the events that random selections are made from.
var types = []string{watchdog.EventCancel, watchdog.EventResume, watchdog.EventExtend, "host.note"}

// selectsAtRandom compares random selections with a filter of what Read returns: with LatestOf, or with IDs.
func selectsAtRandom(ctx context.Context, store watchdog.TransactionalStore, latest bool) error {
	random := rand.New(rand.NewPCG(1, 2)) // the same selections in every run
	if err := put(ctx, store, history(random)...); err != nil {
		return err
	}
	all, err := get(ctx, store, runID)
	if err != nil {
		return err
	}
	for range 100 {
		s := watchdog.Selection{Since: noon.Add(time.Duration(random.IntN(24)-2) * time.Second)}
		if latest {
			s.LatestOf = sample(random, types)
		} else {
			s.IDs = sample(random, append(ids(all), "unknown", all[0].ID))
		}
		if len(s.IDs) > 0 && random.IntN(8) == 0 {
			s.Since = time.Time{}
		}
		if err := selectsEvents(ctx, store, s, filter(all, s)); err != nil {
			return err
		}
	}
	return nil
}

// leavesOutWhatIsKnown looks for events that are missing in selections whose count is right, or wrong. A store may
// select what it need not.
func leavesOutWhatIsKnown(ctx context.Context, store watchdog.TransactionalStore) error {
	random := rand.New(rand.NewPCG(3, 4))
	if err := put(ctx, store, history(random)...); err != nil {
		return err
	}
	all, err := get(ctx, store, runID)
	if err != nil {
		return err
	}
	for range 60 {
		s := watchdog.Selection{Since: noon.Add(time.Duration(random.IntN(20)) * time.Second)}
		s.Until = s.Since.Add(time.Duration(random.IntN(12)) * time.Second)
		s.Known = len(from(all, s.Since)) - len(from(all, s.Until)) + random.IntN(3) - 1
		needed := s
		if s.Known > 0 && s.Known == len(from(all, s.Since))-len(from(all, s.Until)) {
			needed.Since = s.Until
		}
		selected, err := store.Select(ctx, ofRun(s))
		if err != nil {
			return fmt.Errorf("select %+v: %w", s, err)
		}
		for _, e := range from(all, needed.Since.Add(time.Microsecond)) { // another rule looks at Since itself
			if !slices.Contains(ids(selected), e.ID) {
				return fmt.Errorf("selection %+v: event %s is missing", s, e.ID)
			}
		}
	}
	return nil
}

// from returns the events from that time on.
func from(all []watchdog.Event, since time.Time) []watchdog.Event {
	return filter(all, watchdog.Selection{Since: since})
}

// history returns events of all types in disorder. Several have one time, and their IDs do not follow the time.
func history(random *rand.Rand) []watchdog.Event {
	events := make([]watchdog.Event, 60)
	for i := range events {
		events[i] = numbered(fmt.Sprintf("%04d-%d", random.IntN(10_000), i), random.IntN(20))
		events[i].Type = types[random.IntN(len(types))]
	}
	return events
}

// sample returns some of the values, in disorder.
func sample(random *rand.Rand, values []string) []string {
	values = slices.Clone(values)
	random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	return values[:random.IntN(min(len(values), 6))]
}

// filter is Select in its plain form.
func filter(all []watchdog.Event, s watchdog.Selection) (selected []watchdog.Event) {
	latest := -1
	for i, e := range all {
		if e.Timestamp.Before(s.Since) && slices.Contains(s.LatestOf, e.Type) {
			latest = i
		}
	}
	for i, e := range all {
		since := !s.Since.IsZero() && !e.Timestamp.Before(s.Since)
		if since || i == latest || slices.Contains(s.IDs, e.ID) {
			selected = append(selected, e)
		}
	}
	return selected
}

// ofRun returns the selection for the run.
func ofRun(s watchdog.Selection) watchdog.Selection {
	s.AggregateType, s.AggregateID = watchdog.AggregateType, runID
	return s
}

// selects checks the IDs of what a selection of the run selects.
func selects(ctx context.Context, store watchdog.TransactionalStore, s watchdog.Selection, want ...string) error {
	selected, err := store.Select(ctx, ofRun(s))
	if err != nil {
		return fmt.Errorf("select %+v: %w", s, err)
	}
	if got := ids(selected); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		return fmt.Errorf("selection %+v: got events %s, want %s", s, contract.Shorten(got), contract.Shorten(want))
	}
	return nil
}

// selectsEvents checks all fields of what a selection of the run selects.
func selectsEvents(
	ctx context.Context, store watchdog.TransactionalStore, s watchdog.Selection, want []watchdog.Event,
) error {
	selected, err := store.Select(ctx, ofRun(s))
	if err != nil {
		return fmt.Errorf("select %+v: %w", s, err)
	}
	sameID := func(a, b watchdog.Event) bool { return a.ID == b.ID }
	if !slices.EqualFunc(selected, want, sameID) {
		return fmt.Errorf("selection %+v: got events %s, want %s", s, list(selected), list(want))
	}
	for i := range want {
		if err := differs(selected[i], want[i]); err != nil {
			return fmt.Errorf("selection %+v: %w", s, err)
		}
	}
	return nil
}
