package usage_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

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
	for seed := range uint64(100) {
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
			bound, err := call.Bound(usage.Maximum{}, history)
			require.NoError(t, err)
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
				_, err := second.Bound(usage.Maximum{}, history)
				require.NoError(t, err)
				history.Learn(second, result)
			}
			a.answer(random, output)
		}
	}
	t.Logf("%d of %d bounds are less than twice what was taken in", near, near+far)
	require.Greater(t, near, far, "the history bounds most calls")
}
