package adapter_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/adapter"
)

// sameJSON requires the bytes of json.Marshal, or none where that fails.
func sameJSON(t *testing.T, v any) {
	t.Helper()
	want, err := json.Marshal(v)
	got := adapter.JSON(v)
	if err != nil {
		require.Nil(t, got)
		return
	}
	require.Equal(t, string(want), string(got))
}

func TestJSON(t *testing.T) {
	type named map[string]any
	round := map[string]any{}
	round["itself"] = []any{round}
	for name, v := range map[string]any{
		"nothing": nil, "true": true, "false": false, "text": "main.go", "no text": "",
		"quotes": `say "x" \ y`, "HTML": "<a href=b>&", "lines": "a\n\tb\x00\x7f", "letters": "größe \u2028 語", "no UTF-8": "a\xffb",
		"whole": 7.0, "negative": -12.0, "zero": 0.0, "negative zero": math.Copysign(0, -1), "part": 0.1, "tiny": 1e-9,
		"2^53": float64(1 << 53), "below 2^53": float64(1<<53 - 1), "large": 1e15, "huge": 1e300, "NaN": math.NaN(),
		"infinite": math.Inf(-1), "int": -3, "int64": int64(math.MinInt64), "bytes": []byte("x"),
		"raw": json.RawMessage(` { "a" : "<" } `), "bad raw": json.RawMessage(`{`), "number": json.Number("1.50"),
		"map": map[string]any{}, "no map": map[string]any(nil), "list": []any{}, "no list": []any(nil),
		"keys":      map[string]any{"b": 1.0, "a": "x", "": nil, "ab": []any{"y", 2, nil, map[string]any{"z": false}}},
		"many keys": map[string]any{"9": 1, "8": 2, "7": 3, "6": 4, "5": 5, "4": 6, "3": 7, "2": 8, "1": 9, "0": 10},
		"odd keys":  map[string]any{"ü": 1, "<": 2, "\xff": 3, "a": 4},
		"named":     named{"a": 1}, "struct": struct{ A any }{map[string]any{"a": "<"}},
		"bad value": map[string]any{"a": []any{math.NaN()}}, "function": []any{func() {}}, "itself": round,
	} {
		t.Run(name, func(t *testing.T) { sameJSON(t, v) })
	}
	t.Run("deep values are those of json.Marshal, too", func(t *testing.T) {
		var v any = "<"
		for range 100 {
			v = []any{map[string]any{"deep": v}}
		}
		sameJSON(t, v)
	})
	t.Run("what a tool is sent costs one allocation", func(t *testing.T) {
		var v any = map[string]any{"path": "main.go", "line": 12.0, "all": true}
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { adapter.JSON(v) }), 1.0)
	})
}

// FuzzJSON compares the values of any JSON, and text that is in none.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"q":"x","n":[1,2.5,-0,1e21,true,null]}`, `"\u2028<>&"`, `[[[]],{}]`, strings.Repeat("[", 40) + strings.Repeat("]", 40),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		sameJSON(t, string(text))
		sameJSON(t, map[string]any{string(text): 1, "a": string(text)})
		var v any
		if json.Unmarshal(text, &v) == nil {
			sameJSON(t, v)
		}
	})
}
