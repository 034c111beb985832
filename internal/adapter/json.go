package adapter

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// JSON returns what [json.Marshal] does, byte for byte, and nil for what that returns an error for. It is quicker for
// what models send and tools answer: plain text and whole numbers in maps and lists.
func JSON(v any) []byte {
	if b, ok := appendJSON(make([]byte, 0, 64), v, 0); ok {
		return b
	}
	return nil
}

func appendJSON(b []byte, v any, depth int) (_ []byte, ok bool) {
	const deep = 32 // json.Marshal looks for values that hold themselves
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), true
	case bool:
		return strconv.AppendBool(b, v), true
	case int:
		return strconv.AppendInt(b, int64(v), 10), true
	case float64:
		if isWhole(v) {
			return strconv.AppendInt(b, int64(v), 10), true
		}
	case string:
		if isPlain(v) {
			return appendPlain(b, v), true
		}
	}
	if depth < deep {
		switch v := v.(type) {
		case []any:
			return appendList(b, v, depth)
		case map[string]any:
			return appendMap(b, v, depth)
		}
	}
	return appendOther(b, v)
}

func appendOther(b []byte, v any) (_ []byte, ok bool) {
	other, err := json.Marshal(v)
	return append(b, other...), err == nil
}

// isWhole reports whether the number is written without a fraction or an exponent.
func isWhole(v float64) bool {
	const most = 1 << 53
	return v == math.Trunc(v) && math.Abs(v) < most && (v != 0 || !math.Signbit(v))
}

// isPlain reports whether each byte of the text stands for itself.
func isPlain(text string) bool {
	for i := range len(text) {
		switch b := text[i]; {
		case b < ' ' || b > '~', b == '"', b == '\\', b == '<', b == '>', b == '&':
			return false
		}
	}
	return true
}

func appendPlain(b []byte, text string) []byte {
	return append(append(append(b, '"'), text...), '"')
}

func appendList(b []byte, list []any, depth int) (_ []byte, ok bool) {
	if list == nil {
		return appendOther(b, list)
	}
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, ok = appendJSON(b, v, depth+1); !ok {
			return nil, false
		}
	}
	return append(b, ']'), true
}

func appendMap(b []byte, m map[string]any, depth int) (_ []byte, ok bool) {
	if m == nil {
		return appendOther(b, m)
	}
	var few [8]string
	keys := few[:0]
	for key := range m {
		if !isPlain(key) {
			return appendOther(b, m)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if b, ok = appendJSON(append(appendPlain(b, key), ':'), m[key], depth+1); !ok {
			return nil, false
		}
	}
	return append(b, '}'), true
}
