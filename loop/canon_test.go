package loop_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/loop"
)

// sameInput reports whether a detector takes two inputs for the same.
func sameInput(tb testing.TB, a, b []byte) bool {
	tb.Helper()
	return same(tb, loop.Config{}, loop.Step{Tool: "x", Input: a}, loop.Step{Tool: "x", Input: b})
}

func sameOutcome(tb testing.TB, a, b []byte) bool {
	tb.Helper()
	return same(tb, loop.Config{}, loop.Step{Tool: "x", Outcome: a}, loop.Step{Tool: "x", Outcome: b})
}

func same(tb testing.TB, config loop.Config, a, b loop.Step) bool {
	tb.Helper()
	d, err := loop.New(config)
	require.NoError(tb, err)
	a.Class, b.Class = loop.Look, loop.Look
	d.Step(a)
	return !d.Step(b).New
}

// TestInput has what TestDigests of package alike, which makes up values, does not spell.
func TestInput(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`100`, `1e2`, true},
		{`-12.50`, `-1250E-2`, true},
		{`0`, `-0.0e7`, true},
		{`0.1`, `0.10000000000000001`, true}, // one float64
		{`1e99999999999`, `1e99999999999`, true},
		{`12345678901234567890`, `12345678901234567891`, false},
		{`"A\u00e9\/\n"`, "\"\\u0041é/\\u000a\"", true},
		{`"\ud800\u0041"`, `"\ufffdA"`, true}, // a lone surrogate, and a letter
		{`"\ud800\u0041"`, `"\ufffd"`, false},
		{`"a  b"`, `"a b"`, false},
		{`"file_0"`, `"file_1"`, false},
		{`"took 1s"`, `"took 2s"`, false},
		{`{"s":"/tmp/a"}`, `{"s":"/tmp/b"}`, false},
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`, true},
		{`ls  -l`, `ls -l`, false},
		{`{"a":1`, `{"a": 1`, false}, // not JSON
		{`tru`, `true`, false},
		{``, `null`, false},
	} {
		require.Equal(t, c.same, sameInput(t, []byte(c.a), []byte(c.b)), "%s and %s", c.a, c.b)
		require.Equal(t, c.same, sameInput(t, []byte(c.b), []byte(c.a)), "%s and %s", c.b, c.a)
		require.True(t, sameInput(t, []byte(c.a), []byte(c.a)))
	}
	t.Run("a step is more than its input", func(t *testing.T) {
		a := loop.Step{Tool: "a", Input: []byte("b"), Outcome: []byte("c")}
		for _, b := range []loop.Step{
			{Tool: "ab", Outcome: []byte("c")}, {Tool: "a", Input: []byte("bc")}, {Input: []byte("ab"), Outcome: []byte("c")},
			{Tool: "a", Input: []byte("b"), Outcome: []byte("c"), Refused: true},
		} {
			require.False(t, same(t, loop.Config{}, a, b))
		}
	})
}

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"ok in 0.01s", "ok in 12s", true},
		{"ok (1m30s)", "ok (59.9s)", true},
		{"took 12 ms.", "took 9.5 ms.", true},
		{"took 1 min 3 s", "took 59 s", true},
		{"waited 3 minutes", "waited 1 hour", true},
		{"5µs", "7μs", true},
		{"512 ns/op", "498 ns/op", true},
		{"3 files", "4 files", false},
		{"3 d", "4 d", false},
		{"3s", "3m", true},
		{"3 sheep", "4 sheep", false},
		{"10 GB", "20 GB", false},
		{"v1.2s3", "v1.3s3", false},
		{"a1s", "a2s", false},
		{"at 2026-11-22T17:00:00Z:", "at 2026-11-22t18:01:02.345+02:00:", true},
		{"2026-11-22 17:00:00Z", "2025-01-01 00:00:00Z", true},
		{"2026-11-22", "2026-11-23", false},
		{"2026-11-22T17:00:00", "2026-11-22 18:00:01,003", true}, // without a zone
		{"<W at 0x7f00aabbccdd>", "<W at 0xc000012345>", true},
		{"flags 0x01", "flags 0x02", false},
		{"in /tmp/go-build1/b001:3", "in /tmp/go-build99/b002:3", true},
		{"in /tmp/go-build1/b001:3", "in /tmp/go-build1/b001:4", false},
		{"/var/folders/x/T/a b", "/var/folders/y/T/z b", true},
		{`C:\src\a`, `C:\src\b`, false},
		{"/home/me/tmp/a", "/home/me/tmp/b", false},
		{"/tmpfiles/a", "/tmpfiles/b", false},
		{`{"at":"2026-11-22T17:00:00Z","log":"in 3s"}`, `{"log":"in 4s","at":"2026-01-01T00:00:00Z"}`, true},
		{`{"elapsed_ms":12}`, `{"elapsed_ms":13.5}`, true},
		{`{"durationSeconds":12}`, `{"durationSeconds":1}`, true},
		{`{"lines":12}`, `{"lines":13}`, false},
		{`{"price_min":12}`, `{"price_min":13}`, false}, // the least one
		{"8xA100_80GB", "8xH100_80GB", false},           // no address
		{`{"elapsed_ms":"x"}`, `{"elapsed_ms":"y"}`, false},
		{`{"3s":1}`, `{"4s":1}`, false}, // names are never blurred
		{"7\n", "7", true},              // both are the number
		{"a\n", "a", false},
	} {
		require.Equal(t, c.same, sameOutcome(t, []byte(c.a), []byte(c.b)), "%s and %s", c.a, c.b)
		require.Equal(t, c.same, sameOutcome(t, []byte(c.b), []byte(c.a)), "%s and %s", c.b, c.a)
	}
	t.Run("volatile fields are left out", func(t *testing.T) {
		config := loop.Config{Volatile: []string{"request_id"}}
		a := loop.Step{Outcome: []byte(`{"a":[{"request_id":{"x":[1]},"b":1}],"request_id":7}`)}
		require.True(t, same(t, config, a, loop.Step{Outcome: []byte(`{"request_id":"q","a":[{"b":1}]}`)}))
		require.False(t, same(t, config, a, loop.Step{Outcome: []byte(`{"a":[{"b":2}]}`)}))
		require.False(t, same(t, config, loop.Step{Input: a.Outcome}, loop.Step{Input: []byte(`{"a":[{"b":1}]}`)}), "not in inputs")
	})
	t.Run("deep JSON is compared as text", func(t *testing.T) {
		deep := func(n int, space string) []byte {
			return []byte(strings.Repeat("[", n) + space + strings.Repeat("]", n))
		}
		require.True(t, sameOutcome(t, deep(100, ""), deep(100, " ")))
		require.False(t, sameOutcome(t, deep(101, ""), deep(101, " ")))
		require.False(t, sameOutcome(t, deep(1e6, ""), deep(1e6, " ")))
	})
}

// naive is the canonical form by the standard library, for JSON in which it loses nothing.
func naive(text []byte) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if !json.Valid(text) || !utf8.Valid(text) || d.Decode(&value) != nil {
		return "", false
	}
	form, err := json.Marshal(value)
	return string(form), err == nil
}

// FuzzStep looks for inputs that are told apart by their spelling, and for any that are not read as the standard library
// reads them.
func FuzzStep(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,2.50,-1e3],"a":{"d":"\u00e9\ud83d\ude00","c":null}}`, "plain 3s text 0xdeadbeef /tmp/x", `"\ud800"`, `[`, `{"a":1,"a":2}`,
		`01`, `-`, "\xff", `{"a" 1}`, `[1,]`, `"\x"`, ` true `, `{"":{"":[]}}`, `1E400`, "2026-11-22T17:00:00Z", `C:\Temp\x`, `x:\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		require.True(t, sameInput(t, text, text))
		require.True(t, sameOutcome(t, text, text))
		if form, ok := naive(text); ok {
			if !strings.Contains(form, `"`) || !duplicateKeys(text) {
				require.True(t, sameInput(t, text, []byte(form)), "%q and %q", text, form)
			}
			var spaced bytes.Buffer
			require.NoError(t, json.Indent(&spaced, text, "\r", "\t "))
			if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) || deepest(text) <= 100 {
				require.Equal(t, deepest(text) <= 100 || spaced.String() == string(text), sameInput(t, text, spaced.Bytes()), "%q", text)
			}
			require.False(t, sameInput(t, text, []byte(form+"x")))
		} else if !json.Valid(text) && len(text) > 0 {
			require.False(t, sameInput(t, text, append(bytes.Clone(text), ' ')), "%q is not JSON", text)
		}
		require.Equal(t, before, text)
	})
}

func deepest(text []byte) (most int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case !quoted && (b == '[' || b == '{'):
			depth++
			most = max(most, depth)
		case !quoted && (b == ']' || b == '}'):
			depth--
		}
	}
	return most
}

// duplicateKeys reports whether the standard library would drop a member.
func duplicateKeys(text []byte) bool {
	form, _ := naive(text)
	return bytes.Count(text, []byte(":")) != strings.Count(form, ":") || deepest(text) > 100
}

// BenchmarkStep judges steps of the sizes and forms that agents have, and reports how long that takes in multiples of
// the SHA-256 of the same bytes, measured beside it.
func BenchmarkStep(b *testing.B) {
	code := strings.Repeat("\tif err := run(ctx, name, 1200); err != nil {\n\t\treturn fmt.Errorf(\"run %s: %w\", name, err)\n\t}\n", 80)
	log := strings.Repeat("2026-11-22T17:00:00Z INFO took 1.2s for https://example.org/a/b?c=1 (attempt 2 of 3)\n", 80)
	var tools []string
	for n := range 500 { // so that none repeats
		tools = append(tools, fmt.Sprint("tool_", n))
	}
	for name, s := range map[string]loop.Step{
		"shell": {Input: []byte(`{"command":"go test ./... 2>&1 | tail -50"}`), Outcome: []byte(log)},
		"read":  {Input: []byte(`{"path":"src/main.go","offset":100}`), Outcome: []byte(code)},
		"write": {Input: quoted(code), Outcome: []byte("The file was written.")},
		"json":  {Input: []byte(`{"page":3}`), Outcome: []byte(rows())},
	} {
		b.Run(name, func(b *testing.B) {
			var d loop.Detector
			b.ReportAllocs()
			stepping, hashing := time.Hour, time.Hour // the least of all rounds, because the machine does other work
			n := 0
			for b.Loop() {
				start := time.Now()
				for range 20 {
					s.Tool = tools[n%len(tools)]
					n++
					d.Step(s)
				}
				stepped := time.Now()
				for range 20 {
					sha256.Sum256(s.Input)
					sha256.Sum256(s.Outcome)
				}
				stepping, hashing = min(stepping, stepped.Sub(start)), min(hashing, time.Since(stepped))
			}
			b.ReportMetric(float64(stepping)/float64(hashing), "x-sha256")
			b.ReportMetric(float64(stepping)/20, "ns/step")
		})
	}
}

// quoted is the input of a tool that writes a file.
func quoted(text string) []byte {
	text = strings.NewReplacer("\n", `\n`, "\t", `\t`, `"`, `\"`).Replace(text)
	return []byte(`{"path":"src/main.go","content":"` + text + `"}`)
}

func rows() string {
	row := `{"id":12345,"name":"Ada Berg","email":"ada@example.org","score":0.5,"open":true,"tags":["a","b"]}`
	return "[" + strings.Repeat(row+",", 80) + row + "]"
}

var sets = []string{"loops", "productive", "heldout-loops", "heldout-work", "agents-loops", "agents-work"}

// before is what the rules asked/ended in each set, with and without classes, when they were last changed at large.
var before = map[bool]map[loop.Rule]string{
	true: {
		loop.Tail: "30/15 1/0 32/32 2/2 2/2 7/6", loop.Pair: "6/2 0/0 9/8 0/0 0/0 1/0",
		loop.Futile: "8/0 0/0 6/0 1/0 0/0 0/0", loop.Poll: "0/0 1/0 0/0 0/0 0/0 0/0",
	},
	false: {
		loop.Tail: "29/15 1/0 29/28 1/0 2/2 7/6", loop.Pair: "6/2 0/0 13/9 1/0 0/0 1/0",
		loop.Futile: "8/0 0/0 6/0 1/0 0/0 0/0", loop.Poll: "0/0 1/0 0/0 2/0 0/0 0/0",
	},
}

// byRule returns what each rule asked and ended in each set, in the form of before.
func byRule(t *testing.T, classes bool) map[loop.Rule]string {
	t.Helper()
	rules := map[loop.Rule]string{}
	for rule := range before[classes] {
		rules[rule] = ""
	}
	counts := make([]map[loop.Rule][2]int, len(sets))
	for i, set := range sets {
		counts[i] = map[loop.Rule][2]int{}
		for _, read := range traces(t, set) {
			if f := read.judge(t, classes); f.asked+f.ended != 0 {
				n := counts[i][f.rule]
				counts[i][f.rule] = [2]int{n[0] + min(f.asked, 1), n[1] + min(f.ended, 1)}
				rules[f.rule] = ""
			}
		}
	}
	for rule := range rules {
		var cells []string
		for _, n := range counts {
			cells = append(cells, fmt.Sprintf("%d/%d", n[rule][0], n[rule][1]))
		}
		rules[rule] = strings.Join(cells, " ")
	}
	return rules
}

// TestByRule writes the last section of testdata/README.md: asked/ended by each rule, before and now.
func TestByRule(t *testing.T) {
	const file, heading = "testdata/README.md", "## By rule\n"
	readme, err := os.ReadFile(file)
	require.NoError(t, err)
	above, _, found := strings.Cut(string(readme), heading)
	require.True(t, found)
	var text strings.Builder
	for _, classes := range []bool{true, false} {
		name := map[bool]string{true: "with classes", false: "without classes"}[classes]
		fmt.Fprintf(&text, "\n| %s | %s |\n|---%s|\n", name, strings.Join(sets, " | "), strings.Repeat("|---", len(sets)))
		now := byRule(t, classes)
		for _, rule := range slices.Sorted(maps.Keys(now)) {
			fmt.Fprintf(&text, "| %s |", rule)
			was := strings.Fields(cmp.Or(before[classes][rule], strings.Repeat("0/0 ", len(sets))))
			for i, cell := range strings.Fields(now[rule]) {
				fmt.Fprintf(&text, " %s → %s |", was[i], cell)
			}
			fmt.Fprintln(&text)
		}
	}
	fmt.Fprintf(&text, "\nNot found with classes: %s.\n", strings.Join(missed(t), ", "))
	golden.Compare(t, file, above+heading+"\nAsked/ended, before the rules last changed at large → now.\n"+text.String())
}

// missed returns the names of the held-out loops that are not found with classes.
func missed(t *testing.T) (names []string) {
	t.Helper()
	for _, read := range traces(t, "heldout-loops") {
		if read.judge(t, true).asked == 0 {
			names = append(names, "`"+read.Name+"`")
		}
	}
	return names
}

// thought is how long a model thinks.
func thought(random *rand.Rand) time.Duration {
	return time.Duration(5000+random.IntN(35000)) * time.Millisecond
}

// TestPlanted protects loops of models that think: those in testdata, with gaps of 5 to 40 seconds before each step.
func TestPlanted(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 40))
	for _, c := range []struct {
		set     string
		classes bool
		found   int
		ended   int // at most; it counts for work alone
	}{
		{"loops", true, 43, 44}, {"loops", false, 43, 44}, {"heldout-loops", true, 51, 60}, {"heldout-loops", false, 50, 60},
		{"productive", true, 0, 0}, {"productive", false, 0, 0}, {"heldout-work", true, 0, 2}, {"heldout-work", false, 0, 0},
	} {
		found, ended := 0, 0
		for _, read := range traces(t, c.set) {
			d := newDetector(t, loop.Config{})
			var f finding
			for n, turn := range read.turns {
				steps := turn.steps(c.classes)
				for i := range steps {
					steps[i].Gap = thought(random)
				}
				f.step(d, n, steps)
			}
			found += min(f.asked, 1)
			ended += min(f.ended, 1)
		}
		t.Logf("%s, with classes %t: %d asked, %d ended", c.set, c.classes, found, ended)
		require.GreaterOrEqual(t, found, c.found, c.set)
		require.LessOrEqual(t, ended, c.ended, c.set)
	}
}

// TestSets holds each set to what was found, asked and ended when the rules last changed. The traces of heldout-loops
// and heldout-work were written by somebody who had not read the rules. They were tuned to once, so that they are not
// held out any more: testdata/README.md has the figures of the first run, before that. A found_by is the turn by which
// a reasonable person would call it a loop; whoever marked the held-out ones knew nothing of when the detector asks.
func TestSets(t *testing.T) {
	// They do the same and get the same in exact rounds, which is what the rule asks about and ends: nothing but the next
	// round tells them from a loop.
	exact := []string{"deletes-by-batch", "flaky-test-reruns"}
	alike := []string{"status-again", "log-of-a-build", "progress-by-a-program"} // which do look like loops
	for _, c := range []struct {
		set           string
		classes       bool
		of            int // traces, at least
		found, inTime int // loops, at least
		asked         int // work, at most, but that which may be
		may, end      []string
	}{
		{"loops", true, 44, 44, 44, 0, nil, nil}, {"loops", false, 44, 42, 42, 0, nil, nil},
		{"productive", true, 125, 0, 0, 2, nil, nil}, {"productive", false, 125, 0, 0, 25, nil, nil},
		{"heldout-loops", true, 60, 47, 0, 0, nil, nil}, {"heldout-loops", false, 60, 48, 0, 0, nil, nil},
		{"heldout-work", true, 150, 0, 0, 1, exact, exact}, {"heldout-work", false, 150, 0, 0, 16, exact, exact},
		{"agents-loops", false, 13, 13, 13, 0, nil, nil}, {"agents-work", false, 15, 0, 0, 0, alike, nil},
	} {
		t.Run(fmt.Sprintf("%s, with classes %t", c.set, c.classes), func(t *testing.T) {
			all := traces(t, c.set)
			require.GreaterOrEqual(t, len(all), c.of)
			loops, found, inTime, asked := strings.HasSuffix(c.set, "loops"), 0, 0, 0
			for _, read := range all {
				require.Equal(t, loops, read.FoundBy > 0, read.Name)
				require.True(t, c.inTime > 0 || read.FoundBy <= len(read.turns), read.Name)
				f := read.judge(t, c.classes)
				t.Logf("asked at turn %d, marked %d, ended at %d of %d, by %s: %s: %s",
					f.asked, read.FoundBy, f.ended, len(read.turns), f.rule, read.Name, read.What)
				found += min(f.asked, 1)
				if f.asked > 0 && f.asked <= read.FoundBy {
					inTime++
				}
				if f.asked > 0 && !slices.Contains(c.may, read.Name) {
					asked++
				}
				require.True(t, loops || f.ended == 0 || slices.Contains(c.end, read.Name), "ended: %s: %s", read.Name, read.What)
			}
			require.GreaterOrEqual(t, found, c.found)
			require.GreaterOrEqual(t, inTime, c.inTime)
			require.True(t, loops || asked <= c.asked, "%d of %d are asked about", asked, len(all))
		})
	}
}

// A trace is what a run did, turn by turn.
type trace struct {
	Name    string `json:"name"`
	What    string `json:"what"`
	From    string `json:"from"`
	FoundBy int    `json:"found_by"` // a loop's turn by which the detector has to ask
	turns   []traceTurn
}

type traceTurn struct {
	Steps   []traceStep `json:"steps"`
	Restart bool        `json:"restart"` // before the turn
	Times   int         `json:"times"`
	Count   struct {
		From int `json:"from"`
		To   int `json:"to"`
	} `json:"count"`
	declared []loop.Step // with their classes
}

type traceStep struct {
	Tool    string          `json:"tool"`
	Class   loop.Class      `json:"class"`
	Input   json.RawMessage `json:"input"`
	Outcome json.RawMessage `json:"outcome"`
	Gap     float64         `json:"gap_seconds"`
	Refused bool            `json:"refused"`
	Retry   bool            `json:"retry"`
}

// traces reads a set of testdata.
func traces(t *testing.T, set string) (all []*trace) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", set+".jsonl"))
	require.NoError(t, err)
	named := map[string]*trace{}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(`{"name":`)) {
			begun := &trace{}
			require.NoError(t, strictly(line, begun), "%s", line)
			require.NotContains(t, named, begun.Name)
			named[begun.Name] = begun
			all = append(all, begun)
			continue
		}
		var turn traceTurn
		require.NoError(t, strictly(line, &turn), "%s", line)
		require.NotEmpty(t, turn.Steps, "%s", line)
		require.NotEmpty(t, all, "a turn before a name")
		last := all[len(all)-1]
		for _, turn := range turn.expand() {
			turn.read(t)
			last.turns = append(last.turns, turn)
		}
	}
	for _, read := range all {
		require.NotEmpty(t, read.Name)
		require.NotEmpty(t, read.What, read.Name)
		require.NotEmpty(t, read.From, read.Name)
		require.NotEmpty(t, read.turns, read.Name)
	}
	return all
}

func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// expand returns the turns that one line stands for. A restart is before the first.
func (turn traceTurn) expand() (all []traceTurn) {
	for range max(turn.Times, 1) {
		all = append(all, turn)
	}
	if turn.Count.To > 0 {
		all = nil
		for n := turn.Count.From; n <= turn.Count.To; n++ {
			all = append(all, turn.numbered(n))
		}
	}
	for i := range all[1:] {
		all[1+i].Restart = false
	}
	return all
}

func (turn traceTurn) numbered(n int) traceTurn {
	number := []byte(strconv.Itoa(n))
	turn.Steps = slices.Clone(turn.Steps)
	for i := range turn.Steps {
		s := &turn.Steps[i]
		s.Input = bytes.ReplaceAll(s.Input, []byte("{n}"), number)
		s.Outcome = bytes.ReplaceAll(s.Outcome, []byte("{n}"), number)
	}
	return turn
}

// read keeps the steps of the turn.
func (turn *traceTurn) read(t *testing.T) {
	t.Helper()
	for _, s := range turn.Steps {
		turn.declared = append(turn.declared, loop.Step{
			Tool: s.Tool, Class: s.Class, Input: plain(t, s.Input), Outcome: plain(t, s.Outcome),
			Gap: time.Duration(s.Gap * float64(time.Second)), Refused: s.Refused, Retry: s.Retry,
		})
	}
}

func (turn *traceTurn) steps(classes bool) []loop.Step {
	if classes {
		return turn.declared
	}
	all := slices.Clone(turn.declared)
	for i := range all {
		all[i].Class = ""
	}
	return all
}

// plain returns the text of a JSON string, and other JSON as it is.
func plain(t *testing.T, value json.RawMessage) []byte {
	t.Helper()
	if len(value) == 0 || value[0] != '"' {
		return value
	}
	var text string
	require.NoError(t, json.Unmarshal(value, &text))
	return []byte(text)
}

// A finding is what the detector said to a trace. The numbers are turns, 0 where it never did.
type finding struct {
	asked, ended int
	rule         loop.Rule
}

// judge gives a trace to a detector. The run is told at once whenever the detector asks.
func (read *trace) judge(t *testing.T, classes bool) (f finding) {
	t.Helper()
	d := newDetector(t, loop.Config{})
	for i, turn := range read.turns {
		if turn.Restart {
			d = restart(t, d, loop.Config{})
		}
		f.step(d, i, turn.steps(classes))
	}
	return f
}

// step gives a turn, counted from 0, to a detector, and tells the run at once if it asks.
func (f *finding) step(d *loop.Detector, turn int, steps []loop.Step) {
	switch v := d.Step(steps...); {
	case v.Advice == loop.End && f.ended == 0:
		f.ended, f.rule = turn+1, v.Rule
	case v.Advice == loop.Ask:
		d.Delivered()
		if f.asked == 0 {
			f.asked, f.rule = turn+1, v.Rule
		}
	}
}

func restart(t *testing.T, d *loop.Detector, config loop.Config) *loop.Detector {
	t.Helper()
	state, err := d.MarshalBinary()
	require.NoError(t, err)
	restored := newDetector(t, config)
	require.NoError(t, restored.UnmarshalBinary(state))
	return restored
}
