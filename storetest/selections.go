package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

var selectionRules = []eventRule{
	{"a selection has its IDs and all from Since on, each once and as Read returns them",
		"a watchdog attaches with a selection: an event that is missing or out of order is another window",
		selectsAtRandom(false)},
	{"LatestOf selects the last event of these types before Since",
		"it is the one that opened the window: without it, or with an older one, the run gets another deadline",
		selectsAtRandom(true)},
	{"Until and Known leave out only what the caller knows",
		"another program's event of before, such as an extension, would never be read, and the run cancelled",
		leavesOutWhatIsKnown},
	{"an ID that another aggregate has is not selected",
		"a run would take another run's cancel for its own and end",
		inTurn(
			put(numbered("own", 3), inAggregate(numbered("foreign", 1), "run-2"), ofSession(numbered("host", 2))),
			selects(watchdog.Selection{IDs: []string{"foreign", "own", "host", "nowhere"}}, "own"),
		)},
	{"a selection of nothing is empty, and no error",
		"a caller that looks for no events, or in a new run, must not have to check that before",
		inTurn(
			selects(watchdog.Selection{IDs: []string{"a"}, Since: noon, LatestOf: types}),
			put(numbered("a", 1)),
			selects(watchdog.Selection{}),
			selects(watchdog.Selection{LatestOf: []string{watchdog.EventCancel}}),
			selects(watchdog.Selection{Since: noon.Add(time.Hour)}),
		)},
	{"a select with a done context returns the context's error",
		"the caller no longer waits: an answer that looks like an empty run is worse than the error",
		withDoneContexts(selects(watchdog.Selection{Since: noon}))},
}

// selects checks the IDs of what a selection of the run selects.
func selects(s watchdog.Selection, want ...string) step {
	return selecting(s, func(selected []watchdog.Event) error { return sameNames("events", ids(selected), want) })
}

// selecting makes a selection of the run and checks what it selects.
func selecting(s watchdog.Selection, check func(selected []watchdog.Event) error) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		selected, err := store.(watchdog.TransactionalStore).Select(ctx, ofRun(s))
		if err == nil {
			err = check(selected)
		}
		if err != nil {
			return fmt.Errorf("selection %+v: %w", s, err)
		}
		return nil
	}
}

// ofRun returns the selection for the run. It is a copy, which a store may change.
func ofRun(s watchdog.Selection) watchdog.Selection {
	s.AggregateType, s.AggregateID = watchdog.AggregateType, runID
	s.IDs, s.LatestOf = slices.Clone(s.IDs), slices.Clone(s.LatestOf)
	return s
}

// selectsAtRandom compares random selections with a filter of what Read returns: with LatestOf, or with IDs.
func selectsAtRandom(latest bool) step {
	return fromHistory(1, 100, func(random *rand.Rand, all []watchdog.Event) step {
		s := watchdog.Selection{Since: noon.Add(time.Duration(random.IntN(24)-2) * time.Second)}
		if latest {
			s.LatestOf = sample(random, types)
		} else {
			s.IDs = sample(random, append(ids(all), "unknown", all[0].ID))
		}
		if len(s.IDs) > 0 && random.IntN(8) == 0 {
			s.Since = time.Time{}
		}
		return selecting(s, func(selected []watchdog.Event) error { return differFrom(selected, filter(all, s)) })
	})
}

// leavesOutWhatIsKnown looks for events that are missing in selections whose count is right, or wrong. A store may
// select what it need not.
var leavesOutWhatIsKnown = fromHistory(3, 60, func(random *rand.Rand, all []watchdog.Event) step {
	s := watchdog.Selection{Since: noon.Add(time.Duration(random.IntN(20)) * time.Second)}
	s.Until = s.Since.Add(time.Duration(random.IntN(12)) * time.Second)
	between := len(since(all, s.Since)) - len(since(all, s.Until))
	s.Known = between + random.IntN(3) - 1
	needed := s.Since
	if s.Known > 0 && s.Known == between {
		needed = s.Until
	}
	return selecting(s, func(selected []watchdog.Event) error {
		for _, e := range since(all, needed.Add(time.Microsecond)) { // another rule looks at Since itself
			if !slices.Contains(ids(selected), e.ID) {
				return fmt.Errorf("event %s is missing", e.ID)
			}
		}
		return nil
	})
})

// types are the types of the events that random selections are made from.
var types = []string{watchdog.EventCancel, watchdog.EventResume, watchdog.EventExtend, "host.note"}

// fromHistory appends events of all types in disorder. Several have one time, and their IDs do not follow the time.
// Then it makes so many random steps, the same in every run, from what is read.
func fromHistory(seed uint64, steps int, of func(random *rand.Rand, all []watchdog.Event) step) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		random := rand.New(rand.NewPCG(seed, seed+1))
		events := make([]watchdog.Event, 60)
		for i := range events {
			events[i] = numbered(fmt.Sprintf("%04d-%d", random.IntN(10_000), i), random.IntN(20))
			events[i].Type = types[random.IntN(len(types))]
		}
		if err := put(events...)(ctx, store); err != nil {
			return err
		}
		return reads(watchdog.AggregateType, runID, func(all []watchdog.Event) (err error) {
			for i := 0; err == nil && i < steps; i++ {
				err = of(random, all)(ctx, store)
			}
			return err
		})(ctx, store)
	}
}

// sample returns some of the values, in disorder.
func sample(random *rand.Rand, values []string) []string {
	values = slices.Clone(values)
	random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	return values[:random.IntN(min(len(values), 6))]
}

// since returns the events from that time on.
func since(all []watchdog.Event, t time.Time) []watchdog.Event {
	return filter(all, watchdog.Selection{Since: t})
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
