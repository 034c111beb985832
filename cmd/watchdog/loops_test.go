package main_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sessionSamples is where the samples of each format are.
var sessionSamples = filepath.Join("..", "..", "transcript", "testdata")

// aPattern is a digest, which is another with each change of what is the same.
var aPattern = regexp.MustCompile(`\b[0-9a-f]{16}\b`)

func TestLoops(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(sessionSamples, "*"))
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) == ".golden" })
	require.Len(t, names, 10)
	in := func(text string) string {
		return aPattern.ReplaceAllString(strings.ReplaceAll(text, sessionSamples+string(filepath.Separator), ""), "PATTERN")
	}

	parallel(t, "a sample of each format", func(t *testing.T) {
		o := program(t, append([]string{"loops"}, names...)...).must(t, 0)
		require.Empty(t, o.stderr)
		compare(t, "loops", in(o.stdout))
	})
	parallel(t, "as JSON, with what was called", func(t *testing.T) {
		o := program(t, "loops", "--json", "--show", filepath.Join(sessionSamples, "claude-code.jsonl"))
		compare(t, "loops.json", in(o.stdout))
		var session struct{ Findings []struct{ Pattern string } }
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &session))
		require.Len(t, session.Findings, 1)
		require.Regexp(t, aPattern, session.Findings[0].Pattern)
	})
	parallel(t, "no text without --show", func(t *testing.T) {
		o := program(t, append([]string{"loops", "--json"}, names...)...)
		for _, text := range []string{"go test", "FAIL", "face.go", "redeclared", "seconds", "oldString"} {
			require.NotContains(t, o.stdout, text)
		}
		shown := program(t, "loops", "--show", filepath.Join(sessionSamples, "claude-code.jsonl"))
		require.Contains(t, shown.stdout, `    input   {"command":"go test ./..."`)
		require.Contains(t, shown.stdout, `    result  --- FAIL: TestFace`)
	})
}

// steps is a session of a chat in which a tool gets the same each time.
func steps(tool string, times int) string {
	var b strings.Builder
	for range times {
		b.WriteString(`{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"` + tool +
			`","arguments":"{}"}}]}` + "\n" + `{"role":"tool","tool_call_id":"a","content":"nothing yet"}` + "\n")
	}
	return b.String()
}

// shellEvery is a session of Codex that runs a script again and again.
func shellEvery(gap time.Duration, times int) string {
	var b strings.Builder
	at := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	for i := range times {
		at = at.Add(gap)
		for _, payload := range []string{
			`{"type":"function_call","name":"shell","arguments":"{\"command\":\"./run.sh\"}","call_id":"%d"}`,
			`{"type":"function_call_output","call_id":"%d","output":"not yet"}`,
		} {
			fmt.Fprintf(&b, `{"timestamp":%q,"type":"response_item","payload":`+payload+"}\n", at.Format(time.RFC3339), i)
		}
	}
	return b.String()
}

func TestLoopsFlags(t *testing.T) {
	t.Parallel()
	parallel(t, "what waits is asked about or ended", func(t *testing.T) {
		waits := file(t, "waits", steps("wait_for_reply", 30))
		require.Contains(t, program(t, "loops", waits).stdout, "30 steps: no loop; without times")
		require.Contains(t, program(t, "loops", "--waits", "ask", waits).stdout, ": would have been asked once;")
		require.Contains(t, program(t, "loops", "--waits", "end", waits).stdout, ": would have been ended once;")
		program(t, "loops", "--waits", "stop", waits).must(t, 125).says(t, `Waits is "stop"; use`)
	})
	parallel(t, "a loop that goes on is one", func(t *testing.T) {
		o := program(t, "loops", file(t, "loop", steps("read_file", 500)))
		require.Contains(t, o.stdout, ": would have been asked once, and ended once;")
		require.Contains(t, o.stdout, "asked at step 3 (line 5), ended at step 5 (line 9), on until step 500: tail ")
		require.Contains(t, o.stdout, "500 times in a row")
		require.Equal(t, 3, strings.Count(o.stdout, "\n"))
	})
	parallel(t, "what may poll is not ended unless it is strict", func(t *testing.T) {
		polls := file(t, "polls", shellEvery(20*time.Second, 8))
		o := program(t, "loops", polls)
		require.NotContains(t, o.stdout, "ended once")
		require.NotContains(t, o.stdout, "without times")
		require.Contains(t, program(t, "loops", "--strict", polls).stdout, "ended once")
	})
	parallel(t, "of parallel calls the one that repeats is shown", func(t *testing.T) {
		var b strings.Builder
		for i := range 6 {
			fmt.Fprintf(&b, `{"role":"assistant","tool_calls":[`+
				`{"id":"a","function":{"name":"read_file","arguments":"{\"p\":%d}"}},`+
				`{"id":"b","function":{"name":"read_file","arguments":"{\"p\":\"same\"}"}}]}`+"\n", i)
			fmt.Fprintf(&b, `{"role":"tool","tool_call_id":"a","content":"text %d"}`+"\n", i)
			b.WriteString(`{"role":"tool","tool_call_id":"b","content":"same text"}` + "\n")
		}
		o := program(t, "loops", "--show", file(t, "parallel", b.String()))
		require.Contains(t, o.stdout, "    input   {\"p\":\"same\"}\n    result  same text\n")
	})
	parallel(t, "names of tools cannot write to the terminal", func(t *testing.T) {
		odd := file(t, "odd", steps(`\u001b[31mread_file`, 4))
		for _, args := range [][]string{{"loops", odd}, {"loops", "--json", odd}, {"loops", "--show", odd}} {
			require.NotContains(t, program(t, args...).stdout, "\x1b")
		}
	})
	parallel(t, "a volatile field", func(t *testing.T) {
		var b strings.Builder
		for i := range 5 {
			one := strings.ReplaceAll(steps("read_file", 1), `"nothing yet"`, `"{\"seen\":`+strings.Repeat("1", i+1)+`}"`)
			b.WriteString(one)
		}
		seen := file(t, "seen", b.String())
		require.Contains(t, program(t, "loops", seen).stdout, "no loop")
		require.Contains(t, program(t, "loops", "--volatile", "seen", seen).stdout, "ended once")
		require.Contains(t, program(t, "loops", "--volatile", "", seen).stderr, "name a field")
		settings := file(t, "watchdog.yaml", "runtime_controls:\n  loop:\n    volatile: [seen]\n")
		require.Contains(t, program(t, "loops", "--config", settings, seen).stdout, "ended once", "as a host has it")
		settings = file(t, "wrong.yaml", "runtime_controls:\n  loop:\n    volatil: [seen]\n")
		program(t, "loops", "--config", settings, seen).must(t, 125).says(t, "wrong.yaml:3")
	})
}

func TestLoopsErrors(t *testing.T) {
	t.Parallel()
	good := file(t, "good.jsonl", steps("read_file", 2))
	folder := t.TempDir()
	missing := filepath.Join(folder, "missing")
	zipped := file(t, "session.jsonl.zst", "\x28\xb5\x2f\xfd\x00\x00")
	odd := file(t, "odd.jsonl", steps("read_file", 2)+"{\"role\":\"alien\"}\n")
	o := program(t, "loops", folder, missing, zipped, odd, good).must(t, 125)
	require.Equal(t, good+": chat messages, 2 steps: no loop; without times, so that the rules of gaps were not judged\n",
		o.stdout, "the others are judged all the same")
	lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
	require.Len(t, lines, 4)
	require.Equal(t, "watchdog: "+folder+": it is a folder; name the files in it", lines[0])
	require.Contains(t, lines[1], missing)
	require.Equal(t, "watchdog: "+zipped+": not a session file that is known: it is compressed by zstd; unpack it first, "+
		"as with zstd -d", lines[2])
	require.Contains(t, lines[3], "1 of its 5 lines are not known as lines of chat messages")

	o = program(t, "loops", "--json", missing, good).must(t, 125)
	objects := strings.Split(strings.TrimSpace(o.stdout), "\n")
	require.Len(t, objects, 2)
	require.Contains(t, objects[0], `"error":"open `+missing)
	require.NotContains(t, objects[1], "error")
	require.NotZero(t, program(t, "loops").status, "no file")
}

func TestLoopsOfStandardInput(t *testing.T) {
	t.Parallel()
	cmd := programCmd(t, nil, "loops", "-")
	cmd.Stdin = strings.NewReader(steps("read_file", 4))
	said, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(said), "-: chat messages, 4 steps: would have been asked once")
}
