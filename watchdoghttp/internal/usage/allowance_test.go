package usage_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
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
		body       string
		own, floor int64
		fixed      bool
		set        int64
		want       string // where the body changes
	}{
		"Anthropic": {
			api: usage.Anthropic, body: `{ "max_tokens" : 32000, "messages":[]}`, own: 32000, floor: 1024,
			set: 2000, want: `{ "max_tokens" : 2000, "messages":[]}`,
		},
		"one that is lower is not raised": {
			api: usage.Anthropic, body: `{"max_tokens":500,"messages":[]}`, own: 500, floor: 500,
			set: 2000, want: `{"max_tokens":500,"messages":[]}`,
		},
		"that of a nested object is none": {
			api: usage.Anthropic, body: `{"messages":[{"max_tokens":7}],"metadata":{"max_tokens":8},"max_tokens":9000}`,
			own: 9000, floor: 1024, set: 1500,
			want: `{"messages":[{"max_tokens":7}],"metadata":{"max_tokens":8},"max_tokens":1500}`,
		},
		"thinking needs its budget": {
			api: usage.Anthropic, body: `{"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":9000},"messages":[]}`,
			own: 32000, floor: 10024, set: 10024,
			want: `{"max_tokens":10024,"thinking":{"type":"enabled","budget_tokens":9000},"messages":[]}`,
		},
		"thinking that is interleaved does not": {
			api: usage.Anthropic, header: interleaved,
			body: `{"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":9000},"messages":[]}`,
			own:  32000, floor: 1024, set: 1024,
			want: `{"max_tokens":1024,"thinking":{"type":"enabled","budget_tokens":9000},"messages":[]}`,
		},
		"nor if the body says so": {
			api:  usage.Anthropic,
			body: `{"anthropic_beta":["interleaved-thinking-2025-05-14"],"max_tokens":32000,"thinking":{"budget_tokens":9000},"messages":[]}`,
			own:  32000, floor: 1024, set: 1024,
			want: `{"anthropic_beta":["interleaved-thinking-2025-05-14"],"max_tokens":1024,"thinking":{"budget_tokens":9000},"messages":[]}`,
		},
		"nor such as adapts itself": {
			api: usage.Anthropic, body: `{"max_tokens":32000,"thinking":{"type":"adaptive"},"messages":[]}`, own: 32000, floor: 1024,
			set: 1024, want: `{"max_tokens":1024,"thinking":{"type":"adaptive"},"messages":[]}`,
		},
		"what Claude Code has hashed stays as it is": {
			api:   usage.Anthropic,
			body:  `{"max_tokens":32000,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"}],"messages":[]}`,
			fixed: true,
		},
		"Chat": {
			api: usage.Chat, body: `{"max_tokens":4000,"n":3,"messages":[]}`, own: 4000, floor: 1024,
			set: 1100, want: `{"max_tokens":1100,"n":3,"messages":[]}`,
		},
		"Chat with both": {
			api: usage.Chat, body: `{"max_tokens":4000,"max_completion_tokens":6000,"messages":[]}`, own: 6000, floor: 1024,
			set: 5000, want: `{"max_tokens":4000,"max_completion_tokens":5000,"messages":[]}`,
		},
		"Chat with none": {
			api: usage.Chat, body: ` {"messages":[]}`, own: -1, floor: 1024, set: 5000,
			want: ` {"max_completion_tokens":5000,"messages":[]}`,
		},
		"Chat with one and a null gets no second": {
			api: usage.Chat, body: `{"max_completion_tokens":null,"max_tokens":4000,"messages":[]}`, own: 4000, floor: 1024, set: 3000,
			want: `{"max_completion_tokens":null,"max_tokens":3000,"messages":[]}`,
		},
		"Chat with two nulls gets one": {
			api: usage.Chat, body: `{"max_completion_tokens":null,"max_tokens":null,"messages":[]}`, own: -1, floor: 1024, set: 3000,
			want: `{"max_completion_tokens":null,"max_tokens":3000,"messages":[]}`,
		},
		"Responses": {
			api: usage.Responses, body: `{"max_output_tokens":5,"input":"x","model":"m"}`, own: 5, floor: 16, set: 16,
			want: `{"max_output_tokens":5,"input":"x","model":"m"}`,
		},
		"Responses with none": {
			api: usage.Responses, body: `{"input":"x","model":"m"}`, own: -1, floor: 1024, set: 900, want: `{"max_output_tokens":900,"input":"x","model":"m"}`,
		},
		"Responses of a host that refuses it": {
			api: usage.Responses, host: "chatgpt.com", body: `{"input":"x","model":"m"}`, fixed: true,
		},
		"what is no number is left alone": {
			api: usage.Responses, body: `{"max_output_tokens":"5","input":"x","model":"m"}`, fixed: true,
		},
		"Gemini": {
			api:  usage.Gemini,
			body: `{"contents":[],"generationConfig":{"candidateCount":2,"maxOutputTokens":8192,"temperature":0}}`,
			own:  8192, floor: 1024, set: 2048,
			want: `{"contents":[],"generationConfig":{"candidateCount":2,"maxOutputTokens":2048,"temperature":0}}`,
		},
		"Gemini by the names of protocol buffers": {
			api: usage.Gemini, body: `{"contents":[],"generation_config":{"max_output_tokens":8192}}`, own: 8192, floor: 1024,
			set: 2048, want: `{"contents":[],"generation_config":{"max_output_tokens":2048}}`,
		},
		"Gemini with a configuration without one": {
			api: usage.Gemini, body: `{"generationConfig": {"temperature":0},"contents":[]}`, own: -1, floor: 1024, set: 9,
			want: `{"generationConfig": {"maxOutputTokens":9,"temperature":0},"contents":[]}`,
		},
		"Gemini with an empty configuration": {
			api: usage.Gemini, body: `{"generationConfig":{ },"contents":[]}`, own: -1, floor: 1024, set: 9,
			want: `{"generationConfig":{"maxOutputTokens":9 },"contents":[]}`,
		},
		"Gemini with a null for one": {
			api: usage.Gemini, body: `{"generationConfig":null,"contents":[]}`, own: -1, floor: 1024, set: 9,
			want: `{"generationConfig":{"maxOutputTokens":9},"contents":[]}`,
		},
		"Gemini without one": {
			api: usage.Gemini, body: `{"contents":[]}`, own: -1, floor: 1024, set: 9,
			want: `{"generationConfig":{"maxOutputTokens":9},"contents":[]}`,
		},
		"Gemini counts thoughts in it": {
			api:  usage.Gemini,
			body: `{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":8000},"maxOutputTokens":9000}}`,
			own:  9000, floor: 1024, set: 1024,
			want: `{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":8000},"maxOutputTokens":1024}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := allowanceOf(c.api, c.host, c.header, []byte(c.body))
			if c.fixed {
				require.Nil(t, a)
				return
			}
			assert.Equal(t, c.own, a.Own)
			assert.Equal(t, c.floor, a.Floor)
			assert.Equal(t, c.want, string(changed([]byte(c.body), a.Set(c.set)...)))
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
		`{"messages":[],"n":2,"a":[{"n":3}]}`, `{"contents":[],"generation_config":{},"max_output_tokens":99999999999999999999}`,
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
