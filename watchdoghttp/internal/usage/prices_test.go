package usage_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

const priceFile = `{
	"currency": "USD", "date": "2026-08-01",
	"models": {
		"sonnet": {
			"input": 3000000, "cache_write_5m": 3750000, "cache_write_1h": 6000000, "cache_read": 300000, "output": 15000000,
			"above": [{"input_tokens": 200000, "input": 6000000, "output": 22500000}],
			"tiers": {"priority": {"input": 9000000, "output": 45000000}},
			"tools": {"web_search": 10000}
		},
		"gpt-*": {"input": 1000000, "output": 8000000},
		"gpt-5*-mini": {"input": 75000, "output": 1},
		"speech": {
			"input": 1000000, "output": 2000000, "cache_read": 100000,
			"modalities": {"audio": {"input": 10000000, "output": 20000000}, "image": {"cache_read": 7000000}}
		}
	}
}`

func prices(tb testing.TB) *usage.Prices {
	tb.Helper()
	p, err := usage.ReadPrices([]byte(priceFile), "USD")
	require.NoError(tb, err)
	return p
}

func TestCost(t *testing.T) {
	const m = 1_000_000
	for _, of := range []struct {
		name  string
		model string
		usage usage.Usage
		want  usage.Cost
	}{
		{"each class has its rate", "sonnet",
			usage.Usage{Input: 1000, CacheWrite5m: 1000, CacheWrite1h: 1000, CacheRead: 1000, Output: 1000, Reasoning: 900},
			usage.Cost{Amount: 3000 + 3750 + 6000 + 300 + 15000}},
		{"a write of no lifetime has the dearest", "sonnet", usage.Usage{CacheWrite: 1000}, usage.Cost{Amount: 6000}},
		{"the sum is rounded up once", "gpt-5.2-mini", usage.Usage{Input: 1, Output: 1}, usage.Cost{Amount: 1}},
		{"at the threshold the input is not long", "sonnet", usage.Usage{Input: 100_000, CacheRead: 100_000},
			usage.Cost{Amount: 300_000 + 30_000}},
		{"above it all input and output is", "sonnet", usage.Usage{Input: 100_001, CacheRead: 100_000, Output: 10},
			usage.Cost{Amount: 200_001*6 + 225}},
		{"a tier has rates of its own", "sonnet", usage.Usage{Input: m, Tier: "priority"}, usage.Cost{Amount: 9 * m}},
		{"an ordinary tier has none", "sonnet", usage.Usage{Input: 1000, Tier: "standard"}, usage.Cost{Amount: 3000}},
		{"a tier without rates is said", "sonnet", usage.Usage{Input: 1000, Tier: "flex"}, usage.Cost{Amount: 3000, Unpriced: "tier"}},
		{"requests of tools", "sonnet", usage.Usage{Tools: requests(map[usage.Tool]int64{usage.WebSearch: 3})}, usage.Cost{Amount: 30_000}},
		{"a tool without a price is said", "sonnet", usage.Usage{Input: 1000, Tools: requests(map[usage.Tool]int64{usage.MCP: 3})},
			usage.Cost{Amount: 3000, Unpriced: "mcp"}},
		{"the name with the most characters counts", "gpt-5.2-mini", usage.Usage{Input: m}, usage.Cost{Amount: 75_000}},
		{"a name with a star", "gpt-5.2", usage.Usage{Input: m}, usage.Cost{Amount: m}},
		{"no name", "xgpt-5", usage.Usage{Input: m, Output: m}, usage.Cost{Unpriced: "model"}},
		{"a modality is a part of its class", "speech", usage.Usage{
			Input: 100, InputBy: by(map[usage.Modality]int64{usage.Audio: 40, usage.Image: 10}),
			Output: 50, OutputBy: by(map[usage.Modality]int64{usage.Audio: 50}),
			CacheRead: 100, CacheReadBy: by(map[usage.Modality]int64{usage.Audio: 10, usage.Image: 20}),
		}, usage.Cost{Amount: 40*10 + 60 + 50*20 + 10*10 + 20*7 + 7}},
		{"a part is never more than its class", "speech", usage.Usage{
			Input: 10, InputBy: by(map[usage.Modality]int64{usage.Audio: 400}),
		}, usage.Cost{Amount: 100}},
		{"too much for a number", "sonnet", usage.Usage{Input: math.MaxInt64, Output: math.MaxInt64}, usage.Cost{Amount: math.MaxInt64}},
	} {
		t.Run(of.name, func(t *testing.T) {
			require.Equal(t, of.want, prices(t).Cost(of.model, of.usage))
		})
	}
	t.Run("without prices nothing costs anything", func(t *testing.T) {
		var none *usage.Prices
		require.Equal(t, usage.Cost{Unpriced: "model"}, none.Cost("sonnet", usage.Usage{Input: 1}))
		most, ok := none.Most("sonnet", usage.Bound{Input: 1, ToolRequests: -1})
		require.True(t, ok)
		require.Zero(t, most)
		require.False(t, none.Has("sonnet"))
		require.True(t, prices(t).Has("gpt-9"))
	})
}

func TestMost(t *testing.T) {
	for _, of := range []struct {
		name  string
		model string
		bound usage.Bound
		want  int64
	}{
		{"the dearest class of any tier", "sonnet", usage.Bound{Input: 1000, Output: 10}, 9000 + 450},
		{"with the tools", "sonnet", usage.Bound{Input: 1000, ToolRequests: 2}, 9000 + 20_000},
		{"the dearest modality", "speech", usage.Bound{Input: 1000, Output: 10}, 10_000 + 200},
		{"no price", "other", usage.Bound{Input: 1000, Output: 10, ToolRequests: -1}, 0},
		{"no tools that cost", "gpt-5", usage.Bound{Input: 1000, ToolRequests: -1}, 1000},
	} {
		t.Run(of.name, func(t *testing.T) {
			most, ok := prices(t).Most(of.model, of.bound)
			require.True(t, ok)
			require.Equal(t, of.want, most)
		})
	}
	t.Run("tools that cost and have no bound have none", func(t *testing.T) {
		_, ok := prices(t).Most("sonnet", usage.Bound{ToolRequests: -1})
		require.False(t, ok)
	})
	t.Run("rates of long input count only where there can be so much", func(t *testing.T) {
		p, err := usage.ReadPrices([]byte(`{"currency":"EUR","date":"2026-08-01","models":{"*":{"input":1000000,"output":0,
			"above":[{"input_tokens":100,"input":5000000,"output":2000000},{"input_tokens":10,"input":3000000,"output":0}]}}}`), "")
		require.NoError(t, err)
		for input, want := range map[int64]int64{10: 10, 11: 33, 100: 300, 101: 505} {
			most, ok := p.Most("x", usage.Bound{Input: input})
			require.True(t, ok)
			require.Equal(t, want, most)
			require.Equal(t, want, p.Cost("x", usage.Usage{Input: input}).Amount)
		}
	})
	t.Run("no usage within the bound costs more", func(t *testing.T) {
		p := prices(t)
		for _, model := range []string{"sonnet", "speech", "gpt-5"} {
			most, _ := p.Most(model, usage.Bound{Input: 300_000, Output: 1000, ToolRequests: 5})
			for _, tier := range []string{"", "priority", "flex"} {
				for _, used := range []usage.Usage{
					{Input: 300_000, Output: 1000}, {CacheWrite: 300_000}, {CacheWrite1h: 300_000, Output: 1000},
					{CacheRead: 300_000, CacheReadBy: by(map[usage.Modality]int64{usage.Image: 300_000})},
					{Input: 300_000, InputBy: by(map[usage.Modality]int64{usage.Audio: 300_000}), Output: 1000},
					{Input: 100, Tools: requests(map[usage.Tool]int64{usage.WebSearch: 5})},
				} {
					used.Tier = tier
					require.LessOrEqual(t, p.Cost(model, used).Amount, most)
				}
			}
		}
	})
}

func TestReadPrices(t *testing.T) {
	require.Equal(t, time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC), prices(t).Date)
	require.Equal(t, "USD", prices(t).Currency)
	for _, wrong := range []struct{ replace, with, want string }{
		{`"USD"`, `"EUR"`, "currency: is EUR, and the limit is in USD"},
		{`"USD"`, `"usd"`, `currency: is "usd"; write a code`},
		{`"USD"`, `5`, "currency: is 5; write a text"},
		{`"currency": "USD",`, ``, "currency: is missing"},
		{`2026-08-01`, `01.08.2026`, `date: is "01.08.2026"`},
		{`"date"`, `"day"`, "date: is missing"},
		{`3000000`, `-3`, `models."sonnet".input: is -3; write a whole number`},
		{`3000000`, `3.5`, `models."sonnet".input: is 3.5`},
		{`3000000`, `"3"`, `models."sonnet".input: is "3"`},
		{`3000000`, `9000000000000000`, `models."sonnet".input: is 9000000000000000`},
		{`"cache_read": 300000,`, `"cache_reads": 1,`, `models."sonnet".cache_reads: is not known`},
		{`, "output": 8000000`, ``, `models."gpt-*".output: is missing`},
		{`"audio"`, `"smell"`, `models."speech".modalities."smell": is no modality`},
		{`"audio"`, `"Audio"`, `models."speech".modalities."Audio": is no modality`},
		{`"web_search"`, `"web_serach"`, `models."sonnet".tools."web_serach": is no tool`},
		{`10000}`, `-1}`, `models."sonnet".tools."web_search": is -1`},
		{`"input_tokens": 200000, `, ``, `models."sonnet".above[0].input_tokens: is missing`},
		{`[{"input_tokens": 200000, "input": 6000000, "output": 22500000}]`, `{}`, `models."sonnet".above: is {}`},
		{`"priority": {"input": 9000000, `, `"priority": {`, `models."sonnet".tiers."priority".input: is missing`},
		{`"gpt-*"`, `"sonnet"`, `models."sonnet": is there twice`},
		{`"gpt-*"`, `""`, "models: a model has no name"},
		{`"date"`, `"dates": 1, "date"`, "dates: is not known"},
		{priceFile, `[]`, "the file: is no JSON object"},
		{priceFile, `{`, "the file: is no JSON object"},
		{priceFile, ``, "the file: is no JSON object"},
	} {
		text := strings.Replace(priceFile, wrong.replace, wrong.with, 1)
		_, err := usage.ReadPrices([]byte(text), "USD")
		require.ErrorContains(t, err, "read prices: "+wrong.want)
	}
}

func FuzzReadPrices(f *testing.F) {
	f.Add(priceFile)
	f.Add(`{"currency":"USD","date":"2026-08-01","models":{"*":{"input":0,"output":0,"above":[1]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := usage.ReadPrices([]byte(text), "")
		if err != nil {
			return
		}
		for model := range p.Models {
			most, ok := p.Most(model, usage.Bound{Input: 1000, Output: 1000})
			require.True(t, ok)
			require.LessOrEqual(t, p.Cost(model, usage.Usage{Input: 400, CacheWrite: 600, Output: 1000}).Amount, most)
		}
	})
}

func TestPublished(t *testing.T) {
	for model, want := range map[string]usage.Maximum{
		"claude-opus-4-8":                     {Input: 1_000_000, Output: 128_000},
		"claude-opus-7":                       {Input: 1_000_000, Output: 128_000},
		"claude-haiku-4-5-20251001":           {Input: 200_000, Output: 64_000},
		"us.anthropic.claude-opus-4-20250514": {Input: 200_000, Output: 32_000},
		"anthropic/claude-3-5-haiku-20241022": {Input: 200_000, Output: 8_192},
		"gpt-5":                               {Input: 400_000, Output: 128_000},
		"gpt-5-2025-08-07":                    {Input: 400_000, Output: 128_000},
		"gpt-5.2-chat-latest":                 {Input: 128_000, Output: 16_384},
		"openai/gpt-5.6-sol":                  {Input: 1_050_000, Output: 128_000},
		"gpt-6.2-sol":                         {Input: 1_050_000, Output: 128_000},
		"gemini-4-argon":                      {Input: 1_048_576, Output: 65_536},
		"claude-fable-5-2":                    {Input: 1_000_000, Output: 128_000},
		"gpt-4o-2024-11-20":                   {Input: 128_000, Output: 16_384},
		"gpt-4o-2024-05-13":                   {Input: 128_000, Output: 4_096},
		"o3-mini":                             {Input: 200_000, Output: 100_000},
		"gemini-2.5-pro":                      {Input: 1_048_576, Output: 65_536},
		"models/gemini-2.0-flash-lite":        {Input: 1_048_576, Output: 8_192},
		"llama-4":                             {Output: 16_384},
		"":                                    {Output: 16_384},
	} {
		require.Equal(t, want, usage.Published(model), model)
	}
}

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
			require.Equal(t, c.own, a.Own)
			require.Equal(t, cmp.Or(c.floor, 1024), a.Floor)
			require.Equal(t, want, string(changed([]byte(body), a.Set(c.set)...)))
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
