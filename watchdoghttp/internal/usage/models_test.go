package usage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"
)

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
