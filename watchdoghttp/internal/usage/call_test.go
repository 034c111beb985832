package usage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

func TestRoute(t *testing.T) {
	for _, at := range []struct {
		path string
		want usage.Route
	}{
		{"/v1/messages", usage.Route{API: usage.Anthropic}},
		{"/proxy/anthropic/v1/messages/", usage.Route{API: usage.Anthropic}},
		{"/v1/chat/completions", usage.Route{API: usage.Chat}},
		{"/api/v1/chat/completions", usage.Route{API: usage.Chat}},
		{"/openai/deployments/my-gpt/chat/completions", usage.Route{API: usage.Chat, Model: "my-gpt"}},
		{"/v1beta/openai/chat/completions", usage.Route{API: usage.Chat}},
		{"/v1/responses", usage.Route{API: usage.Responses}},
		{"/openai/v1/responses", usage.Route{API: usage.Responses}},
		{"/v1beta/models/gemini-2.5-pro:generateContent", usage.Route{API: usage.Gemini, Model: "gemini-2.5-pro"}},
		{
			"/v1/projects/p/locations/us/publishers/google/models/g:streamGenerateContent",
			usage.Route{API: usage.Gemini, Model: "g", Stream: true},
		},
		{"/v1/messages/count_tokens", usage.Route{}},
		{"/v1/threads/t/messages", usage.Route{}},
		{"/v1/responses/r/cancel", usage.Route{}},
		{"/v1/responses/compact", usage.Route{API: usage.Responses, Compacts: true}},
		{"/v1/models", usage.Route{}},
		{"/v1beta/models/g:countTokens", usage.Route{}},
		{"", usage.Route{}},
		{"/v1/messages/batches", usage.Route{Unread: "messages/batches"}},
		{"/v1beta/models/g:embedContent", usage.Route{Unread: "embedContent"}},
		{"/model/m/invoke", usage.Route{Unread: "invoke"}},
	} {
		require.Equal(t, at.want, usage.RouteOf(http.MethodPost, at.path), at.path)
		require.Zero(t, usage.RouteOf(http.MethodGet, at.path), at.path)
	}
}

var declared = usage.Maximum{Input: 200_000, Output: 32_000, ToolRequests: 7}

// paths are a path of each API.
var paths = map[usage.API]string{
	usage.Anthropic: "/v1/messages", usage.Chat: "/v1/chat/completions", usage.Responses: "/v1/responses",
	usage.Gemini: "/v1beta/models/g:generateContent",
}

func readCall(tb testing.TB, api usage.API, body string) *usage.Call {
	tb.Helper()
	call := readOf(api, body)
	require.NotNil(tb, call)
	return call
}

// readAt reads a request to the path.
func readAt(tb testing.TB, path, body string) *usage.Call {
	tb.Helper()
	req := httptest.NewRequest(http.MethodPost, "https://api.example"+path, nil)
	call := usage.ReadCall(usage.RouteOf(http.MethodPost, path), req, []byte(body))
	require.NotNil(tb, call)
	return call
}

// readOf reads a request of the API.
func readOf(api usage.API, body string) *usage.Call {
	req := httptest.NewRequest(http.MethodPost, "https://api.example"+paths[api], nil)
	return usage.ReadCall(usage.RouteOf(http.MethodPost, paths[api]), req, []byte(body))
}

// boundOf returns the bound of a call, which must have one.
func boundOf(tb testing.TB, call *usage.Call, most usage.Maximum, past *usage.History) usage.Bound {
	tb.Helper()
	bound, err := call.Bound(most, past)
	require.NoError(tb, err)
	return bound
}

func TestInlineText(t *testing.T) {
	for _, of := range []struct {
		name   string
		api    usage.API
		body   string
		parts  int64 // messages and tools
		output int64
	}{
		{"messages", usage.Anthropic, `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}`, 2, 100},
		{"tools, their calls and results, whatever is in them", usage.Anthropic, ` {"model":"m","max_tokens":100,"stream":true,
			"system":[{"type":"text","text":"s"}],"tools":[{"name":"f","input_schema":{"type":"image","source":{}}},
			{"type":"custom","name":"g","input_schema":{}},{"type":null,"name":"h"}],"messages":[{"role":"assistant","content":[
			{"type":"tool_use","id":"1","name":"f","input":{"type":"image","file_id":"x"}}]},{"role":"user","content":[{
			"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"{\"type\":\"image\"}"}]},{"type":
			"document","source":{"type":"text","media_type":"text/plain","data":"d"}}]}],"metadata":{"user_id":"u"}} `, 5, 100},
		{"a budget of thinking inside the maximum", usage.Anthropic,
			`{"model":"m","max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":4000},"messages":[]}`, 0, 5000},
		{"a budget of thinking above it", usage.Anthropic,
			`{"model":"m","thinking":{"type":"enabled","budget_tokens":9000},"max_tokens":5000,"messages":[]}`, 0, 14000},
		{"one as large as it", usage.Anthropic,
			`{"model":"m","thinking":{"type":"enabled","budget_tokens":5000},"max_tokens":5000,"messages":[]}`, 0, 10000},
		{"no output", usage.Anthropic, `{"model":"m","max_tokens":0,"messages":[]}`, 0, 0},
		{"a key with escapes", usage.Anthropic, `{"m\u006fdel":"m","max_\u0074okens":7,"messages":[]}`, 0, 7},
		{"candidates", usage.Chat, `{"model":"m","max_completion_tokens":10,"n":3,"messages":[{"role":"user","content":"x"}],
			"stream_options":{"include_usage":true}}`, 1, 30},
		{"the larger of two maxima, null candidates", usage.Chat,
			`{"model":"m","max_tokens":50,"max_completion_tokens":10,"n":null,"messages":[],"tools":[{"type":"function",
			"function":{"name":"f","parameters":{"web_search_options":{}}}}],"functions":[{"name":"g"}]}`, 2, 50},
		{"a prediction, which can be billed as output", usage.Chat,
			`{"model":"m","max_tokens":50,"messages":[],"prediction":{"content":"12345"}}`, 0, 50 + 19},
		{"a text", usage.Responses, `{"model":"m","input":"hello","max_output_tokens":20,"reasoning":{"effort":"high"}}`, 1, 20},
		{"items", usage.Responses, `{"model":"m","max_output_tokens":20,"previous_response_id":null,"input":[{"role":"user",
			"content":[{"type":"input_text","text":"x"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"1","output":"item_reference"}],"tools":[{"type":"function","name":"f",
			"parameters":{}}]}`, 4, 20},
		{"what Codex tells a sub-agent, which is encrypted, and a text", usage.Responses,
			`{"model":"m","max_output_tokens":9,"input":[{"type":"agent_message","author":"/root","recipient":"/root/part",
			"content":[{"type":"encrypted_content","encrypted_content":"gAAAAA"}]}]}`, 1, 9},
		{"Gemini's", usage.Gemini, `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"parts":[{"functionCall":{"name":"f",
			"args":{"fileData":1}}},{"functionResponse":{"name":"f","response":{"inlineData":1}}}]}],"systemInstruction":
			{"parts":[{"text":"s"}]},"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]}],"generationConfig":
			{"maxOutputTokens":100,"candidateCount":2}}`, 5, 200},
		{"Gemini's, in the other spelling, with a budget of thoughts", usage.Gemini, `{"contents":[],"generation_config":
			{"max_output_tokens":100,"candidate_count":2,"thinking_config":{"thinking_budget":50}}}`, 0, 300},
		{"Gemini's, with thoughts as many as the model wants", usage.Gemini,
			`{"contents":[],"generationConfig":{"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":-1}}}`, 0, 100},
	} {
		t.Run(of.name, func(t *testing.T) {
			call := readCall(t, of.api, of.body)
			bound := boundOf(t, call, usage.Maximum{}, nil)
			input := int64(len(of.body)) + 1024 + 16*of.parts
			require.Equal(t, usage.Bound{Input: input, Output: of.output}, bound)
			bound = boundOf(t, call, usage.Maximum{Input: 3, Output: 2}, nil)
			require.Equal(t, int64(3), bound.Input, "the model takes no more")
		})
	}
}

// references are what bodies can have that names input which is not in them.
var references = []struct {
	name string
	api  usage.API
	has  string // the members of the body beside messages and maximum
	want usage.Unbounded
}{
	{"an image by URL", usage.Anthropic, `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]`, unbounded(usage.Reference, "url")},
	{"an image by its ID, in a tool's result", usage.Anthropic, `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]}]`, unbounded(usage.Reference, "file")},
	{"a document by URL", usage.Anthropic, `"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"u"}}]}]`, unbounded(usage.Reference, "url")},
	{"a file for a container", usage.Anthropic, `"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"f"}]}]`, unbounded(usage.Reference, "container_upload")},
	{"a search by the API without a maximum", usage.Anthropic, `"messages":[],"tools":[{"type":"web_search_20250305","name":"web_search"}]`, unbounded(usage.ServerTool, "web_search_20250305")},
	{"code that the API runs", usage.Anthropic, `"messages":[],"tools":[{"type":"code_execution_20260521","name":"c"}]`, unbounded(usage.ServerTool, "code_execution_20260521")},
	{"a model that the model asks", usage.Anthropic, `"messages":[],"tools":[{"type":"advisor_20260301","model":"x","max_uses":1}]`, unbounded(usage.ServerTool, "advisor_20260301")},
	{"a container, for skills", usage.Anthropic, `"messages":[],"container":{"skills":[]}`, unbounded(usage.Reference, "container")},
	{"servers of tools", usage.Anthropic, `"messages":[],"mcp_servers":[{"type":"url"}]`, unbounded(usage.ServerTool, "mcp_servers")},
	{"a conversation that the API holds", usage.Anthropic, `"messages":[],"thread":{"type":"continue","previous_message_id":"m"}`, unbounded(usage.Reference, "thread")},
	{"a search that a message adds", usage.Anthropic, `"messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_search_20260209","name":"w"}}}]}]`, unbounded(usage.ServerTool, "web_search_20260209")},
	{"an image's URL", usage.Chat, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://u"}}]}]`, unbounded(usage.Reference, "image_url")},
	{"a file", usage.Chat, `"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]`, unbounded(usage.Reference, "file_id")},
	{"an earlier sound", usage.Chat, `"messages":[{"role":"assistant","audio":{"id":"a"}}]`, unbounded(usage.Reference, "audio")},
	{"a search", usage.Chat, `"messages":[],"web_search_options":{}`, unbounded(usage.ServerTool, "web_search_options")},
	{"a previous response", usage.Responses, `"input":"x","previous_response_id":"r"`, unbounded(usage.Reference, "previous_response_id")},
	{"a conversation", usage.Responses, `"input":"x","conversation":{"id":"c"}`, unbounded(usage.Reference, "conversation")},
	{"a stored prompt", usage.Responses, `"prompt":{"id":"p"}`, unbounded(usage.Reference, "prompt")},
	{"an item by its ID", usage.Responses, `"input":[{"type":"item_reference","id":"i"}]`, unbounded(usage.Reference, "item_reference")},
	{"a file of input", usage.Responses, `"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]`, unbounded(usage.Reference, "file_id")},
	{"an image of input", usage.Responses, `"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://u"}]}]`, unbounded(usage.Reference, "image_url")},
	{"a screenshot by its ID", usage.Responses, `"input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","file_id":"f"}}]`, unbounded(usage.Reference, "file_id")},
	{"a search of Responses without a maximum", usage.Responses, `"input":"x","tools":[{"type":"web_search"}]`, unbounded(usage.ServerTool, "web_search")},
	{"a search in stored files", usage.Responses, `"input":"x","max_tool_calls":1,"tools":[{"type":"file_search"}]`, unbounded(usage.ServerTool, "file_search")},
	{"a search among additional tools", usage.Responses, `"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"web_search"}]}]`, unbounded(usage.ServerTool, "web_search")},
	{"agents that the API runs", usage.Responses, `"input":"x","multi_agent":{"enabled":true}`, unbounded(usage.ServerTool, "multi_agent")},
	{"a server of tools", usage.Responses, `"input":"x","max_tool_calls":1,"tools":[{"type":"mcp"}]`, unbounded(usage.ServerTool, "mcp")},
	{"a shell in a container", usage.Responses, `"input":"x","tools":[{"type":"shell","environment":{"type":"container_auto"}}]`, unbounded(usage.Reference, "container_auto")},
	{"a file's URI", usage.Gemini, `"contents":[{"parts":[{"fileData":{"fileUri":"u"}}]}]`, unbounded(usage.Reference, "fileData")},
	{"a file's URI in the other spelling", usage.Gemini, `"contents":[{"parts":[{"file_data":{"file_uri":"u"}}]}]`, unbounded(usage.Reference, "fileData")},
	{"a file in a function's response", usage.Gemini, `"contents":[{"parts":[{"functionResponse":{"name":"f","parts":[{"fileData":{"fileUri":"u"}}]}}]}]`, unbounded(usage.Reference, "fileData")},
	{"cached content", usage.Gemini, `"contents":[],"cachedContent":"c"`, unbounded(usage.Reference, "cachedContent")},
	{"an answer that is not over", usage.Gemini, `"contents":[],"continuationToken":"c"`, unbounded(usage.Reference, "continuationToken")},
	{"a search of Gemini", usage.Gemini, `"contents":[],"tools":[{"googleSearch":{}}]`, unbounded(usage.ServerTool, "googleSearch")},
	{"a known field in another case", usage.Chat, `"messages":[],"Max_Tokens":9`, unbounded(usage.Malformed, "Max_Tokens")},
	{"a field that is there twice", usage.Chat, `"messages":[],"messages":[]`, unbounded(usage.Malformed, "messages")},
}

func unbounded(why usage.Reason, part string) usage.Unbounded {
	return usage.Unbounded{Reason: why, Part: part, Model: "m"}
}

// maxima are the members that bound the output.
var maxima = map[usage.API]string{
	usage.Anthropic: `{"model":"m","max_tokens":10,`, usage.Chat: `{"model":"m","max_tokens":10,`,
	usage.Responses: `{"model":"m","max_output_tokens":10,`,
	usage.Gemini:    `{"model":"m","generationConfig":{"maxOutputTokens":10},`,
}

func TestReferences(t *testing.T) {
	for _, of := range references {
		t.Run(of.name+" needs a declared maximum", func(t *testing.T) {
			call := readCall(t, of.api, maxima[of.api]+of.has+"}")
			_, err := call.Bound(usage.Maximum{Output: 1000}, nil)
			var why *usage.Unbounded
			require.ErrorAs(t, err, &why)
			if of.api == usage.Gemini {
				of.want.Model = "g"
			}
			require.Equal(t, &of.want, why)
			require.Contains(t, why.Error(), why.Reason.String())
			bound := boundOf(t, call, declared, nil)
			require.Equal(t, declared.Input, bound.Input)
			if of.want.Reason == usage.Unknown || of.want.Reason == usage.Malformed {
				require.Equal(t, declared.Output, bound.Output, "what is not known can be about the output")
			} else {
				require.Equal(t, int64(10), bound.Output)
			}
		})
	}
}

func TestOutput(t *testing.T) {
	t.Run("without a maximum it needs a declared one, for each candidate", func(t *testing.T) {
		for api, body := range map[usage.API]string{
			usage.Anthropic: `{"messages":[]}`, usage.Chat: `{"messages":[],"max_tokens":null}`,
			usage.Responses: `{"model":"m","input":"x"}`, usage.Gemini: `{"contents":[]}`,
		} {
			call := readCall(t, api, body)
			_, err := call.Bound(usage.Maximum{Input: 1000}, nil)
			var why *usage.Unbounded
			require.ErrorAs(t, err, &why)
			require.Equal(t, usage.NoMaximum, why.Reason)
			bound := boundOf(t, call, declared, nil)
			require.Equal(t, declared.Output, bound.Output)
		}
		bound := boundOf(t, readCall(t, usage.Chat, `{"messages":[],"n":4}`), declared, nil)
		require.Equal(t, 4*declared.Output, bound.Output)
	})
	t.Run("a call to compact has the longest answer of its model, or the declared one", func(t *testing.T) {
		for most, want := range map[usage.Maximum]int64{{}: 128_000, {Output: 7}: 7} {
			bound := boundOf(t, readAt(t, "/v1/responses/compact", `{"model":"gpt-5","input":"x"}`), most, nil)
			require.Equal(t, want, bound.Output)
		}
	})
	t.Run("each call that the API can make besides has as much", func(t *testing.T) {
		body := `{"model":"m","max_tokens":10,"messages":[],"fallbacks":[{},{}]}`
		bound := boundOf(t, readCall(t, usage.Anthropic, body), usage.Maximum{}, nil)
		require.Equal(t, usage.Bound{Input: 3 * int64(len(body)+1024), Output: 3 * 10}, bound)
	})
	t.Run("a maximum that is no count is none", func(t *testing.T) {
		for _, n := range []string{"-1", "1e3", `"100"`, "99999999999999999999", "[]"} {
			_, err := readCall(t, usage.Chat, `{"messages":[],"max_tokens":`+n+`}`).Bound(usage.Maximum{}, nil)
			var why *usage.Unbounded
			require.ErrorAs(t, err, &why, n)
			require.Equal(t, usage.Malformed, why.Reason)
		}
	})
	t.Run("a product that is too much for a number is the largest", func(t *testing.T) {
		call := readCall(t, usage.Chat, `{"messages":[],"max_tokens":9000000000000000000,"n":9}`)
		bound := boundOf(t, call, usage.Maximum{}, nil)
		require.Equal(t, int64(9223372036854775807), bound.Output)
	})
}

func TestToolRequests(t *testing.T) {
	for body, want := range map[string]int64{
		`{"messages":[],"max_tokens":1,"tools":[{"type":"web_search_20250305","max_uses":3},{"type":"web_fetch_20250910","max_uses":2}]}`: 5,
		`{"messages":[],"max_tokens":1,"tools":[{"type":"web_search_20250305","max_uses":3},{"type":"web_fetch_20250910"}]}`:              7,
		`{"messages":[],"max_tokens":1}`: 0,
	} {
		bound := boundOf(t, readCall(t, usage.Anthropic, body), declared, nil)
		require.Equal(t, want, bound.ToolRequests)
	}
	call := readCall(t, usage.Responses, `{"model":"m","input":"x","tools":[{"type":"web_search"}],"max_tool_calls":2}`)
	bound := boundOf(t, call, declared, nil)
	require.Equal(t, int64(2), bound.ToolRequests)
	call = readCall(t, usage.Chat, `{"messages":[],"web_search_options":{}}`)
	bound = boundOf(t, call, usage.Maximum{Input: 1, Output: 1}, nil)
	require.Equal(t, int64(-1), bound.ToolRequests)
}

func TestCall(t *testing.T) {
	t.Run("a body of another service is no call", func(t *testing.T) {
		for api, body := range map[usage.API]string{
			usage.Anthropic: `{"text":"x"}`, usage.Chat: `[]`, usage.Responses: `{"answers":[1],"input":2}`,
			usage.Gemini: `"x"`,
		} {
			require.Nil(t, readOf(api, body))
		}
	})
	t.Run("text is bounded by its bytes alone, also if it is more than its model reads", func(t *testing.T) {
		body := `{"model":"gpt-4","max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat("x", 9000) + `"}]}`
		bound := boundOf(t, readCall(t, usage.Chat, body), usage.Maximum{}, nil)
		require.Greater(t, bound.Input, int64(len(body)))
	})
	t.Run("what is no JSON is bounded by a declared maximum only", func(t *testing.T) {
		for _, body := range []string{"", "{", `{"messages":[}`, "\xef\xbb\xbf{}", "messages"} {
			call := readCall(t, usage.Chat, body)
			_, err := call.Bound(usage.Maximum{}, nil)
			var why *usage.Unbounded
			require.ErrorAs(t, err, &why)
			require.Equal(t, usage.Malformed, why.Reason)
			boundOf(t, call, declared, nil)
		}
	})
	t.Run("what the API may cut takes in nothing that is known", func(t *testing.T) {
		for truncation, known := range map[string]bool{"auto": false, "disabled": true} {
			call := readCall(t, usage.Responses, `{"model":"m","input":"x","truncation":"`+truncation+`"}`)
			require.Equal(t, known, call.TookIn(took(5, 1)))
		}
	})
	t.Run("it names the model and how it is answered", func(t *testing.T) {
		call := readCall(t, usage.Anthropic, `{"model":"claude-x","stream":true,"messages":[]}`)
		require.Equal(t, "claude-x", call.Model)
		require.True(t, call.Stream)
		require.True(t, call.Usage)
		call = readCall(t, usage.Chat, `{"model":"openai/gpt-5:free","stream":true,"messages":[]}`)
		require.Equal(t, "openai/gpt-5:free", call.Model)
		require.False(t, call.Usage, "such a stream has none")
		require.Equal(t, "g", readCall(t, usage.Gemini, `{"contents":[]}`).Model)
		require.Empty(t, readCall(t, usage.Chat, `{"model":"`+canary+`, is no name!","messages":[]}`).Model)
		require.Empty(t, readCall(t, usage.Chat, `{"model":"`+strings.Repeat("x", 65)+`","messages":[]}`).Model)
		req := httptest.NewRequest(http.MethodPost, "/openai/deployments/dep/chat/completions", nil)
		call = usage.ReadCall(usage.RouteOf(req.Method, req.URL.Path), req, []byte(`{"messages":[]}`))
		require.Equal(t, "dep", call.Model)
	})
}

// FuzzCall protects hosts from a body that a call cannot be read from: no panic, a bound is never less than the body or
// above what is declared, and the same body is known again.
func FuzzCall(f *testing.F) {
	for _, of := range references {
		f.Add(uint8(of.api-usage.Anthropic), maxima[of.api]+of.has+"}")
	}
	f.Add(uint8(0), historyCall(historyHello, historyThought, historyResult))
	f.Add(uint8(0), historyCall(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}`))
	f.Add(uint8(2), `{"model":"gpt-6-sol","max_output_tokens":9,"input":[{"type":"reasoning","encrypted_content":"x"}]}`)
	f.Add(uint8(3), `{"contents":[{"parts":[{"functionCall":{"name":"f"},"thoughtSignature":"c2ln"}]}]}`)
	f.Fuzz(func(t *testing.T, api uint8, body string) {
		from := usage.Anthropic + usage.API(api%4)
		call := readOf(from, body)
		if call == nil {
			return
		}
		if bound, err := call.Bound(usage.Maximum{}, nil); err == nil {
			require.Greater(t, bound.Input, int64(len(body)))
			require.GreaterOrEqual(t, bound.Output, int64(0))
		}
		bound := boundOf(t, call, declared, nil)
		require.LessOrEqual(t, bound.Input, declared.Input)
		past := new(usage.History)
		past.Learn(call, usage.Result{State: usage.Final, Usage: usage.Usage{Input: 7, Output: 5}})
		again := readOf(from, body)
		next := boundOf(t, again, declared, past)
		require.LessOrEqual(t, next.Input, bound.Input, "a history never raises a bound")
		require.GreaterOrEqual(t, next.Input, min(bound.Input, 7))
		if change, ok := call.WithUsage(); ok {
			require.True(t, json.Valid(changed([]byte(body), change)))
		}
	})
}

func post(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.org/v1/messages", body)
	require.NoError(t, err)
	return req
}

// TestPeek says what is read of the body "hello", and that what is sent stays as it is.
func TestPeek(t *testing.T) {
	all := []byte("hello")
	copied := func(body io.ReadCloser, err error) func(*http.Request) {
		return func(req *http.Request) {
			req.GetBody = func() (io.ReadCloser, error) { return body, err }
		}
	}
	encoded := func(encoding string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set("Content-Encoding", encoding) }
	}
	held, recorded := inMemory{bytes.NewBuffer(all)}, &recording{Reader: bytes.NewReader(all)}
	for name, of := range map[string]struct {
		prepare func(*http.Request)
		limit   int64
		want    usage.Reason
	}{
		"a body of the limit":           {func(*http.Request) {}, 5, usage.Readable},
		"one that is longer":            {func(*http.Request) {}, 4, usage.TooLong},
		"one of unknown length":         {func(req *http.Request) { req.ContentLength = -1 }, 5, usage.Readable},
		"one that turns out longer":     {func(req *http.Request) { req.ContentLength = -1 }, 4, usage.TooLong},
		"one that says it is longer":    {func(req *http.Request) { req.ContentLength = 100 }, 10, usage.TooLong},
		"one that can be read once":     {func(req *http.Request) { req.GetBody = nil }, 10, usage.Unseekable},
		"a copy that cannot be had":     {copied(nil, errors.New("gone")), 10, usage.Unseekable},
		"one that is not gzip":          {encoded("gzip"), 10, usage.Encoded},
		"one that is compressed anew":   {encoded("br"), 10, usage.Encoded},
		"a copy in memory":              {copied(held, nil), 5, usage.Readable},
		"a copy in memory, longer":      {copied(held, nil), 4, usage.TooLong},
		"a copy that keeps what it had": {copied(recorded, nil), 5, usage.Readable},
	} {
		t.Run(name, func(t *testing.T) {
			req := post(t, strings.NewReader("hello"))
			of.prepare(req)
			body, why := usage.Peek(req, of.limit)
			require.Equal(t, of.want, why)
			if why == usage.Readable {
				require.Equal(t, "hello", string(body))
			}
			if strings.HasPrefix(name, "a copy in memory") && why == usage.Readable {
				require.Same(t, &all[0], &body[0], "it is read where it lies")
			}
			sent, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			require.Equal(t, "hello", string(sent))
		})
	}
	t.Run("no body is an empty one", func(t *testing.T) {
		body, why := usage.Peek(post(t, nil), 10)
		require.Empty(t, body)
		require.Equal(t, usage.Readable, why)
	})
}

type inMemory struct{ *bytes.Buffer }

func (inMemory) Close() error { return nil }

// recording is a body that keeps what was read of it, for a log.
type recording struct {
	io.Reader

	read bytes.Buffer
}

func (r *recording) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read.Write(p[:n])
	return n, err
}

func (r *recording) Bytes() []byte { return r.read.Bytes() }

func (*recording) Close() error { return nil }

func TestWithUsage(t *testing.T) {
	for _, of := range []struct{ name, body, want string }{
		{"no options", `{"messages":[],"stream":true}`, `{"stream_options":{"include_usage":true},"messages":[],"stream":true}`},
		{"other options", ` {"messages":[],"stream":true, "stream_options" : { "include_obfuscation":false}}`,
			` {"messages":[],"stream":true, "stream_options" : {"include_usage":true, "include_obfuscation":false}}`},
		{"empty options", `{"stream_options":{ },"stream":true,"messages":[]}`,
			`{"stream_options":{"include_usage":true },"stream":true,"messages":[]}`},
		{"null options", "\n{\"stream_options\":null,\"stream\":true,\"messages\":[]}",
			"\n{\"stream_options\":{\"include_usage\":true},\"stream\":true,\"messages\":[]}"},
		{"declined", `{"stream_options":{"include_usage":false},"stream":true,"messages":[]}`, ""},
		{"asked for", `{"stream_options":{"include_usage":true},"stream":true,"messages":[]}`, ""},
		{"no stream", `{"messages":[]}`, ""},
		{"no JSON", `{"messages":[],"stream":true`, ""},
	} {
		t.Run(of.name, func(t *testing.T) {
			call := readCall(t, usage.Chat, of.body)
			change, ok := call.WithUsage()
			require.Equal(t, of.want != "", ok)
			if !ok {
				return
			}
			changed := changed([]byte(of.body), change)
			require.Equal(t, of.want, string(changed))
			require.True(t, json.Valid(changed))
			require.True(t, readCall(t, usage.Chat, string(changed)).Usage)
		})
	}
	body := `{"messages":[],"stream":true}`
	_, ok := readCall(t, usage.Anthropic, body).WithUsage()
	require.False(t, ok, "others need not be asked")
}

// TestChangesTogether holds a body that is changed once in all its places against one that is changed one after the
// other.
func TestChangesTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	both := 0
	for range 2000 {
		members := []string{`"messages":[]`, `"stream":true`}
		for range r.IntN(4) {
			members = append(members, pick(
				`"stream_options":null`, `"stream_options" : { }`, `"stream_options":{"x":1}`, `"stream_option\u0073":{}`,
				`"max_tokens":9000`, `"max_tokens":null`, `"max_completion_tokens": 8000`, `"max_completion_tokens":5`,
			))
		}
		r.Shuffle(len(members), reflect.Swapper(members))
		body := []byte(pick("", " \n") + "{" + pick("", " ") + strings.Join(members, pick(",", " ,\n")) + "}")
		change, ok := readCall(t, usage.Chat, string(body)).WithUsage()
		if !ok {
			continue // it has a member twice, and is not read
		}
		sets := allowanceOf(usage.Chat, "", nil, body).Set(2000)
		together := changed(body, append(sets, change)...)
		first := changed(body, change)
		then := changed(first, allowanceOf(usage.Chat, "", nil, first).Set(2000)...)
		require.Equal(t, string(then), string(together), "%s", body)
		require.True(t, json.Valid(together), "%s", together)
		if len(sets) > 0 {
			both++
		}
	}
	require.Greater(t, both, 1000)
}

// changed is a body with changes.
func changed(body []byte, changes ...usage.Change) []byte {
	return bytes.Join(usage.Pieces(body, changes), nil)
}

func TestBilling(t *testing.T) {
	for _, of := range []struct {
		api      usage.API
		free     bool
		want     usage.Bill
		statuses []int
	}{
		{usage.Chat, false, usage.Read, []int{200}},
		{usage.Chat, false, usage.Void, []int{302, 307, 401, 413, 429}},
		{usage.Chat, false, usage.Admitted, []int{300, 400, 408, 422, 500}},
		{usage.Anthropic, false, usage.Void, []int{400, 529}},
		{usage.Anthropic, false, usage.Admitted, []int{500}},
		{usage.Gemini, false, usage.Void, []int{400, 500}},
		{usage.Gemini, false, usage.Admitted, []int{503}},
		{usage.Chat, true, usage.Void, []int{400, 409, 422, 429, 500, 502, 503, 529}},
		{usage.Chat, true, usage.Admitted, []int{300, 408, 499, 504, 600}},
	} {
		for _, status := range of.statuses {
			require.Equal(t, of.want, usage.Billing(of.api, status, of.free), "%v %d", of.api, status)
		}
	}
}
