package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/seed62658d38/watchdog"
)

var payloadRules = []rule{
	{
		"numbers in a payload stay exact",
		"an ID or an amount in a host's payload that goes through a float comes back as its neighbour",
		payloadsStay(
			`{"big":9007199254740993,"low":-9223372036854775809,"long":0.1234567890123456789012345,"none":0}`,
			`{"far":1.5e400,"near":-1.5E-400}`,
		),
	},
	{
		"text in a payload stays as it is",
		"the last thing noted and a host's reasons are in people's languages, with marks that SQL, HTML and shells use",
		payloadsStay(
			`{"says":"<b>&amp; 'it''s' \"quoted\" \\ / \n\t\r 100% ? $1 :x"}`,
			`{"日本語":"Grüße, 🜁 \u00e9 \ud83d\udc15 e\u0301 \u2028","":"empty key"}`,
		),
	},
	{
		"nested and empty values in a payload stay",
		"a reader that asks whether a key is there gets another answer when null, false or an empty list was dropped",
		payloadsStay(
			`{"null":null,"false":false,"empty":"","zero":0,"list":[],"object":{},"nested":{"a":[{"b":[null,{}]}]}}`,
			" {\n\t\"spaced\" : [ 1 , 2 ] }\r\n ",
			`{"deep":`+strings.Repeat(`[`, 500)+strings.Repeat(`]`, 500)+`}`,
		),
	},
	{
		"no key is added to a payload",
		"the payload of an event is a contract held by golden files; what a store adds for itself is its own to take away again",
		func(ctx context.Context, store watchdog.EventStore) error {
			return each([]string{`{}`, `{"a":1}`, ` { } `, `{"nested":{"event_version":1}}`}, func(payload string) error {
				return hasNoMoreKeys(ctx, store, payload)
			})
		},
	},
	{
		"an event_version that a payload has of its own stays",
		"the SQL stores mark payloads with event_version: the mark of a host's payload must not be taken for theirs",
		payloadsStay(
			`{"event_version":1}`, `{"a":1,"event_version":1}`, `{"event_version":2,"a":1}`, `{"a":1,"event_version":"1"}`,
			`{"a":1, "event_version": 1 }`, `{"a":1,"event_version":1}`+"\n", `{"a":1,"event_versio\u006e":1}`,
		),
	},
	{
		"a payload of a mebibyte fits",
		"the contract gives no limit: a host's event with a large detail must not be what cannot be recorded",
		payloadsStay(`{"large":"` + strings.Repeat("0123456789abcdef", 1<<16) + `"}`),
	},
}

// payloadsStay makes a check that the keys of the payloads come back with their values.
func payloadsStay(payloads ...string) func(context.Context, watchdog.EventStore) error {
	return func(ctx context.Context, store watchdog.EventStore) error {
		return each(payloads, func(payload string) error {
			got, err := roundTripPayload(ctx, store, payload)
			if err != nil {
				return err
			}
			return carries(got, json.RawMessage(payload))
		})
	}
}

func hasNoMoreKeys(ctx context.Context, store watchdog.EventStore, payload string) error {
	got, err := roundTripPayload(ctx, store, payload)
	if err != nil {
		return err
	}
	gotKeys, err := keys(got)
	wantKeys, _ := keys(json.RawMessage(payload))
	if err == nil && len(gotKeys) > len(wantKeys) {
		err = fmt.Errorf("appended %s, read %s", payload, brief(got))
	}
	return err
}

// keepPayload appends an event with the payload, in an aggregate of its own, and reads the payload back.
func roundTripPayload(ctx context.Context, store watchdog.EventStore, payload string) (json.RawMessage, error) {
	name := fmt.Sprintf("payload-%08x", crc32.ChecksumIEEE([]byte(payload)))
	e := inAggregate(numbered(name, 1), name)
	e.Payload = json.RawMessage(payload)
	got, err := roundTrip(ctx, store, e)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("payload %s", brief(e.Payload)), err)
	}
	return got.Payload, nil
}
