package usage_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// took is a usage that is all of what a call took in.
func took(input, output int64) usage.Result {
	return usage.Result{State: usage.Final, Usage: usage.Usage{Input: input, Output: output}}
}

// inputOf is the bound of a call's input.
func inputOf(tb testing.TB, call *usage.Call, past *usage.History) int64 {
	tb.Helper()
	bound, err := call.Bound(usage.Maximum{}, past)
	require.NoError(tb, err)
	return bound.Input
}

const (
	historySystem  = `"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"},{"type":"text","text":"be brief"}]`
	historyTools   = `"tools":[{"name":"f","description":"does f","input_schema":{"type":"object"}}]`
	historyHello   = `{"role":"user","content":"hello, this is the first message of a conversation"}`
	historyThought = `{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2lnbmVk"},{"type":"tool_use","id":"t1","name":"f","input":{"of":"x"}}]}`
	historyResult  = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"the result"}]}`
)

// historyCall is a call of Claude Code with the messages.
func historyCall(messages ...string) string {
	return `{"model":"claude-opus-5","max_tokens":4000,"stream":true,` + historySystem + `,` + historyTools +
		`,"messages":[` + strings.Join(messages, ",") + `]}`
}

// TestHistory has one call teach, and says how the bound of the next one is.
func TestHistory(t *testing.T) {
	first := historyCall(historyHello)
	const hash = int64(len("cch=0a1b2")) // it can be another one in each call
	for name, c := range map[string]struct {
		next  string
		taken int64 // what the bound has beside what the first call took in, -1 for the plain bound
	}{
		"the same call takes in the same": {first, 0},
		"marks of what is cached are no input": {
			strings.Replace(first, `"be brief"`, `"be brief","cache_control":{"type":"ephemeral"}`, 1), 0,
		},
		"nor is the hash that Claude Code has of a body, but for its own bytes": {
			strings.Replace(first, "cch=0a1b2", "cch=fffff", 1), 0,
		},
		"a text in its long form is the same": {
			strings.Replace(first, `"content":"hello, this is the first message of a conversation"`,
				`"content":[{"text":"hello, this is the first message of a conversation","type":"text"}]`, 1), 0,
		},
		"another maximum of output, and what is no input": {
			strings.Replace(first, `"max_tokens":4000`, `"max_tokens":9000,"temperature":0,"metadata":{"user_id":"x"}`, 1), 0,
		},
		"a part that was taken out subtracts nothing": {strings.Replace(first, `,{"type":"text","text":"be brief"}`, ``, 1), 0},
		"another model":             {strings.Replace(first, "opus-5", "opus-6", 1), -1},
		"another effort":            {strings.Replace(first, `"stream"`, `"output_config":{"effort":"low"},"stream"`, 1), -1},
		"another choice of tools":   {strings.Replace(first, `"stream"`, `"tool_choice":{"type":"any"},"stream"`, 1), -1},
		"thinking":                  {strings.Replace(first, `"stream"`, `"thinking":{"type":"adaptive"},"stream"`, 1), -1},
		"management of what it has": {strings.Replace(first, `"stream"`, `"context_management":{"edits":[]},"stream"`, 1), -1},
		"a field that nobody knows": {strings.Replace(first, `"stream"`, `"new_mode":"deep","stream"`, 1), -1},
	} {
		t.Run(name, func(t *testing.T) {
			past := new(usage.History)
			call := readCall(t, usage.Anthropic, first)
			plain := inputOf(t, call, past)
			past.Learn(call, took(123, 10))
			next := readCall(t, usage.Anthropic, c.next)
			want := 123 + hash + c.taken
			if c.taken < 0 {
				want = inputOf(t, readCall(t, usage.Anthropic, c.next), nil)
			}
			require.Greater(t, plain, int64(len(first)))
			require.Equal(t, want, inputOf(t, next, past))
		})
	}
	t.Run("messages that changed places take in the same", func(t *testing.T) {
		past := new(usage.History)
		other := strings.Replace(historyHello, "hello", "good day", 1)
		past.Learn(readCall(t, usage.Anthropic, historyCall(historyHello, other)), took(123, 10))
		require.Equal(t, 123+hash, inputOf(t, readCall(t, usage.Anthropic, historyCall(other, historyHello)), past))
	})
	t.Run("what is new counts by its bytes, and reasoning by what its answer was billed", func(t *testing.T) {
		past := new(usage.History)
		call := readCall(t, usage.Anthropic, first)
		inputOf(t, call, past)
		past.Learn(call, took(123, 700))
		next := historyCall(historyHello, historyThought, historyResult)
		got := inputOf(t, readCall(t, usage.Anthropic, next), past)
		added := int64(len(next) - len(first))
		require.Greater(t, got, 123+700+added/2)
		require.Less(t, got, 123+700+added+16*8)
		require.Greater(t, inputOf(t, readCall(t, usage.Anthropic, next), nil), int64(128_000), "else it can be a longest answer")
	})
	t.Run("also where a client has changed what is before it", func(t *testing.T) {
		past := new(usage.History)
		for _, said := range [][]string{{historyHello}, {historyHello, historyThought, historyResult}} {
			call := readCall(t, usage.Anthropic, historyCall(said...))
			inputOf(t, call, past)
			past.Learn(call, took(400, 700))
		}
		changed := strings.Replace(historyHello, "hello", "bye", 1)
		again := strings.NewReplacer("c2lnbmVk", "YW5vdGhlcg", "t1", "t2").Replace(historyThought)
		next := readCall(t, usage.Anthropic, historyCall(changed, historyThought, historyResult, again))
		require.Less(t, inputOf(t, next, past), int64(400+2*700+1000))
	})
	t.Run("an answer is at least what it was billed, whatever the client has kept of it", func(t *testing.T) {
		past := new(usage.History)
		long := `{"role":"user","content":"` + strings.Repeat("a long text ", 2000) + `"}`
		past.Learn(readCall(t, usage.Anthropic, historyCall(long)), took(123, 5000))
		next := readCall(t, usage.Anthropic, historyCall(long, `{"role":"assistant","content":"yes"}`))
		require.GreaterOrEqual(t, inputOf(t, next, past), 123+hash+5000)
	})
	t.Run("each part that is new has its bytes and sixteen", func(t *testing.T) {
		past := new(usage.History)
		past.Learn(readCall(t, usage.Anthropic, first), took(123, 10))
		const more = `{"role":"user","content":"one more"}` // a text, and a message
		require.GreaterOrEqual(t, inputOf(t, readCall(t, usage.Anthropic, historyCall(historyHello, more)), past),
			123+hash+int64(len(more))-8+2*16)
	})
	t.Run("a message that is shown for one turn is not known where it may have been gone", func(t *testing.T) {
		for at, known := range map[string]bool{"never": true, "next_user_message": false} {
			past := new(usage.History)
			note := `{"role":"system","content":"a note for this turn","clear_at":"` + at + `"}`
			later := []string{historyHello, note, `{"role":"assistant","content":"yes"}`, `{"role":"user","content":"go on"}`}
			past.Learn(readCall(t, usage.Anthropic, historyCall(later...)), took(123, 10))
			got := inputOf(t, readCall(t, usage.Anthropic, historyCall(historyHello, note)), past)
			require.Equal(t, known, got == 123+hash, at)
		}
	})
	t.Run("what the answer says nothing of is not learned", func(t *testing.T) {
		for name, result := range map[string]usage.Result{
			"nothing":                        {},
			"no input":                       took(0, 10),
			"what is cut off":                {State: usage.Partial, Usage: usage.Usage{Input: 5}},
			"what cannot be read to its end": {State: usage.Final, Unread: usage.Malformed, Usage: usage.Usage{Input: 5}},
			"several calls":                  {State: usage.Final, Rounds: true, Usage: usage.Usage{Input: 5}},
		} {
			past := new(usage.History)
			call := readCall(t, usage.Anthropic, first)
			plain := inputOf(t, call, past)
			past.Learn(call, result)
			require.Equal(t, plain, inputOf(t, readCall(t, usage.Anthropic, first), past), name)
		}
	})
	t.Run("but what Anthropic itself says before it answers is", func(t *testing.T) {
		past := new(usage.History)
		read := func() *usage.Call {
			req := httptest.NewRequest(http.MethodPost, "https://api.anthropic.com/v1/messages", nil)
			return usage.ReadCall(usage.RouteOf(http.MethodPost, "/v1/messages"), req, []byte(first))
		}
		past.Learn(read(), usage.Result{State: usage.Partial, Usage: usage.Usage{Input: 5, CacheRead: 70}})
		require.Equal(t, 75+hash, inputOf(t, read(), past))
	})
	t.Run("what was cleared before it was read was taken in", func(t *testing.T) {
		past := new(usage.History)
		result := took(100, 1)
		result.Cleared = 50
		past.Learn(readCall(t, usage.Anthropic, first), result)
		require.Equal(t, 150+hash, inputOf(t, readCall(t, usage.Anthropic, first), past))
	})
	t.Run("what was compacted is what that was billed", func(t *testing.T) {
		past := new(usage.History)
		compact := readAt(t, "/v1/responses/compact", `{"model":"gpt-6-sol","input":"a long conversation"}`)
		_, err := compact.Bound(usage.Maximum{}, past)
		require.NoError(t, err)
		past.Learn(compact, took(9000, 800))
		next := readCall(t, usage.Responses, `{"model":"gpt-6-sol","max_output_tokens":9,"input":[{"type":"compaction","encrypted_content":"x"}]}`)
		require.Less(t, inputOf(t, next, past), int64(800+1500))
		require.Greater(t, inputOf(t, next, nil), int64(128_000))
	})
}

// TestHistoryReasoning says which answers reasoning can be of: it must count with what the longest of them was billed.
func TestHistoryReasoning(t *testing.T) {
	next := historyCall(historyHello, historyThought)
	otherSystem := func(call string) string { return strings.Replace(call, "be brief", "be polite", 1) }
	for name, c := range map[string]struct {
		calls  []string
		billed []int64
		least  int64
		most   int64
	}{
		"the one before it": {[]string{historyCall(historyHello)}, []int64{700}, 700, 2000},
		"an earlier one with other settings": {
			[]string{otherSystem(historyCall(historyHello)), historyCall(historyHello)}, []int64{7000, 50}, 7000, 8500,
		},
		"a later one, where the client left out what was between": {
			[]string{historyCall(historyHello), historyCall(historyHello, `{"role":"assistant","content":"x"}`, `{"role":"user","content":"y"}`)},
			[]int64{50, 7000}, 7000, 8500,
		},
		"one that was made again": {
			[]string{historyCall(historyHello), historyCall(historyHello)}, []int64{7000, 50}, 7000, 8500,
		},
		"one of another model, whose tokens are others": {
			[]string{strings.Replace(historyCall(historyHello), "opus-5", "opus-6", 1)}, []int64{50}, 128_000, 132_000,
		},
		"none that is known": {nil, nil, 128_000, 132_000},
	} {
		t.Run(name, func(t *testing.T) {
			past := new(usage.History)
			for i, body := range c.calls {
				call := readCall(t, usage.Anthropic, body)
				inputOf(t, call, past)
				past.Learn(call, took(100, c.billed[i]))
			}
			got := inputOf(t, readCall(t, usage.Anthropic, next), past)
			require.Greater(t, got, c.least)
			require.Less(t, got, c.most)
		})
	}
}

// TestHistoryForgets protects a run of many calls: what it remembers has a bound, and the last ones are known.
func TestHistoryForgets(t *testing.T) {
	past := new(usage.History)
	var said []string
	for n := range 140 {
		for i := range 5 {
			said = append(said, fmt.Sprintf(`{"role":"user","content":"message %d"}`, 5*n+i))
		}
		call := readCall(t, usage.Anthropic, historyCall(said...))
		bound := inputOf(t, call, past)
		if n > 0 {
			require.Less(t, bound, int64(1000+9*n+500), n)
		}
		past.Learn(call, took(int64(1000+9*n), 5))
		require.LessOrEqual(t, usage.HistorySize(past), 256<<10)
	}
	require.Greater(t, usage.HistorySize(past), 128<<10, "it does forget")
	other := inputOf(t, readCall(t, usage.Anthropic, historyCall(said[:5]...)), past)
	require.Greater(t, other, int64(1000))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
