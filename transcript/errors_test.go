package transcript_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/transcript"
)

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
