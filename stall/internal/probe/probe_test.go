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
		{"the order of keys", `{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, true},
		{"white space", `{"a":[1,2]}`, "\n{ \"a\" :\t[ 1 , 2 ]\r\n}\n", true},
		{"an escape", `{"\u0041":"\u0041\/\n"}`, `{"A":"A/\u000a"}`, true},
		{"an escaped pair", `{"a":"\ud83d\ude00"}`, `{"a":"😀"}`, true},
		{"a replacement character", `{"a":"\ufffd"}`, `{"a":"` + "\uFFFD" + `"}`, true},
		{"a backslash before a u", `{"a":"\\ud800"}`, `{"a":"\u005cud800"}`, true},
		{"the spelling of a number", `{"a":[1,1,1,1,-0.5,1200]}`, `{"a":[1.0,1e0,10E-1,0.1e+1,-5.0e-1,12e2]}`, true},
		{"the spelling of zero", `{"a":[0,0,0]}`, `{"a":[-0,0.00,0e99]}`, true},
		{"the spelling of a large exponent", `{"a":1e100000000000000000000}`, `{"a":10e99999999999999999999}`, true},
		{"a nested value", `{"a":[{"b":{"c":1}}]}`, `{"a":[{"b":{"c":2}}]}`, false},
		{"a nested key", `{"a":[{"b":{"c":1}}]}`, `{"a":[{"b":{"d":1}}]}`, false},
		{"a key that moved out", `{"a":{"b":1}}`, `{"a":{},"b":1}`, false},
		{"the order of an array", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"the nesting of an array", `{"a":[[1],2]}`, `{"a":[[1,2]]}`, false},
		{"an integer past 2^53", `{"a":9007199254740992}`, `{"a":9007199254740993}`, false},
		{"the last digit of a long fraction", `{"a":0.10000000000000000000001}`, `{"a":0.1}`, false},
		{"numbers beyond a float64", `{"a":1e400}`, `{"a":1e401}`, false},
		{"a sign", `{"a":1}`, `{"a":-1}`, false},
		{"a power of ten", `{"a":1}`, `{"a":10}`, false},
		{"a number and its text", `{"a":1}`, `{"a":"1"}`, false},
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
		{"white space", " \n", probe.ErrNotObject, "nothing"},
		{"a text", `"QaNaRy"`, probe.ErrNotObject, "something else"},
		{"no JSON", `QaNaRy`, probe.ErrNotObject, "something else"},
		{"an array", `[{}]`, probe.ErrNotObject, "something else"},
		{"a byte order mark", "\uFEFF{}", probe.ErrNotObject, "something else"},
		{"two objects", `{}{"QaNaRy":1}`, probe.ErrNotObject, "more after it"},
		{"text after the object", `{} QaNaRy`, probe.ErrNotObject, "more after it"},
		{"half an object", `{"a":{"QaNaRy":1`, probe.ErrNotObject, "near byte 16"},
		{"half a text", `{"a":"QaNaRy`, probe.ErrNotObject, "near byte"},
		{"a comma too many", `{"a":[1,]}`, probe.ErrNotObject, "near byte"},
		{"a comma too few", `{"a":1 "QaNaRy":2}`, probe.ErrNotObject, "near byte"},
		{"no colon", `{"QaNaRy" 1}`, probe.ErrNotObject, "near byte"},
		{"the wrong bracket", `{"a":[1}}`, probe.ErrNotObject, "near byte"},
		{"a number as key", `{1:2}`, probe.ErrNotObject, "near byte"},
		{"a number with a leading zero", `{"a":01}`, probe.ErrNotObject, "near byte"},
		{"a control character in a text", "{\"a\":\"QaNaRy\n\"}", probe.ErrNotObject, "near byte"},
		{"not a number", `{"QaNaRy":NaN}`, probe.ErrNotObject, "near byte"},
		{"a word", `{"a":QaNaRy}`, probe.ErrNotObject, "near byte"},
		{"bytes that are not UTF-8", "{\"QaNaRy\":\"\xff\"}", probe.ErrNotText, "Unicode"},
		{"the first half of a pair", `{"QaNaRy":"\ud800"}`, probe.ErrNotText, "Unicode"},
		{"the second half of a pair", `{"\udc00QaNaRy":1}`, probe.ErrNotText, "Unicode"},
		{"two first halves", `{"a":["\ud800\ud800"]}`, probe.ErrNotText, "Unicode"},
		{"two second halves", `{"a":["\udc00\udc00"]}`, probe.ErrNotText, "Unicode"},
		{"a half before another character", `{"a":"\ud800\u0041"}`, probe.ErrNotText, "Unicode"},
		{"a half behind a backslash", `{"a":"\\\ud800"}`, probe.ErrNotText, "Unicode"},
		{"arrays 65 deep", nested(65), probe.ErrTooDeep, "64 deep"},
		{"objects 65 deep", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), probe.ErrTooDeep, "64 deep"},
		{"brackets without an end", `{"a":` + strings.Repeat("[", 60_000), probe.ErrTooDeep, "64 deep"},
		{"a key twice", `{"QaNaRy":1,"QaNaRy":1}`, probe.ErrDuplicateKey, "near byte 20"},
		{"a key twice, spelled in two ways", `{"A":1,"\u0041":1}`, probe.ErrDuplicateKey, "twice"},
		{"a nested key twice", `{"a":[{"b":{"QaNaRy":1,"QaNaRy":2}}]}`, probe.ErrDuplicateKey, "twice"},
		{"an unknown class", `{"class":"QaNaRy"}`, probe.ErrField, "class is none of progressing, stalled and terminal"},
		{"a class in capitals", `{"class":"Terminal"}`, probe.ErrField, "class is none"},
		{"a class that is not a string", `{"class":1}`, probe.ErrField, "class is not a string"},
		{"a digest that is not a string", `{"digest":["QaNaRy"]}`, probe.ErrField, "digest is not a string"},
		{"a summary that is not a string", `{"summary":{"QaNaRy":1}}`, probe.ErrField, "summary is not a string"},
		{"fingerprints that are a string", `{"fingerprints":"QaNaRy"}`, probe.ErrField, "fingerprints is not an array"},
		{"reasons that are an object", `{"reasons":{"QaNaRy":1}}`, probe.ErrField, "reasons is not an array"},
		{
			"33 fingerprints", `{"fingerprints":[` + quoted(33, canary) + `]}`,
			probe.ErrField, "fingerprints has 33 elements, at most 32",
		},
		{"17 reasons", `{"reasons":[` + quoted(17, canary) + `]}`, probe.ErrField, "reasons has 17 elements, at most 16"},
		{"a fingerprint that is a number", `{"fingerprints":["a",1]}`, probe.ErrField, "fingerprints[1] is not a string"},
		{"a fingerprint that is null", `{"fingerprints":[null]}`, probe.ErrField, "fingerprints[0] is not a string"},
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
			"a fingerprint with a letter of another alphabet", `{"fingerprints":["é"]}`,
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
		{"a reason that is a number", `{"reasons":[1]}`, probe.ErrField, "reasons[0] is not a string"},
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
