package eventtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var selectionRules = []eventRule{
	{"a selection has its IDs and all from Since on, each once and as Read returns them",
		"a watchdog attaches with a selection: an event that is missing is another window", selectsAtRandom(false)},
	{"LatestOf selects the last event of these types before Since",
		"it is the one that opened the window: without it the run gets another deadline", selectsAtRandom(true)},
	{"Until and Known leave out only what the caller knows",
		"another program's extension of before would never be read, and the run cancelled", leavesOutWhatIsKnown},
	{"an ID that another aggregate has is not selected",
		"a run would take another run's cancel for its own and end", inTurn(
			put(numbered("own", 3), inAggregate(numbered("foreign", 1), "run-2"), ofSession(numbered("host", 2))),
			selects(event.Selection{IDs: []string{"foreign", "own", "host", "nowhere"}}, "own"),
		)},
	{"a selection of nothing is empty, and no error",
		"a caller that looks for no events, or in a new run, must not have to check that before", inTurn(
			selects(event.Selection{IDs: []string{"a"}, Since: noon, LatestOf: types}),
			put(numbered("a", 1)),
			selects(event.Selection{}),
			selects(event.Selection{LatestOf: []string{event.Cancel}}),
			selects(event.Selection{Since: noon.Add(time.Hour)}),
		)},
	{"a select with a done context returns the context's error",
		"the caller waits no longer: what looks like an empty run is worse than the error",
		withDoneContexts(selects(event.Selection{Since: noon}))},
}

// selects checks the IDs of what a selection of the run selects.
func selects(s event.Selection, want ...string) eventStep {
	return func(e *eventEnv) {
		selecting(e, s, func(selected []event.Event) { sameNames("events", ids(selected), want) })
	}
}

// selecting makes a selection of the run and checks what it selects.
func selecting(e *eventEnv, s event.Selection, check func(selected []event.Event)) {
	in(func() {
		selected, err := contract.Optional[event.TransactionalStore](e).Select(e.Ctx, ofRun(s))
		contract.Must(err, "select")
		check(selected)
	}, "selection %+v", s)
}

// ofRun returns the selection for the run. It is a copy, which a store may change.
func ofRun(s event.Selection) event.Selection {
	s.AggregateType, s.AggregateID = event.AggregateType, runID
	s.IDs, s.LatestOf = slices.Clone(s.IDs), slices.Clone(s.LatestOf)
	return s
}

// selectsAtRandom compares random selections with a filter of what Read returns: with LatestOf, or with IDs.
func selectsAtRandom(latest bool) eventStep {
	return fromHistory(1, 100, func(e *eventEnv, random *rand.Rand, all []event.Event) {
		s := event.Selection{Since: noon.Add(time.Duration(random.IntN(24)-2) * time.Second)}
		if latest {
			s.LatestOf = sample(random, types)
		} else {
			s.IDs = sample(random, append(ids(all), "unknown", all[0].ID))
		}
		if len(s.IDs) > 0 && random.IntN(8) == 0 {
			s.Since = time.Time{}
		}
		selecting(e, s, func(selected []event.Event) { allSame(selected, filter(all, s)) })
	})
}

// leavesOutWhatIsKnown looks for events that are missing in selections whose count is right, or wrong. A store may
// select what it need not.
var leavesOutWhatIsKnown = fromHistory(3, 60, func(e *eventEnv, random *rand.Rand, all []event.Event) {
	s := event.Selection{Since: noon.Add(time.Duration(random.IntN(20)) * time.Second)}
	s.Until = s.Since.Add(time.Duration(random.IntN(12)) * time.Second)
	between := len(since(all, s.Since)) - len(since(all, s.Until))
	s.Known = between + random.IntN(3) - 1
	needed := s.Since
	if s.Known > 0 && s.Known == between {
		needed = s.Until
	}
	selecting(e, s, func(selected []event.Event) {
		for _, stored := range since(all, needed.Add(time.Microsecond)) { // another rule looks at Since itself
			contract.Require(slices.Contains(ids(selected), stored.ID), "event %s is missing", stored.ID)
		}
	})
})

// types are the types of the events that random selections are made from.
var types = []string{event.Cancel, event.Resume, event.Extend, "host.note"}

// fromHistory appends events in disorder, several at one time, and checks random selections, the same in every run.
func fromHistory(
	seed uint64, selections int, check func(e *eventEnv, random *rand.Rand, all []event.Event),
) eventStep {
	return func(e *eventEnv) {
		random := rand.New(rand.NewPCG(seed, seed+1))
		events := make([]event.Event, 60)
		for i := range events {
			events[i] = numbered(fmt.Sprintf("%04d-%d", random.IntN(10_000), i), random.IntN(20))
			events[i].Type = types[random.IntN(len(types))]
		}
		put(events...)(e)
		all := read(e)
		for range selections {
			check(e, random, all)
		}
	}
}

func sample(random *rand.Rand, values []string) []string {
	values = slices.Clone(values)
	random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	return values[:random.IntN(min(len(values), 6))]
}

func since(all []event.Event, t time.Time) []event.Event {
	return filter(all, event.Selection{Since: t})
}

// filter is Select in its plain form.
func filter(all []event.Event, s event.Selection) (selected []event.Event) {
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
