package storetest

import (
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var fieldRules = []eventRule{
	{"every field is read as it was appended",
		"only the event says why a run ended; a lost or swapped column says something wrong", inTurn(
			comesBack(watchdog.Event{
				ID: "full", AggregateType: "runtime_control", AggregateID: "run-full", Type: watchdog.EventResume,
				Payload: []byte(`{"reason":"on request"}`), Timestamp: noon, ConsensusID: "consensus-1",
			}),
			comesBack(inAggregate(numbered("without a consensus ID", 1), "run-plain")),
		)},
	{"a text as long as its column fits",
		"a run ID that was accepted at the start must not be too long when the cancel is recorded; " +
			"lengths count characters, not bytes",
		inTurn(comesBack(filled("x")), comesBack(filled("é")), comesBack(filled("🜁")))},
	{"a host's own kinds of event are kept beside ours",
		"the table is the host's event table: one query answers what happened to a run, whoever wrote it", inTurn(
			comesBack(with(numbered("own", 1), func(e *watchdog.Event) {
				e.AggregateType, e.AggregateID, e.Type = "order", "order-7", "shop.order.placed"
			})),
			put(numbered("cancel", 1),
				with(numbered("beside", 2), func(e *watchdog.Event) { e.Type = "interview.started" })),
			holds("cancel", "beside"),
		)},
	{"times keep their microseconds",
		"a window is identified by its start, to the microsecond: a start that lost digits is another window", inTurn(
			timeBecomes("one", noon.Add(time.Microsecond), noon.Add(time.Microsecond)),
			timeBecomes("all", noon.Add(999_999*time.Microsecond), noon.Add(999_999*time.Microsecond)),
			timeBecomes("some", noon.Add(120_300*time.Microsecond), noon.Add(120_300*time.Microsecond)),
		)},
	{"times are cut off below the microsecond, not rounded",
		"the watchdog truncates before it compares; a store that rounds would return a time in the future", inTurn(
			timeBecomes("up", noon.Add(999), noon),
			timeBecomes("half", noon.Add(500), noon),
			timeBecomes("before 1970", before1970.Add(900), before1970),
		)},
	{"times are read in UTC",
		"events are compared, printed and sent as they are read: with a local zone one event has two texts on two machines",
		func(e *eventEnv) { equal("location", roundTrip(e, numbered("a", 1)).Timestamp.Location(), time.UTC) }},
	{"times of other zones are converted",
		"a host in another zone means the same moment: a clock time that is not converted moves a deadline by hours", inTurn(
			timeBecomes("east", noon.In(time.FixedZone("east", 5*3600+1800)), noon),
			timeBecomes("west", noon.In(time.FixedZone("west", -11*3600)), noon),
		)},
	{"the first and the last year fit",
		"nanoseconds since 1970 in 64 bits overflow in 2262: a far deadline would be read as one in the past",
		inTurn(timeBecomes("first", firstYear, firstYear), timeBecomes("last", lastYear, lastYear))},
	{"numbers in a payload stay exact",
		"an ID or an amount in a host's payload that is converted to a float comes back as another number", payloadsStay(
			`{"big":9007199254740993,"low":-9223372036854775809,"long":0.1234567890123456789012345,"none":0}`,
			`{"far":1.5e400,"near":-1.5E-400}`,
		)},
	{"text in a payload stays as it is",
		"notes and reasons are in any language, with characters that mean something in SQL, HTML and shells", payloadsStay(
			`{"says":"<b>&amp; 'it''s' \"quoted\" \\ / \n\t\r 100% ? $1 :x"}`,
			`{"日本語":"Grüße, 🜁 \u00e9 \ud83d\udc15 e\u0301 \u2028","":"empty key"}`,
		)},
	{"nested and empty values in a payload stay",
		"a reader that checks whether a key exists gets another answer if null or an empty list was dropped", payloadsStay(
			`{"null":null,"false":false,"empty":"","zero":0,"list":[],"object":{},"nested":{"a":[{"b":[null,{}]}]}}`,
			" {\n\t\"spaced\" : [ 1 , 2 ] }\r\n ",
			`{"deep":`+strings.Repeat(`[`, 500)+strings.Repeat(`]`, 500)+`}`,
		)},
	{"no key is added to a payload",
		"the payload of an event is a contract with golden files; a store must remove again what it adds for itself",
		forEach([]string{`{}`, `{"a":1}`, ` { } `, `{"nested":{"event_version":1}}`}, hasNoMoreKeys)},
	{"a payload keeps an event_version of its own",
		"the SQL stores add an event_version to payloads: they must not take the host's own for theirs", payloadsStay(
			`{"event_version":1}`, `{"a":1,"event_version":1}`, `{"event_version":2,"a":1}`, `{"a":1,"event_version":"1"}`,
			`{"a":1, "event_version": 1 }`, `{"a":1,"event_version":1}`+"\n", `{"a":1,"event_versio\u006e":1}`,
		)},
	{"a payload of a mebibyte fits",
		"the contract has no limit: a host's event with a large payload must be recorded too", func(e *eventEnv) {
			payloadsStay(`{"large":"` + strings.Repeat("0123456789abcdef", 1<<16) + `"}`)(e)
		}},
}

// filled returns an event whose texts repeat the character to the full length of their columns.
func filled(character string) watchdog.Event {
	e := numbered(strings.Repeat(character, watchdog.MaxEventID), 1)
	e.AggregateType = strings.Repeat(character, watchdog.MaxAggregateType)
	e.AggregateID = strings.Repeat(character, watchdog.MaxAggregateID)
	e.Type = strings.Repeat(character, watchdog.MaxEventType)
	e.ConsensusID = strings.Repeat(character, watchdog.MaxConsensusID)
	return e
}

var (
	before1970 = time.Date(1969, 12, 31, 23, 59, 58, 0, time.UTC)
	firstYear  = time.Date(1, 1, 2, 3, 4, 5, 0, time.UTC)
	lastYear   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// timeBecomes appends an event with the time, in an aggregate of its own, and checks the time that is read.
func timeBecomes(name string, appended, want time.Time) eventStep {
	event := inAggregate(numbered(name, 0), name)
	event.Timestamp = appended
	return func(e *eventEnv) {
		got := roundTrip(e, event).Timestamp
		contract.Require(got.Equal(want), "appended %v, read %v, want %v", appended, got, want)
	}
}

// payloadsStay appends each payload and reads all its keys and values back.
func payloadsStay(payloads ...string) eventStep {
	return forEach(payloads, func(payload string) eventStep {
		return func(e *eventEnv) { carries(roundTrip(e, withPayload(payload)).Payload, []byte(payload)) }
	})
}

func hasNoMoreKeys(payload string) eventStep {
	return func(e *eventEnv) {
		got := roundTrip(e, withPayload(payload)).Payload
		contract.Require(len(keys(got)) <= len(keys([]byte(payload))), "appended %s, read %s", payload, brief(got))
	}
}

// withPayload returns an event with the payload, in an aggregate of its own.
func withPayload(payload string) watchdog.Event {
	name := fmt.Sprintf("payload-%08x", crc32.ChecksumIEEE([]byte(payload)))
	e := inAggregate(numbered(name, 1), name)
	e.Payload = []byte(payload)
	return e
}
