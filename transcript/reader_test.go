package transcript_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/transcript"
)

// read reads all turns, and returns the error that came instead of io.EOF.
func read(in io.Reader) (turns []transcript.Turn, counts transcript.Coverage, err error) {
	r := transcript.NewReader(in)
	for {
		turn, err := r.Next()
		if errors.Is(err, io.EOF) {
			return turns, r.Coverage(), nil
		}
		if err != nil {
			return turns, r.Coverage(), err
		}
		turns = append(turns, turn)
	}
}

// text says what was read, a line for each call.
func text(turns []transcript.Turn, counts transcript.Coverage) string {
	var b strings.Builder
	for _, turn := range turns {
		fmt.Fprintf(&b, "turn of %q in conversation %d, line %d\n", turn.Agent, turn.Conversation, turn.Line)
		for i, s := range turn.Steps {
			if s.Class == loop.Person {
				fmt.Fprintf(&b, "  a person, before call %d\n", turn.First)
				continue
			}
			fmt.Fprintf(&b, "  %d %s %s -> %q", turn.First+i, s.Tool, s.Input, s.Outcome)
			for _, flag := range []struct {
				set  bool
				says string
			}{{s.Failed, " failed"}, {s.Refused, " refused"}, {s.Gap > 0, fmt.Sprint(" after ", s.Gap)}} {
				if flag.set {
					b.WriteString(flag.says)
				}
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "%+v\n", counts)
	return b.String()
}

func samples(tb testing.TB) (names []string) {
	tb.Helper()
	for _, form := range []string{"*.json", "*.jsonl", "*.traj"} {
		found, err := filepath.Glob(filepath.Join("testdata", form))
		require.NoError(tb, err)
		names = append(names, found...)
	}
	require.Len(tb, names, 10)
	return names
}

func TestSamples(t *testing.T) {
	t.Parallel()
	for _, name := range samples(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			turns, counts, err := read(bytes.NewReader(data))
			require.NoError(t, err)
			got := text(turns, counts)
			golden.Compare(t, name+".golden", got)

			again := func(what string, in io.Reader) {
				turns, counts, err := read(in)
				require.NoError(t, err, what)
				require.Equal(t, got, text(turns, counts), what)
			}
			again("a byte at a time", iotest.OneByteReader(bytes.NewReader(data)))
			again("with the mark of UTF-8", io.MultiReader(strings.NewReader("\ufeff"), bytes.NewReader(data)))
			again("with CRLF", bytes.NewReader(bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))))
			again("without the last line feed", bytes.NewReader(bytes.TrimRight(data, "\n")))
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines reads a session that has these lines.
func lines(t *testing.T, lines ...string) ([]transcript.Turn, transcript.Coverage) {
	t.Helper()
	turns, counts, err := read(strings.NewReader(strings.Join(lines, "\n")))
	require.NoError(t, err)
	return turns, counts
}

func codexCall(second, id string) string {
	return `{"timestamp":"2026-09-14T08:00:` + second + `Z","type":"response_item","payload":` +
		`{"type":"function_call","name":"shell","arguments":"{}","call_id":"` + id + `"}}`
}

func codexResult(second, id, output string) string {
	return `{"timestamp":"2026-09-14T08:00:` + second + `Z","type":"response_item","payload":` +
		`{"type":"function_call_output","call_id":"` + id + `","output":"` + output + `"}}`
}

func TestTurns(t *testing.T) {
	t.Parallel()
	t.Run("a gap is from the last result of the turn before", func(t *testing.T) {
		t.Parallel()
		turns, _ := lines(t, codexCall("01", "a"), codexCall("01", "b"),
			codexResult("09", "b", ""), codexResult("05", "a", ""),
			codexCall("10", "c"), codexResult("12", "c", ""),
			codexCall("13", "d"), codexResult("03", "d", ""), codexCall("04", "e"), codexResult("08", "e", ""))
		require.Len(t, turns, 4)
		require.Len(t, turns[0].Steps, 2)
		require.Equal(t, 3*time.Second, turns[1].Steps[0].Gap)
		require.Zero(t, turns[2].Steps[0].Gap, "a clock that was set back")
		require.Equal(t, 5*time.Second, turns[3].Steps[0].Gap, "and goes on from there")
	})
	t.Run("the first result of a call counts", func(t *testing.T) {
		t.Parallel()
		all := []string{codexCall("01", "a"), codexResult("02", "a", "first"), codexResult("03", "a", "second")}
		for range 17 {
			all = append(all, `{"type":"turn_context","payload":{}}`)
		}
		turns, counts := lines(t, all...)
		require.Len(t, turns, 1)
		require.Equal(t, "first", string(turns[0].Steps[0].Outcome))
		require.Equal(t, 1, counts.Unknown)
	})
	t.Run("a block of another form does not hide a result", func(t *testing.T) {
		t.Parallel()
		for _, other := range []string{`"a text"`, `7`, `null`, `{"type":"new","is_error":"no"}`} {
			turns, _ := lines(t, `{"role":"assistant","content":[`+other+`,{"type":"tool_use","id":"a","name":"Read"}]}`,
				`{"role":"user","content":[`+other+`,{"type":"tool_result","tool_use_id":"a","content":"b"}]}`)
			require.Len(t, turns, 1, other)
			require.Equal(t, "b", string(turns[0].Steps[0].Outcome), other)
		}
	})
	t.Run("a number is an ID", func(t *testing.T) {
		t.Parallel()
		turns, counts := lines(t, `{"role":"assistant","tool_calls":[{"id":0,"function":{"name":"a"}},`+
			`{"id":1,"function":{"name":"b"}}]}`,
			`{"role":"tool","tool_call_id":1,"content":"of b"}`, `{"role":"tool","tool_call_id":0,"content":"of a"}`)
		require.Len(t, turns, 1)
		require.Equal(t, "of a", string(turns[0].Steps[0].Outcome))
		require.Equal(t, "of b", string(turns[0].Steps[1].Outcome))
		require.Zero(t, counts.Unknown)
	})
	t.Run("messages of a person in a row are one turn", func(t *testing.T) {
		t.Parallel()
		turns, counts := lines(t, `{"role":"user","content":"One."}`, `{"role":"user","content":"Two."}`,
			`{"role":"assistant","content":"Three."}`, `{"role":"user","content":"Four."}`)
		require.Len(t, turns, 1)
		require.Equal(t, 1, counts.Persons)
	})
}

// mini-swe-agent puts what comes back into the user's role, and all else that it says to the model.
func TestTextAgent(t *testing.T) {
	t.Parallel()
	const calls = `{"role":"assistant","content":"I look.\n\n` + "```bash\\nls\\n```" + `"}`
	steps := func(turns []transcript.Turn) (tools []string) {
		for _, turn := range turns {
			if turn.Steps[0].Class == loop.Person {
				tools = append(tools, "person")
				continue
			}
			tools = append(tools, turn.Steps[0].Tool+" "+string(turn.Steps[0].Outcome))
		}
		return tools
	}
	task := `{"role":"user","content":"Look."}`
	turns, _ := lines(t, task, calls, `{"role":"user","content":"<returncode>0</returncode>"}`,
		`{"role":"assistant","content":"I think."}`, `{"role":"user","content":"Give one action."}`)
	require.Equal(t, []string{"person", "bash <returncode>0</returncode>"}, steps(turns))
	turns, _ = lines(t, task, calls, `{"role":"user","content":"face.go","extra":{"returncode":0}}`)
	require.Equal(t, []string{"person", "bash face.go"}, steps(turns))
	turns, _ = lines(t, task, calls, `{"role":"user","content":"Do not."}`)
	require.Equal(t, []string{"person"}, steps(turns), "a text with a command that nobody ran")
	turns, _ = lines(t, task, strings.Replace(calls, "I look.", "```bash\\npwd\\n```", 1),
		`{"role":"user","content":"<returncode>0</returncode>"}`)
	require.Equal(t, []string{"person"}, steps(turns), "two commands")
}

// The name of a tool is shown, so that it must not be a word of the command, which may be a secret.
func TestToolsOfEditors(t *testing.T) {
	t.Parallel()
	for action, tool := range map[string]string{
		"str_replace_editor view /clock/face.go": "view", "str_replace_editor undo_edit /clock/face.go": "undo_edit",
		"str_replace_editor /clock/secret": "str_replace_editor", "edit_anthropic secret": "edit_anthropic",
		"str_replace_editor": "str_replace_editor", "open face.go": "open", "secret": "bash",
	} {
		turns, _ := lines(t, `{"trajectory":[{"action":"`+action+`","observation":""}]}`)
		require.Len(t, turns, 1, action)
		require.Equal(t, tool, turns[0].Steps[0].Tool, action)
	}
}

func sample(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(data)
}

func TestNotASession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, data, says string }{
		{"nothing", "", "it is empty"},
		{"white space", " \n\r\n", "it is empty"},
		{"gzip", "\x1f\x8b\x08\x00", "compressed by gzip; unpack it first, as with gzip -d"},
		{"zstd", "\x28\xb5\x2f\xfd\x00", "zstd -d"},
		{"xz", "\xfd7zXZ\x00", "xz -d"},
		{"bzip2", "BZh91AY", "bzip2 -d"},
		{"a zip", "PK\x03\x04", "unzip"},
		{"a database", "SQLite format 3\x00", "have the agent export the session"},
		{"UTF-16, as a shell of Windows writes it", "\xff\xfe{\x00", "UTF-16; write it as UTF-8"},
		{"prose", "Exporting session: ses_1\n", "nothing of a session"},
		{"other JSON", `{"name":"clock","version":1}`, "nothing of a session"},
		{"other JSON lines", strings.Repeat("{\"level\":\"info\"}\n", 1000), "nothing of a session"},
		{"lists of numbers", "[1,2,3]", "nothing of a session"},
		{"an empty list", "[]", "it is empty"},
		{"a document that is cut off at once", `{"info":{"id":`, "cut off before there was a line"},
		{"lines of another agent, of a type that Codex has", `{"type":"message","message":{"role":"user"}}`,
			"nothing of a session"},
		{"messages of another agent", `{"role":"user","message":{"content":"hello"}}`, "nothing of a session"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			turns, _, err := read(strings.NewReader(c.data))
			require.ErrorIs(t, err, transcript.ErrFormat)
			require.ErrorContains(t, err, c.says)
			require.Empty(t, turns)
		})
	}
}

func TestReadError(t *testing.T) {
	t.Parallel()
	failed := errors.New("the disk is gone")
	all := sample(t, "codex.jsonl")
	turns, _, err := read(io.MultiReader(strings.NewReader(all), iotest.ErrReader(failed)))
	require.ErrorIs(t, err, failed)
	require.Len(t, turns, 9, "what was read before")
}

func TestUnknownLines(t *testing.T) {
	t.Parallel()
	const known = `{"type":"user","sessionId":"s","message":{"role":"user","content":"hello"}}` + "\n"
	for _, unknown := range []string{
		`{"type":"new-thing","sessionId":"s"}`,
		`{"type":"assistant","sessionId":"s"}`,
		`{"type":"user","sessionId":"s","message":{"content":[{"type":"tool_result","tool_use_id":"of no call"}]}}`,
		`{"type":"user","sessionId":"s","message":{"role":"user","content":"it was cu`,
		`{"type":"user","sessionId":"s",`,
		`{"type":"user" "sessionId":"s"}`,
		`not JSON`,
		`"a text"`,
		`]`,
		`{"type":"response_item","payload":{"type":"message"}}`,
	} {
		_, counts, err := read(strings.NewReader(strings.Repeat(known, 10) + unknown + "\n" + strings.Repeat(known, 9)))
		require.NoError(t, err, unknown)
		require.Equal(t, 20, counts.Lines, unknown)
		require.Equal(t, 1, counts.Unknown, unknown)
		_, _, err = read(strings.NewReader(strings.Repeat(known, 10) + unknown + "\n" + strings.Repeat(known, 8)))
		require.ErrorIs(t, err, transcript.ErrFormat, unknown)
		require.ErrorContains(t, err, "1 of its 19 lines are not known as lines of Claude Code")
	}
}

func TestCutOff(t *testing.T) {
	t.Parallel()
	for _, name := range samples(t) {
		all := strings.TrimSuffix(sample(t, strings.TrimPrefix(name, "testdata/")), "\n")
		whole, _, err := read(strings.NewReader(all))
		require.NoError(t, err)
		turns, counts, err := read(strings.NewReader(all[:len(all)-1]))
		require.NoError(t, err, name)
		require.True(t, counts.Cut, name)
		require.Equal(t, strings.Count(all, "seen-by-nobody"), counts.Unknown, "that line does not count as unknown")
		require.GreaterOrEqual(t, len(turns), len(whole)-1, name)
	}
}

func TestPersons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, line string
		person     bool
	}{
		{"typed", `{"type":"user","sessionId":"s","message":{"content":"Go on."}}`, true},
		{"a command", `{"type":"user","sessionId":"s","message":{"content":"<command-name>/test</command-name>"}}`, true},
		{"an image", `{"type":"user","sessionId":"s","message":{"content":[{"type":"image","source":{}}]}}`, true},
		{"with an open file", `{"type":"user","sessionId":"s","message":{"content":[{"type":"text",` +
			`"text":"<ide_opened_file>a.go</ide_opened_file>"},{"type":"text","text":"Go on."}]}}`, true},
		{"only an open file", `{"type":"user","sessionId":"s","message":{"content":[{"type":"text",` +
			`"text":"<ide_opened_file>a.go</ide_opened_file>"}]}}`, false},
		{"a notice", `{"type":"user","sessionId":"s","origin":{"kind":"task-notification"},` +
			`"message":{"content":"Done."}}`, false},
		{"meta", `{"type":"user","sessionId":"s","isMeta":true,"message":{"content":"Go on."}}`, false},
		{"a summary", `{"type":"user","sessionId":"s","isCompactSummary":true,"message":{"content":"We went on."}}`, false},
		{"of another agent", `{"type":"user","sessionId":"s","isSidechain":true,"message":{"content":"Go on."}}`, false},
		{"what a command printed", `{"type":"user","sessionId":"s","message":{"content":"<local-command-stdout>x"}}`, false},
		{"queued", `{"type":"attachment","sessionId":"s","attachment":{"type":"queued_command","prompt":"Stop."}}`, true},
		{"an event", `{"type":"event_msg","payload":{"type":"user_message","message":"Go on."}}`, true},
		{"the place in an event", `{"type":"event_msg","payload":{"type":"user_message","message":"x",` +
			`"kind":"environment_context"}}`, false},
		{"an item", `{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":` +
			`"input_text","text":"Go on."}]}}`, false},
		{"a chat", `{"role":"user","content":"Go on."}`, true},
	} {
		turns, _, err := read(strings.NewReader(c.line))
		require.NoError(t, err, c.what)
		require.Equal(t, c.person, len(turns) == 1 && turns[0].Steps[0].Class == loop.Person, c.what)
	}
}

// A line is never in memory more than a few times, and what is before it not at all.
func TestMemory(t *testing.T) {
	const line = 4 << 20
	huge := `{"type":"user","sessionId":"s","toolUseResult":"` + strings.Repeat("x", 4*line) +
		`","message":{"role":"user","content":"` + strings.Repeat("y", line) + "\"}}\n"
	in := make([]io.Reader, max(3, racing.Rounds(10, 10)))
	for i := range in {
		in[i] = strings.NewReader(huge)
	}
	r := transcript.NewReader(io.MultiReader(in...))
	most := uint64(0)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for err := error(nil); err == nil; {
		_, err = r.Next()
		runtime.GC()
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
	}
	require.Equal(t, len(in), r.Coverage().Lines)
	require.Less(t, most, uint64(6*line))
}

// A value that is too large for the memory is left out.
func TestTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 130 MB")
	}
	const known = `{"role":"user","content":"hello"}` + "\n"
	_, counts, err := read(io.MultiReader(strings.NewReader(strings.Repeat(known, 20)+`{"role":"user","content":"`),
		io.LimitReader(letters{}, 130<<20), strings.NewReader("\"}\n"+strings.Repeat(known, 20))))
	require.NoError(t, err)
	require.Equal(t, 41, counts.Lines)
	require.Equal(t, 1, counts.Unknown)
}

// letters is a text without an end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Many sub-agents at once, more than have an open turn at the same time, lose no call.
func TestManyAgents(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	const agents = 2500
	for i := range agents {
		fmt.Fprintf(&b, `{"type":"assistant","sessionId":"s","isSidechain":true,"uuid":"a%d","message":{"id":"m%d",`+
			`"content":[{"type":"tool_use","id":"c%d","name":"Read","input":{}}]}}`+"\n", i, i, i)
		fmt.Fprintf(&b, `{"type":"user","sessionId":"s","isSidechain":true,"uuid":"r%d","parentUuid":"a%d","message":`+
			`{"content":[{"type":"tool_result","tool_use_id":"c%d","content":""}]}}`+"\n", i, i, i)
	}
	turns, counts, err := read(strings.NewReader(b.String()))
	require.NoError(t, err)
	require.Len(t, turns, agents)
	require.Equal(t, agents, counts.Calls)
	require.Zero(t, counts.Unknown)
	for i, turn := range turns {
		require.Equal(t, fmt.Sprint("a", i), turn.Agent)
		require.Equal(t, 1, turn.Conversation)
	}
}

// The agent of a session is not forgotten for its sub-agents: its steps are counted on, and what it waits for comes.
func TestManyAgentsOfOne(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	const agents = 1100
	line := func(side bool, content string, args ...any) {
		fmt.Fprintf(&b, `{"sessionId":"s","isSidechain":%t,`+content+"}\n", append([]any{side}, args...)...)
	}
	for i := range agents {
		line(false, `"type":"assistant","message":{"content":[{"type":"tool_use","id":"t%d","name":"Task"}]}`, i)
		line(true, `"type":"assistant","agentId":"a%d","message":{"content":[{"type":"tool_use","id":"c","name":"Read"}]}`, i)
		line(true, `"type":"user","agentId":"a%d","message":{"content":[{"type":"tool_result","tool_use_id":"c"}]}`, i)
		line(false, `"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t%d"}]}`, i)
	}
	turns, counts, err := read(strings.NewReader(b.String()))
	require.NoError(t, err)
	require.Equal(t, 2*agents, counts.Calls)
	require.Zero(t, counts.Unanswered)
	require.Zero(t, counts.Unknown)
	number := 0
	for _, turn := range turns {
		if turn.Agent == "" {
			number++
			require.Equal(t, number, turn.First)
		}
	}
	require.Equal(t, agents, number)
}

// FuzzReader reads anything: it ends, its counts agree with its turns, and its turns do not depend on how it is read.
func FuzzReader(f *testing.F) {
	for _, name := range samples(f) {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(check)
}

func check(t *testing.T, data []byte) {
	t.Helper()
	turns, counts, err := read(bytes.NewReader(data))
	if err != nil && !errors.Is(err, transcript.ErrFormat) {
		t.Fatal(err)
	}
	calls, persons := tally(t, turns)
	if calls != counts.Calls || persons != counts.Persons || counts.Unknown > counts.Lines {
		t.Fatalf("%d calls, %d persons, and %+v of %q", calls, persons, counts, data)
	}
	again, _, _ := read(io.MultiReader(bytes.NewReader(data[:len(data)/2]), bytes.NewReader(data[len(data)/2:])))
	if len(again) != len(turns) {
		t.Fatalf("%d turns, %d in two pieces of %q", len(turns), len(again), data)
	}
}

// tally counts what the turns are.
func tally(t *testing.T, turns []transcript.Turn) (calls, persons int) {
	t.Helper()
	for _, turn := range turns {
		if turn.First < 1 || turn.Line < 1 || turn.Conversation < 1 || len(turn.Steps) == 0 {
			t.Fatalf("turn %+v", turn)
		}
		if turn.Steps[0].Class == "" {
			calls += len(turn.Steps)
		} else {
			persons++
		}
	}
	return calls, persons
}

// TestMutations reads the samples with bytes that were changed, left out, doubled, and brought from elsewhere.
func TestMutations(t *testing.T) {
	t.Parallel()
	for i, name := range samples(t) {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(27, uint64(i))) //nolint:gosec // it shall be the same each time
		for range racing.Rounds(300, 300) {
			check(t, mutated(random, data))
		}
	}
}

func mutated(random *rand.Rand, data []byte) []byte {
	data = bytes.Clone(data)
	for range 1 + random.IntN(4) {
		at := random.IntN(len(data))
		end := min(len(data), at+1+random.IntN(80))
		switch random.IntN(5) {
		case 0:
			data[at] = byte(random.UintN(256))
		case 1:
			data[at] = "{}[]\",:\\\n"[random.IntN(9)]
		case 2:
			data = append(data[:at], data[end:]...)
		case 3:
			data = append(data[:end], data[at:]...)
		default:
			from := random.IntN(len(data))
			copy(data[at:end], data[from:])
		}
		if len(data) == 0 {
			return data
		}
	}
	return data
}
