package contract

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
)

// Decode decodes a JSON text. What is equal in it, whatever the order of keys and the notation of numbers, is deeply
// equal.
func Decode(text json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float is not exact
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return inOneNotation(value), nil
}

// SameJSON reports whether two JSON texts are equal. Texts that are no JSON are if their bytes are.
func SameJSON(a, b json.RawMessage) bool {
	one, errOne := Decode(a)
	other, errOther := Decode(b)
	if errOne != nil || errOther != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(one, other)
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
