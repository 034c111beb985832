package usage_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// took is a usage that is all of what a call took in.
func took(input, output int64) usage.Result {
	return usage.Result{State: usage.Final, Usage: usage.Usage{Input: input, Output: output}}
}

// inputOf is the bound of a call's input.
func inputOf(tb testing.TB, call *usage.Call, past *usage.History) int64 {
	tb.Helper()
	return boundOf(tb, call, usage.Maximum{}, past).Input
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
	t.Run("one that was made again takes in the most of either", func(t *testing.T) {
		past := new(usage.History)
		for _, input := range []int64{500, 123} {
			past.Learn(readCall(t, usage.Anthropic, first), took(input, 10))
		}
		require.Equal(t, 500+hash, inputOf(t, readCall(t, usage.Anthropic, first), past))
	})
	t.Run("reasoning of a call that was neither bounded nor answered is not known", func(t *testing.T) {
		past := new(usage.History)
		past.Learn(readCall(t, usage.Anthropic, historyCall(historyHello, historyThought)), usage.Result{})
		next := readCall(t, usage.Anthropic, historyCall(historyHello, historyThought, historyResult))
		require.Greater(t, inputOf(t, next, past), int64(128_000))
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
		bare := strings.NewReplacer(historySystem+",", "", historyTools+",", "")
		past.Learn(readCall(t, usage.Anthropic, bare.Replace(historyCall(historyHello, historyThought, historyResult))), took(9, 7))
		next = readCall(t, usage.Anthropic, bare.Replace(historyCall(changed, historyThought, historyResult)))
		require.Greater(t, inputOf(t, next, past), int64(9), "nothing is after the result, and nothing before the messages")
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
		boundOf(t, compact, usage.Maximum{}, past)
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

// A turn of an agent: what the model answers, and what its tool gives.
type agentTurn struct {
	id, says, args, result string
	signed                 string // reasoning that is encrypted
	reasoning              int64  // its tokens
}

type dict = map[string]any

// agentClients write the calls of a conversation as real clients do, each with a prompt and tools of 40,000 bytes.
var agentClients = map[string]struct {
	api  usage.API
	body func(prompt, tool string, n int, turns []agentTurn) dict
}{
	"Claude Code": {usage.Anthropic, claudeCode}, "Codex": {usage.Responses, codex},
	"Gemini CLI": {usage.Gemini, geminiCLI}, "AI SDK": {usage.Chat, aiSDK},
}

func claudeCode(prompt, tool string, n int, turns []agentTurn) dict {
	messages := []any{dict{"role": "user", "content": "do the work"}}
	for i, turn := range turns {
		result := dict{"type": "tool_result", "tool_use_id": turn.id, "content": turn.result}
		if i == len(turns)-1 { // what is cached moves on
			result["cache_control"] = dict{"type": "ephemeral"}
		}
		messages = append(messages, dict{"role": "assistant", "content": []any{
			dict{"type": "thinking", "thinking": "", "signature": turn.signed}, dict{"type": "text", "text": turn.says},
			dict{"type": "tool_use", "id": turn.id, "name": "tool0", "input": dict{"command": turn.args}},
		}}, dict{"role": "user", "content": []any{result}})
	}
	return dict{
		"model": "claude-opus-5-5", "max_tokens": 32000, "stream": true, "messages": messages,
		"thinking": dict{"type": "adaptive"}, "metadata": dict{"user_id": "u"}, "output_config": dict{"effort": "medium"},
		"context_management": dict{"edits": []any{dict{"type": "clear_thinking_20251015", "keep": "all"}}},
		"system": []any{
			dict{"type": "text", "text": fmt.Sprintf("x-anthropic-billing-header: cc_version=2.1; cch=%05x;", len(turns))},
			dict{"type": "text", "text": prompt, "cache_control": dict{"type": "ephemeral"}},
		},
		"tools": toolsOf(n, func(name string) dict {
			return dict{"name": name, "description": tool, "input_schema": dict{"type": "object"}}
		}),
	}
}

func codex(prompt, tool string, n int, turns []agentTurn) dict {
	input := []any{dict{"type": "message", "role": "user", "content": []any{dict{"type": "input_text", "text": "do it"}}}}
	for _, turn := range turns {
		input = append(input,
			dict{"type": "reasoning", "summary": []any{}, "encrypted_content": turn.signed},
			dict{"type": "message", "role": "assistant", "content": []any{dict{"type": "output_text", "text": turn.says}}},
			dict{"type": "function_call", "call_id": turn.id, "name": "tool0", "arguments": turn.args},
			dict{"type": "function_call_output", "call_id": turn.id, "output": turn.result})
	}
	return dict{
		"model": "gpt-6.2-sol", "max_output_tokens": 32000, "stream": true, "store": false, "instructions": prompt,
		"input": input, "include": []string{"reasoning.encrypted_content"}, "reasoning": dict{"effort": "medium"},
		"tools": toolsOf(n, func(name string) dict {
			return dict{"type": "function", "name": name, "description": tool, "parameters": dict{"type": "object"}}
		}),
	}
}

func geminiCLI(prompt, tool string, n int, turns []agentTurn) dict {
	contents := []any{dict{"role": "user", "parts": []any{dict{"text": "do the work"}}}}
	for _, turn := range turns {
		contents = append(contents, dict{"role": "model", "parts": []any{dict{"text": turn.says}, dict{
			"functionCall": dict{"name": "tool0", "args": dict{"command": turn.args}}, "thoughtSignature": turn.signed,
		}}}, dict{"role": "user", "parts": []any{
			dict{"functionResponse": dict{"id": turn.id, "name": "tool0", "response": dict{"output": turn.result}}},
		}})
	}
	return dict{
		"contents": contents, "systemInstruction": dict{"role": "user", "parts": []any{dict{"text": prompt}}},
		"generationConfig": dict{"maxOutputTokens": 32000, "thinkingConfig": dict{"includeThoughts": true}},
		"tools": []any{dict{"functionDeclarations": toolsOf(n, func(name string) dict {
			return dict{"name": name, "description": tool}
		})}},
	}
}

func aiSDK(prompt, tool string, n int, turns []agentTurn) dict {
	messages := []any{dict{"role": "system", "content": prompt}, dict{"role": "user", "content": "do the work"}}
	for _, turn := range turns {
		messages = append(messages, dict{"role": "assistant", "content": turn.says, "tool_calls": []any{dict{
			"id": turn.id, "type": "function", "function": dict{"name": "tool0", "arguments": turn.args},
		}}}, dict{"role": "tool", "tool_call_id": turn.id, "content": turn.result})
	}
	return dict{
		"model": "gpt-6.2-sol", "max_completion_tokens": 32000, "messages": messages,
		"tools": toolsOf(n, func(name string) dict {
			return dict{"type": "function", "function": dict{"name": name, "description": tool}}
		}),
	}
}

func toolsOf(n int, of func(name string) dict) (all []any) {
	for i := range n {
		all = append(all, of(fmt.Sprint("tool", i)))
	}
	return all
}

// TestBoundNear measures how near the bound of a call is to what it takes in: of conversations of 40 turns, with
// results of up to 4,000 bytes, and four bytes to a token.
func TestBoundNear(t *testing.T) {
	for name, client := range agentClients {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			words := func(n int) string { return strings.Repeat("some words of text ", n/19+1)[:1+random.IntN(n)] }
			prompt, tool := strings.Repeat("a system prompt. ", 700), strings.Repeat("what it does. ", 125)
			past, first, ratios := new(usage.History), 0.0, []float64(nil)
			var turns []agentTurn
			for n := range 40 {
				body, err := json.Marshal(client.body(prompt, tool, 16, turns))
				require.NoError(t, err)
				used := int64(500 + len(body)/4) // with a hidden prompt
				for _, turn := range turns {
					used += turn.reasoning - int64(len(turn.signed)/4)
				}
				call := readCall(t, client.api, string(body))
				require.Empty(t, call.Unknown())
				bound := boundOf(t, call, usage.Maximum{}, past)
				require.GreaterOrEqual(t, bound.Input, used)
				if ratio := float64(bound.Input) / float64(used); n == 0 {
					first = ratio
				} else {
					ratios = append(ratios, ratio)
				}
				next := agentTurn{
					id: fmt.Sprint("call_", n), says: words(200), args: words(300), result: words(4000),
					signed: strings.Repeat("c2ln", 100), reasoning: random.Int64N(800),
				}
				if client.api == usage.Chat {
					next.signed, next.reasoning = "", 0
				}
				next.signed += fmt.Sprint(n)
				said := int64(len(next.says)+len(next.args))/4 + next.reasoning
				past.Learn(call, usage.Result{State: usage.Final, Usage: usage.Usage{Input: used, Output: said + 20}})
				turns = append(turns, next)
			}
			slices.Sort(ratios)
			median, worst := ratios[len(ratios)/2], ratios[len(ratios)-1]
			t.Logf("bound / used: %.2f the first, then %.2f the median, %.2f the worst", first, median, worst)
			require.Less(t, median, 1.15)
			require.Less(t, worst, 1.5)
		})
	}
}

// A modelBlock is a part of a conversation as the model API of the test has it. Its tokens are at most its bytes, but
// those of reasoning, of which there are as many as the model made.
type modelBlock struct {
	kind   string // text, thinking, tool_use or tool_result
	text   string
	tokens int64 // of thinking
}

type modelMessage struct {
	role   string
	blocks []modelBlock
}

// An agent has a conversation, and what is beside it in each of its calls.
type agent struct {
	system, effort string
	tools          []string
	messages       []modelMessage
}

// A modelAPI says what a call takes in, by rules that the history does not know.
type modelAPI struct {
	strips bool // it leaves out the reasoning before the last message of the user
	mixed  bool // for that a message with results of tools, too, is one of the user if it has a text
}

// tokensOf are those of a text: some number up to its bytes, always the same.
func tokensOf(text string) int64 {
	sum := fnv.New64a()
	fmt.Fprint(sum, text)
	return int64(sum.Sum64() % uint64(len(text)+1))
}

func (m modelAPI) input(a *agent) int64 {
	hidden := fmt.Sprint("hidden prompt ", strings.Repeat("x", 900), a.effort, len(a.tools) > 0)
	total := tokensOf(hidden) + tokensOf(a.system)
	for _, tool := range a.tools {
		total += tokensOf(tool)
	}
	last := -1
	for i, message := range a.messages {
		if message.role == "user" && m.own(message) {
			last = i
		}
	}
	for i, message := range a.messages {
		total += 7 + tokensOf(message.role)
		for _, block := range message.blocks {
			switch {
			case block.kind != "thinking":
				total += tokensOf(block.kind + block.text)
			case !m.strips || i > last:
				total += block.tokens
			}
		}
	}
	return total
}

// own reports whether the message is one of the user's own.
func (m modelAPI) own(message modelMessage) bool {
	is := func(kind string) func(modelBlock) bool { return func(b modelBlock) bool { return b.kind == kind } }
	return !slices.ContainsFunc(message.blocks, is("tool_result")) ||
		m.mixed && slices.ContainsFunc(message.blocks, is("text"))
}

// anthropicBody writes the call of an agent. Clients move the marks of what is cached, and write a text in two forms.
func (a *agent) anthropicBody(random *rand.Rand) string {
	var messages []any
	mark := func(block map[string]any) map[string]any {
		if random.IntN(4) == 0 {
			block["cache_control"] = map[string]string{"type": "ephemeral"}
		}
		return block
	}
	for _, message := range a.messages {
		var blocks []any
		for _, b := range message.blocks {
			if b.kind == "thinking" {
				blocks = append(blocks, b.json())
			} else {
				blocks = append(blocks, mark(b.json()))
			}
		}
		of := map[string]any{"role": message.role, "content": blocks}
		if len(blocks) == 1 && message.blocks[0].kind == "text" && random.IntN(2) == 0 {
			of["content"] = message.blocks[0].text
		}
		messages = append(messages, of)
	}
	var tools []any
	for _, tool := range a.tools {
		tools = append(tools, map[string]any{"name": "f", "description": tool})
	}
	body, err := json.Marshal(map[string]any{
		"model": "claude-opus-4-8", "max_tokens": 3000, "messages": messages, "tools": tools,
		"system":        []any{mark(map[string]any{"type": "text", "text": a.system})},
		"output_config": map[string]string{"effort": a.effort},
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// json is the block as Anthropic's API takes it.
func (b modelBlock) json() map[string]any {
	switch b.kind {
	case "thinking":
		return map[string]any{"type": b.kind, "thinking": "", "signature": b.text}
	case "tool_use":
		return map[string]any{"type": b.kind, "id": "t", "name": "f", "input": map[string]string{"of": b.text}}
	case "tool_result":
		return map[string]any{"type": b.kind, "tool_use_id": "t", "content": b.text}
	}
	return map[string]any{"type": b.kind, "text": b.text}
}

// change changes something that a client can change.
func (a *agent) change(random *rand.Rand) {
	switch what := random.IntN(9); what {
	case 5:
		a.system = sometext(random)
	case 6:
		a.tools = append(a.tools, sometext(random))
	case 7:
		a.tools = nil
	case 8:
		a.effort = []string{"low", "high"}[random.IntN(2)]
	default:
		a.changeMessages(random, what)
	}
}

func (a *agent) changeMessages(random *rand.Rand, what int) {
	at := random.IntN(len(a.messages))
	blocks := &a.messages[at].blocks
	switch what {
	case 0: // a message goes
		if len(a.messages) > 1 {
			a.messages = slices.Delete(a.messages, at, at+1)
		}
	case 1: // a block goes
		if len(*blocks) > 0 {
			i := random.IntN(len(*blocks))
			*blocks = slices.Delete(*blocks, i, i+1)
		}
	case 2: // a result is cleared
		for i := range *blocks {
			if (*blocks)[i].kind == "tool_result" {
				(*blocks)[i].text = "cleared"
			}
		}
	case 3: // two messages change places
		before := max(0, at-1)
		a.messages[at], a.messages[before] = a.messages[before], a.messages[at]
	case 4: // a reminder comes
		if a.messages[at].role == "user" {
			*blocks = append(*blocks, modelBlock{kind: "text", text: sometext(random)})
		}
	}
}

func sometext(random *rand.Rand) string {
	return fmt.Sprint(random.Uint64()) + strings.Repeat("words ", random.IntN(200))
}

// answer goes on with the model's answer, which was so many tokens, and what the user says to it.
func (a *agent) answer(random *rand.Rand, output int64) {
	answer := modelMessage{role: "assistant"}
	if random.IntN(2) == 0 {
		answer.blocks = append(answer.blocks, modelBlock{
			kind: "thinking", text: sometext(random)[:9], tokens: random.Int64N(output + 1),
		})
	}
	user := modelMessage{role: "user", blocks: []modelBlock{{kind: "text", text: sometext(random)}}}
	if random.IntN(3) > 0 {
		answer.blocks = append(answer.blocks, modelBlock{kind: "tool_use", text: sometext(random)})
		user.blocks[0].kind = "tool_result"
	} else {
		answer.blocks = append(answer.blocks, modelBlock{kind: "text", text: sometext(random)})
	}
	a.messages = append(a.messages, answer, user)
}

// TestHistoryModel holds the bound of each call against what the model of the test takes in: agents with conversations
// that grow and are changed share one history, and their answers are of every kind.
func TestHistoryModel(t *testing.T) {
	var near, far int
	for seed := range racing.Rounds[uint64](100, 100) {
		random := rand.New(rand.NewPCG(seed, 1))
		model := modelAPI{strips: random.IntN(2) == 0, mixed: random.IntN(2) == 0}
		history := new(usage.History)
		agents := make([]*agent, 3)
		for i := range agents {
			agents[i] = &agent{
				system: sometext(random), effort: "low", tools: []string{sometext(random), sometext(random)},
				messages: []modelMessage{{"user", []modelBlock{{kind: "text", text: sometext(random)}}}},
			}
		}
		for range 60 {
			a := agents[random.IntN(len(agents))]
			if random.IntN(4) == 0 {
				a.change(random)
			}
			if random.IntN(20) == 0 { // it goes on where another one is
				other := agents[random.IntN(len(agents))]
				a.messages = slices.Clone(other.messages)
				for i := range a.messages {
					a.messages[i].blocks = slices.Clone(a.messages[i].blocks)
				}
			}
			call := readCall(t, usage.Anthropic, a.anthropicBody(random))
			bound := boundOf(t, call, usage.Maximum{}, history)
			took := model.input(a)
			require.LessOrEqual(t, took, bound.Input, "seed %d", seed)
			if bound.Input < 2*took {
				near++
			} else {
				far++
			}
			output := random.Int64N(3000)
			result := usage.Result{State: usage.Final, Usage: usage.Usage{Output: output}}
			result.Usage.Input = random.Int64N(took + 1)
			result.Usage.CacheRead = took - result.Usage.Input
			again := random.IntN(10) == 0 // the client asks again, and takes what either answer was
			switch random.IntN(10) {
			case 0:
				result = usage.Result{}
			case 1:
				result.Unread = usage.Encoded
			case 2:
				result.State, result.Usage.Output = usage.Partial, 1
			}
			history.Learn(call, result)
			if again {
				result.Usage.Output = random.Int64N(3000)
				second := readCall(t, usage.Anthropic, a.anthropicBody(random))
				boundOf(t, second, usage.Maximum{}, history)
				history.Learn(second, result)
			}
			a.answer(random, output)
		}
	}
	t.Logf("%d of %d bounds are less than twice what was taken in", near, near+far)
	require.Greater(t, near, far, "the history bounds most calls")
}
