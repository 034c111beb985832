package usage_test

import (
	"math"
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
