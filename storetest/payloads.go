package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var payloadRules = []rule{
	{
		"numbers in a payload stay exact",
		"an ID or an amount in a host's payload that is converted to a float comes back as another number",
		payloadsStay(
			`{"big":9007199254740993,"low":-9223372036854775809,"long":0.1234567890123456789012345,"none":0}`,
			`{"far":1.5e400,"near":-1.5E-400}`,
		),
	},
	{
		"text in a payload stays as it is",
		"notes and reasons are in any language, with characters that mean something in SQL, HTML and shells",
		payloadsStay(
			`{"says":"<b>&amp; 'it''s' \"quoted\" \\ / \n\t\r 100% ? $1 :x"}`,
			`{"日本語":"Grüße, 🜁 \u00e9 \ud83d\udc15 e\u0301 \u2028","":"empty key"}`,
		),
	},
	{
		"nested and empty values in a payload stay",
		"a reader that checks whether a key exists gets another answer if null, false or an empty list was dropped",
		payloadsStay(
			`{"null":null,"false":false,"empty":"","zero":0,"list":[],"object":{},"nested":{"a":[{"b":[null,{}]}]}}`,
			" {\n\t\"spaced\" : [ 1 , 2 ] }\r\n ",
			`{"deep":`+strings.Repeat(`[`, 500)+strings.Repeat(`]`, 500)+`}`,
		),
	},
	{
		"no key is added to a payload",
		"the payload of an event is a contract with golden files; a store must remove again what it adds for itself",
		func(ctx context.Context, store watchdog.EventStore) error {
			payloads := []string{`{}`, `{"a":1}`, ` { } `, `{"nested":{"event_version":1}}`}
			return contract.Each(payloads, func(payload string) error {
				return hasNoMoreKeys(ctx, store, payload)
			})
		},
	},
	{
		"a payload keeps an event_version of its own",
		"the SQL stores add an event_version to payloads: they must not take the host's own for theirs",
		payloadsStay(
			`{"event_version":1}`, `{"a":1,"event_version":1}`, `{"event_version":2,"a":1}`, `{"a":1,"event_version":"1"}`,
			`{"a":1, "event_version": 1 }`, `{"a":1,"event_version":1}`+"\n", `{"a":1,"event_versio\u006e":1}`,
		),
	},
	{
		"a payload of a mebibyte fits",
		"the contract has no limit: a host's event with a large payload must be recorded too",
		payloadsStay(`{"large":"` + strings.Repeat("0123456789abcdef", 1<<16) + `"}`),
	},
}

// payloadsStay returns a check that appends each payload and reads all its keys and values back.
func payloadsStay(payloads ...string) func(context.Context, watchdog.EventStore) error {
	return func(ctx context.Context, store watchdog.EventStore) error {
		return contract.Each(payloads, func(payload string) error {
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

// roundTripPayload appends an event with the payload, in an aggregate of its own, and reads the payload back.
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
