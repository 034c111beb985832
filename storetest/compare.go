package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// same fails if a field of the event that was read differs from the appended one. In the payload it checks only the
// appended keys: whether there are more is a rule of its own.
func same(got, want watchdog.Event) {
	for _, column := range []struct{ name, got, want string }{
		{"id", got.ID, want.ID},
		{"aggregate_type", got.AggregateType, want.AggregateType},
		{"aggregate_id", got.AggregateID, want.AggregateID},
		{"event_type", got.Type, want.Type},
		{"consensus_id", got.ConsensusID, want.ConsensusID},
	} {
		contract.Require(column.got == column.want,
			"event %q: %s was read as %q, want %q as appended", want.ID, column.name, column.got, column.want)
	}
	contract.Require(got.Timestamp.Equal(want.Timestamp),
		"event %q: timestamp was read as %v, want %v as appended", want.ID, got.Timestamp, want.Timestamp)
	carries(got.Payload, want.Payload)
}

// allSame fails if the events are not the appended ones, in this order.
func allSame(got, want []watchdog.Event) {
	sameNames("events", ids(got), ids(want))
	for i := range want {
		same(got[i], want[i])
	}
}

// carries fails if a key of want is missing or different in got.
func carries(got, want json.RawMessage) {
	if bytes.Equal(got, want) {
		return
	}
	gotKeys := keys(got)
	for key, value := range keys(want) {
		back, exists := gotKeys[key]
		contract.Require(exists && reflect.DeepEqual(back, value),
			"key %q of the payload is missing or changed: read %s, appended %s", key, brief(got), brief(want))
	}
}

// keys decodes a payload. What is equal in it whatever the order of keys and the notation of numbers is deeply equal.
func keys(payload json.RawMessage) map[string]any {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber() // a float is not exact
	var object map[string]any
	err := decoder.Decode(&object)
	contract.Require(err == nil && object != nil,
		"payload was read as %s, which is not one JSON object: %w", brief(payload), err)
	inOneNotation(object)
	return object
}

// inOneNotation writes the numbers in a decoded value as fractions.
func inOneNotation(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = inOneNotation(value[key])
		}
	case []any:
		for i := range value {
			value[i] = inOneNotation(value[i])
		}
	case json.Number:
		if fraction, ok := new(big.Rat).SetString(value.String()); ok {
			return json.Number(fraction.RatString())
		}
	}
	return value
}

// brief shortens a large payload for an error.
func brief(payload json.RawMessage) string {
	const limit = 300
	if len(payload) <= limit {
		return string(payload)
	}
	return fmt.Sprintf("%s… (%d bytes)", payload[:limit], len(payload))
}
