package usage_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// FuzzValid holds what stands in for json.Valid against it.
func FuzzValid(f *testing.F) {
	for _, text := range []string{
		"", " ", "{", "[", "\"", "-", "tru", "truex", "true", "null ", "\n[ ]\t", "{ }", "[1,]", "[,1]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
		"{a:1}", "[1 2]", "[1}", "{\"a\":1]", "1 1", "[]]", `{"a" : [1, {"b":null}, "c"] }`, "[\"a\":1]", "{1:2}",
		"0", "-0", "00", "01", "-01", "0.", "0.5", ".5", "1e5", "1E+5", "1e-05", "1e", "1e+", "1.e5", "-.5", "+1", "1x", "0x1",
		`"\""`, `"\`, `"\\"`, `"\x"`, `"\u00e9"`, `"\u00e"`, `"\u00eg"`, `"\u`, `"\uABCd"`, `"\ud800"`, `"a b"`, "\"a\nb\"", "\"\x7f\"", "\"\xff\"", "\"\x1f\"",
		strings.Repeat("[", 9_999) + "0" + strings.Repeat("]", 9_999), strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), strings.Repeat(`{"a":`, 10_001) + "0" + strings.Repeat("}", 10_001),
	} {
		f.Add([]byte(text))
	}
	for _, one := range []string{"\x00", "\x1f", " ", "!", `"`, "#", "[", `\`, "]", `\n`, "\x7f", "\x80", "\x9f", "\xa2", "\xdc", "\xff"} {
		for at := range 17 { // wherever it lies among eight
			f.Add([]byte(`"` + strings.Repeat("x", at) + one + strings.Repeat("y", 17-at) + `"`))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		require.Equal(t, json.Valid(text), usage.Valid(text), "%q", text)
	})
}

// BenchmarkValid is of a long conversation.
func BenchmarkValid(b *testing.B) {
	turn := `{"role":"assistant","content":"` + strings.Repeat(`so it \"is\"\n `, 220) + `"},{"role":"user","content":"go on"},`
	body := []byte(`{"model":"m","max_tokens":5,"messages":[` + strings.Repeat(turn, 40) + `{}]}`)
	for _, of := range []struct {
		name  string
		valid func([]byte) bool
	}{{"ours", usage.Valid}, {"json", json.Valid}} {
		b.Run("of="+of.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if !of.valid(body) {
					b.Fatal("it is valid")
				}
			}
		})
	}
}
