package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"

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
		if !exists {
			return fmt.Errorf("key %q of the payload is missing: read %s, appended %s", key, brief(got), brief(want))
		}
		if !same(back, value) {
			return fmt.Errorf("key %q of the payload changed: read %s, appended %s", key, brief(got), brief(want))
		}
	}
	return nil
}

// keys decodes a payload without converting its numbers to floats.
func keys(payload json.RawMessage) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, fmt.Errorf("payload was read as %s, which is not one JSON object: %w", brief(payload), err)
	}
	return object, nil
}

// same compares decoded JSON. The order of keys and the notation of numbers do not matter.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && sameObject(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && sameArray(a, b)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	default:
		return a == b
	}
}

func sameObject(a, b map[string]any) bool {
	for key := range a {
		if _, exists := b[key]; !exists || !same(a[key], b[key]) {
			return false
		}
	}
	return len(a) == len(b)
}

func sameArray(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

func sameNumber(a, b json.Number) bool {
	x, okX := new(big.Rat).SetString(a.String())
	y, okY := new(big.Rat).SetString(b.String())
	return okX && okY && x.Cmp(y) == 0
}

// brief shortens a large payload for an error.
func brief(payload json.RawMessage) string {
	const limit = 300
	if len(payload) <= limit {
		return string(payload)
	}
	return fmt.Sprintf("%s… (%d bytes)", payload[:limit], len(payload))
}
