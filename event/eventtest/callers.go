package eventtest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var callerRules = []eventRule{
	{"an append or a read with a done context stores nothing and returns the context's error",
		"a watchdog waits only for its record timeout: what was reported as not stored must not appear later",
		inTurn(
			put(numbered("before", 0)),
			withDoneContexts(put(numbered("late", 1))),
			withDoneContexts(holdsAt("run-2")),
			holds("before"),
		)},
	{"what Read returned belongs to the caller, and what was appended belongs to it again",
		"a reader that edits the events would change them for the next one, and a host that reuses a buffer overwrite them",
		func(e *eventEnv) {
			batch := []event.Event{numbered("a", 1)}
			contract.Must(e.Store.Append(e.Ctx, batch...), "append %s", list(batch))
			spoil(batch)
			first, again := read(e), read(e)
			spoil(again)
			spoil(first)
			keeps(numbered("a", 1))(e)
		}},
	{"one ID appended by many at once is kept once, and all succeed",
		"a timer, a poll and other processes fire for one window at one moment: all must report the one stored cancel",
		func(e *eventEnv) { raceForOneID(fewestRounds, e) }},
	{"many appends at once are all kept",
		"many runs share one store; if an append returned nil and was not stored, a cancel is lost", func(e *eventEnv) {
			const perCaller = 8
			want := numberedTo(callers * perCaller)
			contract.StepsAtOnce(callers, func(caller int) {
				for _, id := range want[caller*perCaller:][:perCaller] {
					put(numbered(id, caller))(e)
				}
			})
			holds(want...)(e)
		}},
	{"a read sees what was appended before it",
		"a watchdog appends its cancel and then reads which one is stored; a cached answer would say that there is none",
		inTurn(put(numbered("a", 1)), holds("a"), put(numbered("b", 2)), holds("a", "b"))},
}

func spoil(events []event.Event) {
	for i, e := range events {
		copy(e.Payload, bytes.Repeat([]byte("#"), len(e.Payload)))
		events[i] = numbered("spoiled", 2)
	}
}

// callers is how many goroutines call a store at the same time.
const callers = 16

func numberedTo(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("count-", i)
	}
	return all
}

// A race between stores has as many rounds as there is time for, within limits: a store that checks an ID and then
// writes may do both in less than a microsecond, and only two callers that meet in between show it. A slow store takes
// longer for that, and needs fewer rounds.
const (
	fewestRounds = 10
	mostRounds   = 2000
	raceTime     = time.Second
)

// eachRound runs a race in as many rounds as there is time for, within limits.
func eachRound(fewest, most int, race func(round int)) {
	began := time.Now()
	for round := range most {
		if round >= fewest && time.Since(began) > raceTime {
			break
		}
		in(func() { race(round) }, "round %d", round)
	}
}

// raceForOneID has each caller append another payload under one ID, which all must then read, in each of the rounds.
func raceForOneID(rounds int, stores ...*eventEnv) {
	eachRound(fewestRounds, rounds, func(round int) {
		id := fmt.Sprint("contested-", round)
		seen := make([]string, callers)
		contract.StepsAtOnce(callers, func(caller int) {
			e := inAggregate(numbered(id, 1), id)
			e.Payload = fmt.Appendf(nil, `{"caller":%d}`, caller)
			seen[caller] = string(roundTrip(stores[caller%len(stores)], e).Payload)
		})
		all := slices.Compact(slices.Clone(seen))
		contract.Require(len(all) == 1, "callers read different events under one ID: %q", all)
		holdsAt(id, id)(stores[0])
	})
}
