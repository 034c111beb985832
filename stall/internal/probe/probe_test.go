package probe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/golden"
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
	golden.Compare(t, filepath.Join(folder, "observations.golden"), got.String())
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
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), letter)
			require.Zero(t, seen)
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

// A speller writes a value in one of the many ways that JSON allows.
type speller struct{ *rand.Rand }

func (s speller) spell(b *strings.Builder, value any) {
	s.space(b)
	defer s.space(b)
	switch v := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		s.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		s.list(b, "{}", len(keys), func(i int) {
			s.text(b, keys[i])
			b.WriteString(":")
			s.spell(b, v[keys[i]])
		})
	case []any:
		s.list(b, "[]", len(v), func(i int) { s.spell(b, v[i]) })
	case string:
		s.text(b, v)
	case int:
		s.number(b, v)
	default:
		text, _ := json.Marshal(v)
		b.Write(text)
	}
}

func (s speller) list(b *strings.Builder, brackets string, n int, item func(int)) {
	b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		item(i)
	}
	b.WriteByte(brackets[1])
}

func (s speller) text(b *strings.Builder, text string) {
	b.WriteString(`"`)
	for _, r := range text {
		if s.IntN(3) == 0 || r == '"' || r == '\\' || r < ' ' {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(b, `\u%04x`, unit)
			}
		} else {
			b.WriteRune(r)
		}
	}
	b.WriteString(`"`)
}

func (s speller) number(b *strings.Builder, n int) {
	switch k := s.IntN(4); {
	case k == 0 || n == 0:
		fmt.Fprintf(b, "%d", n)
	case k == 1:
		fmt.Fprintf(b, "%d.%s", n, strings.Repeat("0", 1+s.IntN(3)))
	case k == 2:
		fmt.Fprintf(b, "%d000E-3", n)
	default:
		sign := strings.Repeat("-", min(1, max(0, -n)))
		fmt.Fprintf(b, "%s%d.%02de+%02d", sign, max(n, -n)/100, max(n, -n)%100, 2)
	}
}

func (s speller) space(b *strings.Builder) {
	b.WriteString([]string{"", "", " ", "\n", "\t\r"}[s.IntN(5)])
}

// value returns a random value that is at most depth deep.
func (s speller) value(depth int) any {
	switch s.IntN(3 + 4*min(depth, 1)) {
	case 0:
		return s.IntN(2000) - 1000
	case 1:
		return s.word()
	case 2:
		return []any{nil, true, false}[s.IntN(3)]
	case 3, 4:
		list := []any{}
		for range s.IntN(4) {
			list = append(list, s.value(depth-1))
		}
		return list
	default:
		return s.object(depth)
	}
}

func (s speller) object(depth int) map[string]any {
	object := map[string]any{}
	for range 1 + s.IntN(4) {
		object["x"+s.word()] = s.value(depth - 1) // no known field begins with x
	}
	return object
}

func (s speller) word() string {
	var b strings.Builder
	for range s.IntN(4) {
		b.WriteRune([]rune("ab1:{}[]#;\"\\\né\u2028😀")[s.IntN(16)])
	}
	return b.String()
}

func (s speller) digest(t *testing.T, value any) string {
	t.Helper()
	var b strings.Builder
	s.spell(&b, value)
	require.True(t, json.Valid([]byte(b.String())), "the test is wrong: %s", b.String())
	return digest(t, b.String())
}

// leaves returns a function for each value in the tree that contains no other value. The function replaces the value
// with the result of change, or puts it back.
func leaves(tree any) []func(change func(any) any) {
	var found []func(func(any) any)
	visit := func(inner any, set func(any)) {
		if deeper := leaves(inner); deeper != nil {
			found = append(found, deeper...)
			return
		}
		found = append(found, func(change func(any) any) { set(change(inner)) })
	}
	switch v := tree.(type) {
	case map[string]any:
		for key, inner := range v {
			visit(inner, func(other any) { v[key] = other })
		}
	case []any:
		for i, inner := range v {
			visit(inner, func(other any) { v[i] = other })
		}
	}
	return found
}

// another returns a value that differs from the given one.
func another(value any) any {
	switch v := value.(type) {
	case int:
		return v + 1
	case string:
		return v + " "
	case bool:
		return !v
	case nil:
		return 0
	default:
		return "other"
	}
}

// TestDigestProperty checks that a digest depends on a change at any depth, and not on the spelling.
func TestDigestProperty(t *testing.T) {
	changed := 0
	for seed := range uint64(300) {
		s := speller{rand.New(rand.NewPCG(seed, 64))}
		tree := s.object(6)
		before := s.digest(t, tree)
		require.Equal(t, before, s.digest(t, tree), "seed %d: spelled in another way", seed)
		for _, leaf := range leaves(tree) {
			leaf(another)
			require.NotEqual(t, before, s.digest(t, tree), "seed %d: %v", seed, tree)
			leaf(func(value any) any { return value })
			changed++
		}
		require.Equal(t, before, s.digest(t, tree), "seed %d: changed back", seed)
	}
	require.Greater(t, changed, 2000)
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":{"b":[1,1.0,-0,1e0,1E+400,null,true]},"a\u0041":"\ud83d\ude00"}`, `{"a":1,"a":2}`, `{"a":"\ud800"}`,
		nested(64), nested(65), `{"class":"terminal","digest":"d","fingerprints":["a/b:c"],"reasons":["r"],"summary":"s"}`,
		`{"class":1}`, `{"fingerprints":["a b"]}`, `{"a":01}`, "{\"\xff\":1}",
	} {
		for _, at := range []uint16{0, 3, 9, 1000} {
			f.Add([]byte(seed), at)
		}
	}
	f.Fuzz(func(t *testing.T, output []byte, at uint16) {
		checkOutput(t, output)
		at = min(at, uint16(min(len(output), 1<<16-1)))
		planted := slices.Concat(output[:at], []byte(canary), output[at:])
		if _, err := probe.Parse(planted); err != nil {
			require.NotContains(t, err.Error(), letter)
		}
	})
}

// checkOutput checks that an accepted output is JSON and has the same digest in another spelling.
func checkOutput(t *testing.T, output []byte) {
	t.Helper()
	seen, err := probe.Parse(output)
	if err != nil {
		require.Zero(t, seen)
		return
	}
	require.True(t, json.Valid(output))
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(output))
	d.UseNumber()
	require.NoError(t, d.Decode(&object))
	var b strings.Builder
	speller{rand.New(rand.NewPCG(1, uint64(len(output))))}.spell(&b, object)
	if b.Len() > probe.MaxOutput {
		return
	}
	again, err := probe.Parse([]byte(b.String()))
	require.NoError(t, err)
	require.Equal(t, seen, again)
}

func TestRead(t *testing.T) {
	saw := []byte(`{"class":"terminal"}`)
	for _, c := range []struct {
		name    string
		outcome probe.Outcome
		anyExit bool
		want    probe.Blind
	}{
		{"exit status 0", probe.Outcome{Output: saw}, false, ""},
		{"exit status 1", probe.Outcome{ExitStatus: 1, Output: saw}, false, probe.BlindExit},
		{"exit status 1 with anyExit", probe.Outcome{ExitStatus: 1, Output: saw}, true, ""},
		{"a signal", probe.Outcome{ExitStatus: -1, Output: saw}, false, probe.BlindExit},
		{"a signal with anyExit", probe.Outcome{ExitStatus: -1, Output: saw}, true, probe.BlindExit},
		{"a timeout after the output", probe.Outcome{TimedOut: true, ExitStatus: -1, Output: saw}, true, probe.BlindTimeout},
		{"no start", probe.Outcome{StartErr: errors.ErrUnsupported, Output: saw}, true, probe.BlindStart},
		{"an output that is no object", probe.Outcome{Output: []byte(canary)}, false, probe.BlindOutput},
		{"one with anyExit", probe.Outcome{ExitStatus: 2, Output: []byte(canary)}, true, probe.BlindOutput},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, blind := probe.Read(c.outcome, c.anyExit)
			require.Equal(t, c.want, blind)
			if blind != "" {
				require.Zero(t, seen)
				return
			}
			require.Equal(t, digest(t, string(saw)), seen.Digest)
		})
	}
}

// TestCapture checks that a Capture keeps as much as the limit allows and one byte more, so that an output that was cut
// is too long, and not half an object.
func TestCapture(t *testing.T) {
	for size, kept := range map[int]int{0: 0, 1000: 1000, 64 << 10: 64 << 10, 64<<10 + 1: 64<<10 + 1, 1 << 20: 64<<10 + 1} {
		var capture probe.Capture
		text := strings.Repeat("0123456789", size/10+1)[:size]
		for rest := text; len(rest) > 0; {
			n, err := capture.Write([]byte(rest[:min(1000, len(rest))]))
			require.NoError(t, err)
			rest = rest[n:]
		}
		given := capture.Bytes()
		require.Equal(t, text[:kept], string(given))
		clear(given)
		require.Equal(t, text[:kept], string(capture.Bytes()), "Bytes returns a copy")
	}
}

// TestCaptureConcurrent reads a Capture while it is written.
func TestCaptureConcurrent(t *testing.T) {
	var capture probe.Capture
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				_, _ = capture.Write([]byte(strings.Repeat("x", 50)))
				capture.Bytes()
			}
		})
	}
	wg.Wait()
	require.Len(t, capture.Bytes(), 64<<10+1)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
