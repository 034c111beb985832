package eventtest

import (
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var fieldRules = []eventRule{
	{"every field is read as it was appended",
		"only the event says why a run ended; a lost or swapped column says something wrong", inTurn(
			comesBack(event.Event{
				ID: "full", AggregateType: "runtime_control", AggregateID: "run-full", Type: event.Resume,
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
			comesBack(with(numbered("own", 1), func(e *event.Event) {
				e.AggregateType, e.AggregateID, e.Type = "order", "order-7", "shop.order.placed"
			})),
			put(numbered("cancel", 1),
				with(numbered("beside", 2), func(e *event.Event) { e.Type = "interview.started" })),
			holds("cancel", "beside"),
		)},
	{"times keep their microseconds, cut off below and not rounded, in any year, and are read in UTC",
		"a window is identified by its start, and a deadline that lost digits, its zone or its century is another one",
		forEach(times, becomes)},
	{"numbers, texts, and nested and empty values in a payload stay as they are",
		"an ID that becomes a float is another number, and who checks for a key gets another answer if it was dropped",
		payloadsStay(
			`{"big":9007199254740993,"low":-9223372036854775809,"long":0.1234567890123456789012345,"none":0}`,
			`{"far":1.5e400,"near":-1.5E-400}`,
			`{"says":"<b>&amp; 'it''s' \"quoted\" \\ / \n\t\r 100% ? $1 :x"}`,
			`{"日本語":"Grüße, 🜁 \u00e9 \ud83d\udc15 e\u0301 \u2028","":"empty key"}`,
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
func filled(character string) event.Event {
	e := numbered(strings.Repeat(character, event.MaxID), 1)
	e.AggregateType = strings.Repeat(character, event.MaxAggregateType)
	e.AggregateID = strings.Repeat(character, event.MaxAggregateID)
	e.Type = strings.Repeat(character, event.MaxType)
	e.ConsensusID = strings.Repeat(character, event.MaxConsensusID)
	return e
}

var (
	before1970 = time.Date(1969, 12, 31, 23, 59, 58, 0, time.UTC)
	firstYear  = time.Date(1, 1, 2, 3, 4, 5, 0, time.UTC)
	lastYear   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// A reading is a time and what is read of it.
type reading struct {
	name           string
	appended, want time.Time
}

var times = []reading{
	{"one", noon.Add(time.Microsecond), noon.Add(time.Microsecond)},
	{"all", noon.Add(999_999 * time.Microsecond), noon.Add(999_999 * time.Microsecond)},
	{"some", noon.Add(120_300 * time.Microsecond), noon.Add(120_300 * time.Microsecond)},
	{"up", noon.Add(999), noon}, {"half", noon.Add(500), noon}, {"before 1970", before1970.Add(900), before1970},
	{"east", noon.In(time.FixedZone("east", 5*3600+1800)), noon},
	{"west", noon.In(time.FixedZone("west", -11*3600)), noon},
	{"first", firstYear, firstYear}, {"last", lastYear, lastYear},
}

// becomes appends an event with a time, in an aggregate of its own, and checks the time that is read.
func becomes(r reading) eventStep {
	stored := inAggregate(numbered(r.name, 0), r.name)
	stored.Timestamp = r.appended
	return func(e *eventEnv) {
		got := roundTrip(e, stored).Timestamp
		contract.Require(got.Equal(r.want) && got.Location() == time.UTC,
			"appended %v, read %v, want %v in UTC", r.appended, got, r.want)
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
func withPayload(payload string) event.Event {
	name := fmt.Sprintf("payload-%08x", crc32.ChecksumIEEE([]byte(payload)))
	e := inAggregate(numbered(name, 1), name)
	e.Payload = []byte(payload)
	return e
}
