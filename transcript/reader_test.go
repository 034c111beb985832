package transcript_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/golden"
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
