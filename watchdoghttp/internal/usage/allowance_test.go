package usage_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

func TestAllowance(t *testing.T) {
	interleaved := http.Header{"Anthropic-Beta": {"a,interleaved-thinking-2025-05-14"}}
	for name, c := range map[string]struct {
		api        usage.API
		host       string
		header     http.Header
		own, floor int64 // 1024 if it is not said
		set        int64
		body       string // in which <a|b> is a part that is set from a to b
		fixed      bool
	}{
		"Anthropic": {
			api: usage.Anthropic, own: 32000, set: 2000,
			body: `{ "max_tokens" : <32000|2000>, "messages":[]}`,
		},
		"one that is lower is not raised": {
			api: usage.Anthropic, own: 500, floor: 500, set: 2000,
			body: `{"max_tokens":500,"messages":[]}`,
		},
		"that of a nested object is none": {
			api: usage.Anthropic, own: 9000, set: 1500,
			body: `{"messages":[{"max_tokens":7}],"metadata":{"max_tokens":8},"max_tokens":<9000|1500>}`,
		},
		"thinking needs its budget": {
			api: usage.Anthropic, own: 32000, floor: 10024, set: 10024,
			body: `{"max_tokens":<32000|10024>,"thinking":{"type":"enabled","budget_tokens":9000},"messages":[]}`,
		},
		"thinking that is interleaved does not": {
			api: usage.Anthropic, header: interleaved, own: 32000, set: 1024,
			body: `{"max_tokens":<32000|1024>,"thinking":{"type":"enabled","budget_tokens":9000},"messages":[]}`,
		},
		"nor if the body says so": {
			api: usage.Anthropic, own: 32000, set: 1024,
			body: `{"anthropic_beta":["interleaved-thinking-2025-05-14"],"messages":[],
				"max_tokens":<32000|1024>,"thinking":{"budget_tokens":9000}}`,
		},
		"nor such as adapts itself": {
			api: usage.Anthropic, own: 32000, set: 1024,
			body: `{"max_tokens":<32000|1024>,"thinking":{"type":"adaptive"},"messages":[]}`,
		},
		"what Claude Code has hashed stays as it is": {
			api: usage.Anthropic, fixed: true,
			body: `{"max_tokens":32000,"messages":[],
				"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"}]}`,
		},
		"Chat": {api: usage.Chat, own: 4000, set: 1100, body: `{"max_tokens":<4000|1100>,"n":3,"messages":[]}`},
		"Chat with both": {
			api: usage.Chat, own: 6000, set: 5000,
			body: `{"max_tokens":4000,"max_completion_tokens":<6000|5000>,"messages":[]}`,
		},
		"Chat with none": {
			api: usage.Chat, own: -1, set: 5000,
			body: ` {"m<|ax_completion_tokens":5000,"m>essages":[]}`,
		},
		"Chat with one and a null gets no second": {
			api: usage.Chat, own: 4000, set: 3000,
			body: `{"max_completion_tokens":null,"max_tokens":<4000|3000>,"messages":[]}`,
		},
		"Chat with two nulls gets one": {
			api: usage.Chat, own: -1, set: 3000,
			body: `{"max_completion_tokens":null,"max_tokens":<null|3000>,"messages":[]}`,
		},
		"Responses": {
			api: usage.Responses, own: 5, floor: 16, set: 16,
			body: `{"max_output_tokens":5,"input":"x","model":"m"}`,
		},
		"Responses with none": {
			api: usage.Responses, own: -1, set: 900,
			body: `{"<|max_output_tokens":900,">input":"x","model":"m"}`,
		},
		"Responses of a host that refuses it": {
			api: usage.Responses, host: "chatgpt.com", fixed: true,
			body: `{"input":"x","model":"m"}`,
		},
		"what is no number is left alone": {
			api: usage.Responses, fixed: true,
			body: `{"max_output_tokens":"5","input":"x","model":"m"}`,
		},
		"Gemini": {
			api: usage.Gemini, own: 8192, set: 2048,
			body: `{"contents":[],"generationConfig":{"candidateCount":2,"maxOutputTokens":<8192|2048>,"temperature":0}}`,
		},
		"Gemini by the names of protocol buffers": {
			api: usage.Gemini, own: 8192, set: 2048,
			body: `{"contents":[],"generation_config":{"max_output_tokens":<8192|2048>}}`,
		},
		"Gemini with a configuration without one": {
			api: usage.Gemini, own: -1, set: 9,
			body: `{"generationConfig": {"<|maxOutputTokens":9,">temperature":0},"contents":[]}`,
		},
		"Gemini with an empty configuration": {
			api: usage.Gemini, own: -1, set: 9,
			body: `{"generationConfig":{<|"maxOutputTokens":9> },"contents":[]}`,
		},
		"Gemini with a null for one": {
			api: usage.Gemini, own: -1, set: 9,
			body: `{"generationConfig":<null|{"maxOutputTokens":9}>,"contents":[]}`,
		},
		"Gemini without one": {
			api: usage.Gemini, own: -1, set: 9,
			body: `{"<|generationConfig":{"maxOutputTokens":9},">contents":[]}`,
		},
		"Gemini counts thoughts in it": {
			api: usage.Gemini, own: 9000, set: 1024,
			body: `{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":8000},"maxOutputTokens":<9000|1024>}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			change := regexp.MustCompile(`<([^|]*)\|([^>]*)>`)
			body, want := change.ReplaceAllString(c.body, "$1"), change.ReplaceAllString(c.body, "$2")
			a := allowanceOf(c.api, c.host, c.header, []byte(body))
			if c.fixed {
				require.Nil(t, a)
				return
			}
			require.NotNil(t, a)
			assert.Equal(t, c.own, a.Own)
			assert.Equal(t, cmp.Or(c.floor, 1024), a.Floor)
			assert.Equal(t, want, string(changed([]byte(body), a.Set(c.set)...)))
		})
	}
}

// allowanceOf is the allowance of a request to a host, nil if that has none.
func allowanceOf(api usage.API, host string, header http.Header, body []byte) *usage.Allowance {
	req := httptest.NewRequest(http.MethodPost, "https://"+cmp.Or(host, "api.example")+paths[api], nil)
	maps.Copy(req.Header, header)
	call := usage.ReadCall(usage.RouteOf(http.MethodPost, paths[api]), req, body)
	if call == nil {
		return nil
	}
	return call.Allowance(req, body)
}

// FuzzAllowance has a body that is changed stay valid, with all other bytes as they were.
func FuzzAllowance(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[],"max_tokens":9,"max_tokens":8}`, `{"contents":[],"generationConfig":{"maxOutputTokens":5}}`,
		`{"messages":[],"n":2,"a":[{"n":3}]}`,
		`{"contents":[],"generation_config":{},"max_output_tokens":99999999999999999999}`,
		"{ \"max\\u005ftokens\":7,\"messages\":[]}", `{"model":"m","input":"x","max_output_tokens":5}`,
	} {
		for api := range byte(4) {
			f.Add(api, seed, int64(5))
		}
	}
	f.Fuzz(func(t *testing.T, api byte, text string, most int64) {
		body := []byte(strings.TrimSpace(text))
		of := usage.API(api%4 + 1)
		a := allowanceOf(of, "", nil, body)
		if a == nil || most < 0 {
			return
		}
		changed := changed(body, a.Set(most)...)
		require.True(t, json.Valid(changed), "%s", changed)
		again := allowanceOf(of, "", nil, changed)
		switch {
		case a.Own < 0:
			require.Equal(t, most, again.Own)
		default:
			require.Equal(t, min(a.Own, most), again.Own)
		}
		require.Equal(t, without(t, body), without(t, changed))
	})
}

// without is what a body says beside its maximum of output.
func without(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal(body, &object))
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		delete(object, name)
	}
	for _, name := range []string{"generationConfig", "generation_config"} {
		if config, ok := object[name].(map[string]any); ok {
			delete(config, "maxOutputTokens")
			delete(config, "max_output_tokens")
		}
		if config, ok := object[name].(map[string]any); ok && len(config) == 0 || object[name] == nil {
			delete(object, name)
		}
	}
	return object
}
