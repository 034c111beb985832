package probe_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

// folder holds outputs of probes, and the golden file that says what each of them means.
const folder = "../../../testdata/probes"

// TestGolden compares what the outputs in testdata mean with the golden file.
func TestGolden(t *testing.T) {
	outputs, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	var got strings.Builder
	for _, path := range outputs {
		output, err := os.ReadFile(path)
		require.NoError(t, err)
		seen, err := probe.Parse(output)
		fmt.Fprintf(&got, "%s\n", filepath.Base(path))
		if err != nil {
			fmt.Fprintf(&got, "  error        %v\n", err)
			continue
		}
		fmt.Fprintf(&got, "  class        %q\n  digest       %s\n  fingerprints %q\n  reasons      %q\n  summary      %q\n",
			seen.Class, seen.Digest, seen.Fingerprints, seen.Reasons, seen.Summary)
	}
	golden := filepath.Join(folder, "observations.golden")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err, "run go test -update to write it")
	require.Equal(t, string(want), got.String())
}

func digest(t *testing.T, output string) string {
	t.Helper()
	seen, err := probe.Parse([]byte(output))
	require.NoError(t, err, output)
	require.Regexp(t, "^[0-9a-f]{64}$", seen.Digest)
	return seen.Digest
}

func TestKnownFields(t *testing.T) {
	full := `{"class":"stalled","digest":"d","fingerprints":["k8s/crd/missing:a@b","x"],` +
		`"reasons":["é","why <&>"],"summary":"none"}`
	seen, err := probe.Parse([]byte(full))
	require.NoError(t, err)
	require.Equal(t, probe.Observation{
		Class: verdict.ClassStalled, Digest: digest(t, `{"digest":"d"}`),
		Fingerprints: []string{"k8s/crd/missing:a@b", "x"}, Reasons: []string{"é", "why <&>"}, Summary: "none",
	}, seen)
	for _, empty := range []string{
		`{}`,
		`{"class":null,"digest":null,"fingerprints":null,"reasons":null,"summary":null}`,
		`{"class":"","digest":"","fingerprints":[],"reasons":[],"summary":""}`,
		`{"Class":"progressing","DIGEST":7,"Reasons":{}}`,
	} {
		seen, err := probe.Parse([]byte(empty))
		require.NoError(t, err, empty)
		seen.Digest = ""
		require.Zero(t, seen, empty)
	}
}

// TestDigest compares the digests of two states.
func TestDigest(t *testing.T) {
	for _, c := range []struct {
		name        string
		left, right string
		equal       bool
	}{
		{"an escape", `{"\u0041":"\u0041\/\n"}`, `{"A":"A/\u000a"}`, true},
		{"an escaped pair", `{"a":"\ud83d\ude00"}`, `{"a":"😀"}`, true},
		{"a replacement character", `{"a":"\ufffd"}`, `{"a":"` + "\uFFFD" + `"}`, true},
		{"a backslash before a u", `{"a":"\\ud800"}`, `{"a":"\u005cud800"}`, true},
		{"the spelling of a number", `{"a":[1,1,1,1,-0.5,1200]}`, `{"a":[1.0,1e0,10E-1,0.1e+1,-5.0e-1,12e2]}`, true},
		{"the spelling of zero", `{"a":[0,0,0]}`, `{"a":[-0,0.00,0e99]}`, true},
		{"the spelling of a large exponent", `{"a":1e100000000000000000000}`, `{"a":10e99999999999999999999}`, true},
		{"a key that moved out", `{"a":{"b":1}}`, `{"a":{},"b":1}`, false},
		{"the nesting of an array", `{"a":[[1],2]}`, `{"a":[[1,2]]}`, false},
		{"an integer past 2^53", `{"a":9007199254740992}`, `{"a":9007199254740993}`, false},
		{"the last digit of a long fraction", `{"a":0.10000000000000000000001}`, `{"a":0.1}`, false},
		{"numbers beyond a float64", `{"a":1e400}`, `{"a":1e401}`, false},
		{"null and nothing", `{"a":null}`, `{}`, false},
		{"null and false", `{"a":null}`, `{"a":false}`, false},
		{"true and false", `{"a":true}`, `{"a":false}`, false},
		{"an empty array and an empty object", `{"a":[]}`, `{"a":{}}`, false},
		{"a boundary between texts", `{"a":["b","c"]}`, `{"a":["b1:c"]}`, false},
		{"the class", `{"class":"stalled"}`, `{}`, false},
		{"a reason", `{"reasons":["a"]}`, `{"reasons":["b"]}`, false},
		{"anything beside a given digest", `{"digest":"d","a":1,"class":"stalled"}`, `{"digest":"d","a":2}`, true},
		{"a given digest", `{"digest":"d"}`, `{"digest":"e"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.equal, digest(t, c.left) == digest(t, c.right))
		})
	}
}

// TestGivenDigest checks that a given digest never equals a computed one.
func TestGivenDigest(t *testing.T) {
	computed := digest(t, `{"a":1}`)
	for _, given := range []string{computed, `{1:a#1e0;}`, `{\"a\":1}`} {
		require.NotEqual(t, computed, digest(t, fmt.Sprintf(`{"digest":"%s"}`, given)))
	}
}

// nested returns an object with values that are nested depth deep.
func nested(depth int) string {
	return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}"
}

// padded returns an object of size bytes.
func padded(size int) string { return `{"a":"` + strings.Repeat("x", size-8) + `"}` }

func quoted(n int, text string) string {
	return strings.TrimSuffix(strings.Repeat(`"`+text+`",`, n), ",")
}

// TestLimits parses outputs that are just allowed.
func TestLimits(t *testing.T) {
	for name, output := range map[string]string{
		"64 KiB":                                padded(64 << 10),
		"values 64 deep":                        nested(64),
		"32 fingerprints":                       `{"fingerprints":[` + quoted(32, "a") + `]}`,
		"a fingerprint of 200 bytes":            `{"fingerprints":[` + quoted(1, strings.Repeat("a", 200)) + `]}`,
		"a fingerprint of each character":       `{"fingerprints":["azAZ09._:/@=+-"]}`,
		"16 reasons":                            `{"reasons":[` + quoted(16, "a") + `]}`,
		"a reason of 200 characters":            `{"reasons":["` + strings.Repeat("é", 200) + `"]}`,
		"a key that only nested objects repeat": `{"a":{"a":{"a":1}},"b":{"a":1}}`,
	} {
		t.Run(name, func(t *testing.T) { digest(t, output) })
	}
}

// The canary has a letter that is in none of the error texts, because encoding/json quotes single characters.
const (
	canary = "QaNaRy"
	letter = "Q"
)

// TestErrors checks that an error says what is wrong, and does not quote it.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, output string
		want         error
		says         string
	}{
		{"more than 64 KiB", padded(64<<10 + 1), probe.ErrTooLong, "64 KiB"},
		{"nothing", "", probe.ErrNotObject, "nothing"},
		{"no JSON", `QaNaRy`, probe.ErrNotObject, "something else"},
		{"an array", `[{}]`, probe.ErrNotObject, "something else"},
		{"a byte order mark", "\uFEFF{}", probe.ErrNotObject, "something else"},
		{"two objects", `{}{"QaNaRy":1}`, probe.ErrNotObject, "more after it"},
		{"half an object", `{"a":{"QaNaRy":1`, probe.ErrNotObject, "near byte 16"},
		{"half a text", `{"a":"QaNaRy`, probe.ErrNotObject, "near byte"},
		{"a comma too many", `{"a":[1,]}`, probe.ErrNotObject, "near byte"},
		{"bytes that are not UTF-8", "{\"QaNaRy\":\"\xff\"}", probe.ErrNotText, "Unicode"},
		{"the first half of a pair", `{"QaNaRy":"\ud800"}`, probe.ErrNotText, "Unicode"},
		{"the second half of a pair", `{"\udc00QaNaRy":1}`, probe.ErrNotText, "Unicode"},
		{"two first halves", `{"a":["\ud800\ud800"]}`, probe.ErrNotText, "Unicode"},
		{"a half before another character", `{"a":"\ud800\u0041"}`, probe.ErrNotText, "Unicode"},
		{"a half behind a backslash", `{"a":"\\\ud800"}`, probe.ErrNotText, "Unicode"},
		{"arrays 65 deep", nested(65), probe.ErrTooDeep, "64 deep"},
		{"brackets without an end", `{"a":` + strings.Repeat("[", 60_000), probe.ErrTooDeep, "64 deep"},
		{"a key twice", `{"QaNaRy":1,"QaNaRy":1}`, probe.ErrDuplicateKey, "near byte 20"},
		{"a key twice, spelled in two ways", `{"A":1,"\u0041":1}`, probe.ErrDuplicateKey, "twice"},
		{"a nested key twice", `{"a":[{"b":{"QaNaRy":1,"QaNaRy":2}}]}`, probe.ErrDuplicateKey, "twice"},
		{"an unknown class", `{"class":"QaNaRy"}`, probe.ErrField, "class is none of progressing, stalled and terminal"},
		{"a digest that is not a string", `{"digest":["QaNaRy"]}`, probe.ErrField, "digest is not a string"},
		{"fingerprints that are a string", `{"fingerprints":"QaNaRy"}`, probe.ErrField, "fingerprints is not an array"},
		{
			"33 fingerprints", `{"fingerprints":[` + quoted(33, canary) + `]}`,
			probe.ErrField, "fingerprints has 33 elements, at most 32",
		},
		{"17 reasons", `{"reasons":[` + quoted(17, canary) + `]}`, probe.ErrField, "reasons has 17 elements, at most 16"},
		{"a fingerprint that is a number", `{"fingerprints":["a",1]}`, probe.ErrField, "fingerprints[1] is not a string"},
		{"an empty fingerprint", `{"fingerprints":["a","b",""]}`, probe.ErrField, "fingerprints[2] is empty"},
		{
			"a fingerprint of 201 bytes", `{"fingerprints":["` + strings.Repeat("a", 201) + `"]}`,
			probe.ErrField, "fingerprints[0] has 201 bytes, at most 200",
		},
		{
			"a fingerprint with a space", `{"fingerprints":["QaNaRy a"]}`,
			probe.ErrField, "fingerprints[0] has a character other than",
		},
		{
			"a reason of 201 characters", `{"reasons":["a","` + strings.Repeat("é", 201) + `"]}`,
			probe.ErrField, "reasons[1] has 201 characters, at most 200",
		},
		{
			"several wrong fields, of which the first is named", `{"reasons":1,"class":"QaNaRy","fingerprints":[1,2]}`,
			probe.ErrField, "class is none",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, err := probe.Parse([]byte(c.output))
			require.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, c.says)
			assert.NotContains(t, err.Error(), letter)
			assert.Zero(t, seen)
		})
	}
}

// TestTerminalAnyway checks that a wrong field does not hide a terminal state.
func TestTerminalAnyway(t *testing.T) {
	for _, c := range []struct {
		fields                string
		fingerprints, reasons []string
	}{
		{`"fingerprints": ["two words", "k8s/crd/missing:x", 7, ""]`, []string{"k8s/crd/missing:x"}, nil},
		{`"fingerprints": "x", "reasons": {}, "summary": 7, "digest": []`, nil, nil},
		{`"fingerprints": ["x"], "reasons": ["` + strings.Repeat("r", 201) + `", "why"]`, []string{"x"}, []string{"why"}},
	} {
		seen, err := probe.Parse(fmt.Appendf(nil, `{"class": "terminal", %s}`, c.fields))
		require.NoError(t, err, c.fields)
		require.Equal(t, verdict.ClassTerminal, seen.Class)
		require.Equal(t, c.fingerprints, seen.Fingerprints)
		require.Equal(t, c.reasons, seen.Reasons)
		for _, class := range []string{"stalled", "progressing"} {
			_, err = probe.Parse(fmt.Appendf(nil, `{"class": %q, %s}`, class, c.fields))
			require.ErrorIs(t, err, probe.ErrField)
		}
	}
	many, err := probe.Parse([]byte(`{"class": "terminal", "fingerprints": ["a"` + strings.Repeat(`,"a"`, 32) + `]}`))
	require.NoError(t, err)
	require.Len(t, many.Fingerprints, probe.MaxFingerprints)
}

func TestDiffer(t *testing.T) {
	for _, c := range []struct{ name, older, newer, fields string }{
		{"equal outputs", `{"a": 1}`, `{ "a": 1.0 }`, ""},
		{"one field", `{"a": 1, "at": "10:00"}`, `{"a": 1, "at": "10:01"}`, "at"},
		{"a nested one", `{"state": {"a": 1, "updated_at": 1}}`, `{"state": {"updated_at": 2, "a": 1}}`, "state.updated_at"},
		{"an element", `{"pods": [{"age": 1}, {"age": 2}]}`, `{"pods": [{"age": 1}, {"age": 3}]}`, "pods.1.age"},
		{"an array of another length", `{"pods": [1]}`, `{"pods": [1, 2]}`, "pods"},
		{"one more, one less", `{"a": 1, "b": 1}`, `{"b": 1, "c": null}`, "a c"},
		{"another type", `{"a": {"b": 1}}`, `{"a": [1]}`, "a"},
		{"a name that may be data", `{"secret words": 1}`, `{"secret words": 2}`, "?"},
		{"a long name", `{"` + strings.Repeat("a", 41) + `": 1}`, `{}`, "?"},
		{"a digest of its own", `{"a": 1, "digest": "x"}`, `{"a": 2, "digest": "x"}`, ""},
		{"no observation", `{"a": 1}`, `none`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.fields, strings.Join(probe.Differ([]byte(c.older), []byte(c.newer)), " "))
			require.Equal(t, c.fields, strings.Join(probe.Differ([]byte(c.newer), []byte(c.older)), " "))
		})
	}
}
