package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"

	"github.com/seed62658d38/watchdog"
)

// differs returns an error if a field of the event that was read differs from the appended one. In the payload it
// checks only the appended keys: whether there are more is a rule of its own.
func differs(got, want watchdog.Event) error {
	for _, column := range []struct{ name, got, want string }{
		{"id", got.ID, want.ID},
		{"aggregate_type", got.AggregateType, want.AggregateType},
		{"aggregate_id", got.AggregateID, want.AggregateID},
		{"event_type", got.Type, want.Type},
		{"consensus_id", got.ConsensusID, want.ConsensusID},
	} {
		if column.got != column.want {
			return fmt.Errorf("event %q: %s was read as %q, want %q as appended", want.ID, column.name, column.got, column.want)
		}
	}
	if !got.Timestamp.Equal(want.Timestamp) {
		return fmt.Errorf("event %q: timestamp was read as %v, want %v as appended", want.ID, got.Timestamp, want.Timestamp)
	}
	return carries(got.Payload, want.Payload)
}

// carries returns an error if a key of want is missing or different in got.
func carries(got, want json.RawMessage) error {
	if bytes.Equal(got, want) {
		return nil
	}
	gotKeys, err := keys(got)
	if err != nil {
		return err
	}
	wantKeys, err := keys(want)
	if err != nil {
		return err
	}
	for key, value := range wantKeys {
		back, exists := gotKeys[key]
		if !exists || !reflect.DeepEqual(back, value) {
			return fmt.Errorf("key %q of the payload is missing or changed: read %s, appended %s", key, brief(got), brief(want))
		}
	}
	return nil
}

// keys decodes a payload. What is equal in it whatever the order of keys and the notation of numbers is deeply equal.
func keys(payload json.RawMessage) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber() // a float is not exact
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, fmt.Errorf("payload was read as %s, which is not one JSON object: %w", brief(payload), err)
	}
	inOneNotation(object)
	return object, nil
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
