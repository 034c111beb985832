package usage_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

// canary stands for all text of prompts and answers. Nothing that is kept may have it.
const canary = "c4n4ry-of-a-secret"

// A sample is a response as one of the APIs sends it, and what is to be read of it.
type sample struct {
	name string
	api  usage.API
	body string
	want usage.Result
}

// samples are written by hand after the public types of the SDKs.
var samples = []sample{
	{
		"an Anthropic message, whose classes of input add up", usage.Anthropic,
		`{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text",
		"text":"` + canary + ` \"usage\":{\"input_tokens\":7} \\"},{"type":"tool_use","id":"t","name":"f","input":{"usage":
		{"input_tokens":999},"model":"x"}}],"stop_reason":"end_turn","usage":{"input_tokens":10,
		"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":100,
		"ephemeral_1h_input_tokens":200},"output_tokens":50,"output_tokens_details":{"thinking_tokens":20},
		"server_tool_use":{"web_search_requests":3,"web_fetch_requests":1,"future_requests":2},"service_tier":"priority",
		"inference_geo":"us"}}`,
		usage.Result{State: usage.Final, Model: "claude-sonnet-4-5", Usage: usage.Usage{
			Input: 10, CacheWrite5m: 100, CacheWrite1h: 200, CacheRead: 4000, Output: 50, Reasoning: 20, Tier: "priority",
			Tools: requests(map[usage.Tool]int64{usage.WebSearch: 3, usage.WebFetch: 1, usage.OtherTool: 2}),
		}},
	},
	{
		"an Anthropic message without a cache's lifetime, without the optional fields", usage.Anthropic,
		`{"model":"m","usage":{"output_tokens":5,"input_tokens":1,"cache_creation_input_tokens":30,
		"cache_read_input_tokens":null,"server_tool_use":null,"cache_creation":null,"speed":"fast"},"stop_reason":null}`,
		usage.Result{State: usage.Final, Model: "m", Usage: usage.Usage{Input: 1, CacheWrite: 30, Output: 5, Tier: "fast"}},
	},
	{
		"an Anthropic stream, whose deltas are running totals", usage.Anthropic,
		anthropicStart + anthropicDelta + anthropicDelta +
			`event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":120,"input_tokens":27,"cache_read_input_tokens":400,"server_tool_use":{"web_search_requests":2}}}

event: message_stop
data: {"type":"message_stop"}

`,
		usage.Result{State: usage.Final, Model: "claude-opus-4-1", Usage: usage.Usage{
			Input: 27, CacheWrite5m: 60, CacheRead: 400, Output: 120, Tier: "standard",
			Tools: requests(map[usage.Tool]int64{usage.WebSearch: 2}),
		}},
	},
	{
		"an Anthropic stream that was cut off", usage.Anthropic,
		anthropicStart + anthropicDelta,
		usage.Result{State: usage.Partial, Model: "claude-opus-4-1", Usage: usage.Usage{
			Input: 25, CacheWrite5m: 60, CacheRead: 300, Output: 1, Tier: "standard",
		}},
	},
	{
		"an Anthropic message that was compacted and cleared before, and was cut at its maximum", usage.Anthropic,
		`{"model":"m","stop_reason":"max_tokens","context_management":{"applied_edits":[{"type":"clear_tool_uses_20250919",
		"cleared_input_tokens":40},{"cleared_input_tokens":2}]},"usage":{"input_tokens":10,"output_tokens":5,"iterations":[
		{"type":"compaction","input_tokens":100,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":30},
		{"type":"message","input_tokens":10,"output_tokens":5}]}}`,
		usage.Result{State: usage.Final, Model: "m", Cleared: 42, Cut: true, Rounds: true, Usage: usage.Usage{
			Input: 133, Output: 35,
		}},
	},
	{
		"an Anthropic stream that tells its rounds twice", usage.Anthropic,
		`data: {"message":{"usage":{"input_tokens":10,"output_tokens":5,"iterations":[{"type":"compaction","input_tokens":7}]}}}

data: {"delta":{"stop_reason":null},"context_management":{"applied_edits":[{"cleared_input_tokens":9}]},"usage":{"iterations":[{"input_tokens":8}]}}

data: {"usage":{"output_tokens":6},"delta":{"stop_reason":"end_turn"}}

`,
		usage.Result{State: usage.Final, Cleared: 9, Rounds: true, Usage: usage.Usage{Input: 18, Output: 6}},
	},
	{
		"an Anthropic event with usage in two places, of which the later counts", usage.Anthropic,
		`{"usage":{"input_tokens":5,"output_tokens":2,"server_tool_use":{"web_search_requests":2},"iterations":[{"input_tokens":
		1}]},"message":{"usage":{"output_tokens":3,"server_tool_use":{"web_search_requests":2},"iterations":[{"input_tokens":
		1}]}}}`,
		usage.Result{State: usage.Final, Rounds: true, Usage: usage.Usage{
			Input: 6, Output: 3, Tools: requests(map[usage.Tool]int64{usage.WebSearch: 2}),
		}},
	},
	{
		"a response with usage in one of two places", usage.Responses,
		`{"type":"response.completed","response":{"usage":{"input_tokens":7}},"usage":null}`,
		usage.Result{State: usage.Final, Usage: usage.Usage{Input: 7}},
	},
	{
		"a chat completion that was cut at its maximum in one of its choices", usage.Chat,
		`{"choices":[{"finish_reason":"stop"},{"finish_reason":"length"},{}],"usage":{"prompt_tokens":1}}`,
		usage.Result{State: usage.Final, Cut: true, Usage: usage.Usage{Input: 1}},
	},
	{
		"a response of compaction, of which nothing but its object says that it is over", usage.Responses,
		`{"object":"response.compaction","usage":{"input_tokens":7,"output_tokens":2}}`,
		usage.Result{State: usage.Final, Usage: usage.Usage{Input: 7, Output: 2}},
	},
	{
		"a Gemini stream that was cut at its maximum before its last usage", usage.Gemini,
		`[{"candidates":[{"finishReason":"MAX_TOKENS"}],"usageMetadata":{"candidatesTokenCount":3}},` +
			`{"usageMetadata":{"candidatesTokenCount":4}}]`,
		usage.Result{State: usage.Final, Cut: true, Usage: usage.Usage{Output: 4}},
	},
	{
		"an Anthropic error", usage.Anthropic,
		`{"type":"error","error":{"type":"invalid_request_error","message":"` + canary + `"}}`, usage.Result{},
	},
	{
		"a chat completion, whose cached tokens are inside the prompt", usage.Chat,
		`{"id":"c","object":"chat.completion","model":"gpt-5.6","choices":[{"index":0,"message":{"role":"assistant",
		"content":"` + canary + `{\"usage\":{\"prompt_tokens\":1}}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,
		"completion_tokens":200,"total_tokens":1200,"prompt_tokens_details":{"cached_tokens":600,"cache_write_tokens":100,
		"audio_tokens":40,"image_tokens":30},"completion_tokens_details":{"reasoning_tokens":150,"audio_tokens":20,
		"accepted_prediction_tokens":0}},"service_tier":"flex","system_fingerprint":"fp"}`,
		usage.Result{State: usage.Final, Model: "gpt-5.6", Usage: usage.Usage{
			Input: 300, CacheWrite: 100, CacheRead: 600, Output: 200, Reasoning: 150, Tier: "flex",
			InputBy:  by(map[usage.Modality]int64{usage.Audio: 40, usage.Image: 30}),
			OutputBy: by(map[usage.Modality]int64{usage.Audio: 20}),
		}},
	},
	{
		"a chat stream with usage in its last chunk", usage.Chat,
		chatChunk + chatChunk +
			`data: {"id":"c","object":"chat.completion.chunk","model":"gpt-4o-2024-08-06","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]

`,
		usage.Result{State: usage.Final, Model: "gpt-4o-2024-08-06", Usage: usage.Usage{Input: 9, Output: 12}},
	},
	{
		"a chat stream without usage", usage.Chat, chatChunk + chatChunk + "data: [DONE]\n\n", usage.Result{},
	},
	{
		"a chat stream of a compatible server, which sends running totals and leaves reasoning out", usage.Chat,
		"data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"total_tokens\":10}}\n\n" +
			"data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":52," +
			"\"completion_tokens_details\":{\"reasoning_tokens\":40}}}\n\n",
		usage.Result{State: usage.Final, Usage: usage.Usage{Input: 9, Output: 43, Reasoning: 40}},
	},
	{
		"a response with tools of the API's own", usage.Responses,
		`{"id":"r","object":"response","status":"completed","model":"gpt-5","output":[{"type":"web_search_call","status":
		"completed"},{"type":"function_call","arguments":"{\"usage\":{}}"},{"type":"web_search_call"},{"type":"mcp_call"},
		{"type":"message","content":[{"type":"output_text","text":"` + canary + `"}]}],"service_tier":"default","usage":{
		"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":40,"output_tokens_details":{
		"reasoning_tokens":32},"total_tokens":140}}`,
		usage.Result{State: usage.Final, Model: "gpt-5", Usage: usage.Usage{
			Input: 36, CacheRead: 64, Output: 40, Reasoning: 32, Tier: "default",
			Tools: requests(map[usage.Tool]int64{usage.WebSearch: 2, usage.MCP: 1}),
		}},
	},
	{
		"a response that runs in the background", usage.Responses,
		`{"id":"r","status":"queued","model":"gpt-5","output":[],"usage":null}`, usage.Result{},
	},
	{
		"a stream of a response that is incomplete", usage.Responses,
		responsesStart +
			`event: response.incomplete
data: {"type":"response.incomplete","sequence_number":9,"response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"model":"gpt-5","output":[],"usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":2},"output_tokens":16,"output_tokens_details":{"reasoning_tokens":16},"total_tokens":28}}}

`,
		usage.Result{State: usage.Final, Cut: true, Model: "gpt-5", Usage: usage.Usage{
			Input: 10, CacheRead: 2, Output: 16, Reasoning: 16,
		}},
	},
	{"a stream of a response that was cut off", usage.Responses, responsesStart, usage.Result{}},
	{
		"a Gemini response, whose thoughts and tools come on top", usage.Gemini,
		`{"candidates":[{"content":{"parts":[{"text":"` + canary + `"}],"role":"model"},"finishReason":"STOP",
		"groundingMetadata":{"webSearchQueries":["` + canary + `","b"]}}],"usageMetadata":{"promptTokenCount":100,
		"cachedContentTokenCount":30,"candidatesTokenCount":20,"thoughtsTokenCount":300,"toolUsePromptTokenCount":50,
		"totalTokenCount":470,"promptTokensDetails":[{"modality":"TEXT","tokenCount":60},{"tokenCount":40,"modality":
		"AUDIO"}],"cacheTokensDetails":[{"modality":"AUDIO","tokenCount":25}],"candidatesTokensDetails":[{"modality":"IMAGE",
		"tokenCount":15}],"trafficType":"ON_DEMAND"},"modelVersion":"gemini-2.5-pro"}`,
		usage.Result{State: usage.Final, Model: "gemini-2.5-pro", Usage: usage.Usage{
			Input: 120, CacheRead: 30, Output: 320, Reasoning: 300, Tier: "on_demand",
			InputBy:     by(map[usage.Modality]int64{usage.Audio: 15}),
			CacheReadBy: by(map[usage.Modality]int64{usage.Audio: 25}),
			OutputBy:    by(map[usage.Modality]int64{usage.Image: 15}),
			Tools:       requests(map[usage.Tool]int64{usage.GoogleSearch: 2}),
		}},
	},
	{
		"a Gemini response with details of which each is for itself", usage.Gemini,
		`{"usageMetadata":{"promptTokenCount":9,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":5},{"tokenCount":2},
		{"modality":"AUDIO"}]}}`,
		usage.Result{State: usage.Final, Usage: usage.Usage{
			Input: 9, InputBy: by(map[usage.Modality]int64{usage.Audio: 5}),
		}},
	},
	{
		"a Gemini response without a total", usage.Gemini,
		`{"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":20,"thoughtsTokenCount":300}}`,
		usage.Result{State: usage.Final, Usage: usage.Usage{Input: 100, Output: 320, Reasoning: 300}},
	},
	{
		"a Gemini stream of events, with CRLF, each with running totals", usage.Gemini,
		"data: " + geminiChunk(5) + "\r\n\r\ndata: " + geminiChunk(25) + "\r\n\r\n",
		usage.Result{State: usage.Final, Model: "gemini-3-flash", Usage: usage.Usage{Input: 8, Output: 25}},
	},
	{
		"a Gemini stream as an array", usage.Gemini, "[" + geminiChunk(5) + "\n,\r\n" + geminiChunk(25) + "\n]\n",
		usage.Result{State: usage.Final, Model: "gemini-3-flash", Usage: usage.Usage{Input: 8, Output: 25}},
	},
	{
		"a Gemini array that was cut off", usage.Gemini, "[" + geminiChunk(5) + "\n,\r\n" + geminiChunk(25) + "\n",
		usage.Result{State: usage.Partial, Model: "gemini-3-flash", Usage: usage.Usage{Input: 8, Output: 25}},
	},
}

const anthropicStart = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-1","content":[],"stop_reason":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":60,"cache_read_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}}}

event: ping
data: {"type": "ping"}

`

const anthropicDelta = `event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + canary + ` {\"usage\": {\"output_tokens\": 9}}"}}

`

const chatChunk = `data: {"id":"c","object":"chat.completion.chunk","model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{"content":"` + canary + `"},"finish_reason":null}],"usage":null}

`

const responsesStart = `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"r","status":"in_progress","model":"gpt-5","output":[],"usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":1,"delta":"` + canary + `"}

`

func geminiChunk(output int) string {
	return `{"candidates": [{"content": {"parts": [{"text": "` + canary + `"}],"role": "model"}}],"usageMetadata": ` +
		`{"promptTokenCount": 8,"candidatesTokenCount": ` + strconv.Itoa(output) +
		`},"modelVersion": "gemini-3-flash"}`
}

// BenchmarkFeed reads a stream in chunks of 4 KiB, cut anywhere: of short deltas as models send them, of long ones, and
// a long plain answer.
func BenchmarkFeed(b *testing.B) {
	const chunk = 4 << 10
	escaped := strings.Repeat(`line of text\nwith \"quotes\" `, 200)
	for _, body := range []struct {
		name string
		api  usage.API
		text string
	}{
		{"Anthropic,tokens", usage.Anthropic, strings.Repeat(anthropicDelta, 2000)},
		{"Chat,tokens", usage.Chat, strings.Repeat(chatChunk, 2000)},
		{"Gemini,chunks", usage.Gemini, strings.Repeat("data: "+geminiChunk(5)+"\r\n\r\n", 2000)},
		{"Anthropic,4KiB", usage.Anthropic, strings.Repeat("data: {\"delta\":\""+strings.Repeat("x", chunk-20)+"\"}\n\n", 200)},
		{"Anthropic,plain", usage.Anthropic, `{"content":[{"text":"` + strings.Repeat(escaped, 100) + `"}`},
		{"Anthropic,arrays", usage.Anthropic, `{"content":` + strings.Repeat("[1,2,", 200000)},
	} {
		b.Run("of="+body.name, func(b *testing.B) {
			text := []byte(body.text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r := usage.NewReader(body.api, "")
				for rest := text; len(rest) > 0; rest = rest[min(chunk, len(rest)):] {
					r.Feed(rest[:min(chunk, len(rest))])
				}
				r.End(true)
			}
		})
	}
}

// BenchmarkFeedWhole reads 4 MiB at once: the time of each part must not depend on what comes after it.
func BenchmarkFeedWhole(b *testing.B) {
	for name, part := range map[string]string{
		"escapes": `{"content":"` + strings.Repeat(`\n`, 1<<20) + `"`, "returns": strings.Repeat("data: {}\r", 1<<19),
		"braces": strings.Repeat(`data: {"a":{"b":{}}}`+"\n\n", 1<<18), "unended": "data: " + strings.Repeat("{", 1<<22),
	} {
		b.Run("of="+name, func(b *testing.B) {
			body := []byte(part)
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				read(usage.Anthropic, "", body)
			}
		})
	}
}

// placesOfMessages are those of the two APIs that take messages.
var placesOfMessages = map[string]string{
	"body":    `{"model":"m","max_tokens":9,"messages":[],%s}`,
	"message": `{"model":"m","max_tokens":9,"messages":[{"role":%q,%s}]}`,
	"block":   `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":%q,%s}]}]}`,
	"tool":    `{"model":"m","max_tokens":9,"messages":[],"tools":[{"type":%q,%s}]}`,
}

// places are where the fields of the golden lists stand in a request: after "%s" for the type, if there is one, comes
// the field.
var places = map[usage.API]map[string]string{
	usage.Anthropic: placesOfMessages, usage.Chat: placesOfMessages,
	usage.Responses: {
		"body":    `{"model":"m","max_output_tokens":9,"input":"x",%s}`,
		"compact": `{"model":"m","input":"x",%s}`,
		"item":    `{"model":"m","max_output_tokens":9,"input":[{"type":%q,%s}]}`,
		"block":   `{"model":"m","max_output_tokens":9,"input":[{"role":"user","content":[{"type":%q,%s}]}]}`,
		"tool":    `{"model":"m","max_output_tokens":9,"input":"x","tools":[{"type":%q,%s}]}`,
	},
	usage.Gemini: {
		"body":     `{"contents":[],"generationConfig":{"maxOutputTokens":9},%s}`,
		"config":   `{"contents":[],"generationConfig":{"maxOutputTokens":9,%s}}`,
		"thinking": `{"contents":[],"generationConfig":{"maxOutputTokens":9,"thinkingConfig":{%s}}}`,
		"content":  `{"contents":[{%s}],"generationConfig":{"maxOutputTokens":9}}`,
		"part":     `{"contents":[{"parts":[{%s}]}],"generationConfig":{"maxOutputTokens":9}}`,
		"response": `{"contents":[{"parts":[{"functionResponse":{%s}}]}],"generationConfig":{"maxOutputTokens":9}}`,
		"blob":     `{"contents":[{"parts":[{"inlineData":{%s}}]}],"generationConfig":{"maxOutputTokens":9}}`,
		"function": `{"contents":[],"tools":[{"functionDeclarations":[{%s}]}],"generationConfig":{"maxOutputTokens":9}}`,
		"tool":     `{"contents":[],"tools":[{%s}],"generationConfig":{"maxOutputTokens":9}}`,
	},
}

// TestFields has every field that the SDKs of the vendors can send pass, but those that name what is not in the body.
func TestFields(t *testing.T) {
	for api, file := range map[usage.API]string{
		usage.Anthropic: "anthropic", usage.Chat: "chat", usage.Responses: "responses", usage.Gemini: "gemini",
	} {
		text, err := os.ReadFile("testdata/fields_" + file + ".txt")
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if words[0] == "#" {
				continue
			}
			t.Run(file+" "+strings.TrimSpace(line), func(t *testing.T) { checkField(t, api, words) })
		}
	}
}

func checkField(t *testing.T, api usage.API, words []string) {
	t.Helper()
	name, refused := strings.CutPrefix(words[len(words)-1], "!")
	place := places[api][words[0]]
	require.NotEmpty(t, place)
	field := fmt.Sprintf("%q:%s", name, valueOf(name))
	if strings.Contains(strings.Split(place, "%")[0], `"`+name+`":`) && len(words) == 2 {
		return // it is in each of these requests
	}
	if name == "type" {
		field = `"name":"x"` // the type itself passes
	}
	body := fmt.Sprintf(place, field)
	if len(words) == 3 {
		body = fmt.Sprintf(place, words[1], field)
		if name == "role" && words[0] == "item" {
			body = strings.Replace(body, `"`+words[1]+`"`, `"message"`, 1)
		}
	}
	call := readCall(t, api, body)
	if words[0] == "compact" {
		call = readAt(t, "/v1/responses/compact", body)
	}
	_, err := call.Bound(usage.Maximum{}, nil)
	require.Empty(t, call.Unknown(), body)
	if refused {
		var why *usage.Unbounded
		require.ErrorAs(t, err, &why, body)
		require.NotEmpty(t, why.Part)
		return
	}
	require.NoError(t, err, body)
}

// valueOf is a value that a field can have.
func valueOf(name string) string {
	switch name {
	case "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "candidateCount", "max_uses":
		return "3"
	case "image_url", "file_data":
		return `"data:image/png;base64,AAAA"`
	case "parts", "tools", "functions", "functionDeclarations", "systemInstruction":
		return "[]"
	}
	return `"x"`
}
