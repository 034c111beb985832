package usage_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

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
				bound, err := call.Bound(usage.Maximum{}, past)
				require.NoError(t, err)
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
