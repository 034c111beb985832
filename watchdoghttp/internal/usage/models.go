package usage

import "sync"

// published are the context windows and the longest answers of the models that their vendors publish, by their names,
// in which a "*" stands for any characters; see [Best]. Where a beta or a tier makes one larger, that counts, because
// what a call is bounded by must not be less than what it can use. The names of Anthropic and of Google have the
// families that came after the table, too, with the most that any model of theirs has.
//
// As of 2026-11-27: the numbers are those of the vendors' pages, of their SDKs, and of models.dev, which collects them.
var published = sync.OnceValue(func() map[string]Maximum {
	return map[string]Maximum{
		"*claude-*": {Input: 1_000_000, Output: 128_000},

		"*claude-3-haiku*": {Input: 200_000, Output: 4_096}, "*claude-3-opus*": {Input: 200_000, Output: 4_096},
		"*claude-3-sonnet*":   {Input: 200_000, Output: 4_096},
		"*claude-3-5-*":       {Input: 200_000, Output: 8_192},
		"*claude-3-7-sonnet*": {Input: 200_000, Output: 128_000}, // with the beta of long output
		"*claude-opus-4-0*":   {Input: 200_000, Output: 32_000}, "*claude-opus-4-1*": {Input: 200_000, Output: 32_000},
		"*claude-opus-4-2025*": {Input: 200_000, Output: 32_000}, "*claude-opus-4-5*": {Input: 200_000, Output: 64_000},
		"*claude-haiku-4-5*":  {Input: 200_000, Output: 64_000},
		"*claude-sonnet-4-0*": {Input: 1_000_000, Output: 64_000}, "*claude-sonnet-4-5*": {Input: 1_000_000, Output: 64_000},
		"*claude-sonnet-4-2025*": {Input: 1_000_000, Output: 64_000},

		"*gpt-3.5-*": {Input: 16_385, Output: 4_096}, "*gpt-4": {Input: 8_192, Output: 8_192},
		"*gpt-4-turbo*": {Input: 128_000, Output: 4_096}, "*gpt-4.1*": {Input: 1_047_576, Output: 32_768},
		"*gpt-4o*": {Input: 128_000, Output: 16_384}, "*gpt-4o-2024-05-13": {Input: 128_000, Output: 4_096},
		"*gpt-oss-*": {Input: 131_072, Output: 131_072},
		"*gpt-5*":    {Input: 1_050_000, Output: 128_000}, "*gpt-5-*": {Input: 400_000, Output: 128_000},
		"*gpt-5": {Input: 400_000, Output: 128_000}, "*gpt-5-pro*": {Input: 400_000, Output: 272_000},
		"*gpt-5.1*": {Input: 400_000, Output: 128_000}, "*gpt-5.2*": {Input: 400_000, Output: 128_000},
		"*gpt-5.3-codex*": {Input: 400_000, Output: 128_000}, "*gpt-5.3-codex-spark*": {Input: 128_000, Output: 32_000},
		"*gpt-5.4-mini*": {Input: 400_000, Output: 128_000}, "*gpt-5.4-nano*": {Input: 400_000, Output: 128_000},
		"*gpt-5.*-chat-latest": {Input: 128_000, Output: 16_384}, "*gpt-5-chat-latest": {Input: 400_000, Output: 128_000},
		"*gpt-6*":            {Input: 1_050_000, Output: 128_000},
		"*codex-mini-latest": {Input: 200_000, Output: 100_000},
		"o1*":                {Input: 200_000, Output: 100_000}, "o3*": {Input: 200_000, Output: 100_000},
		"o4-mini*": {Input: 200_000, Output: 100_000}, "*/o1*": {Input: 200_000, Output: 100_000},
		"*/o3*": {Input: 200_000, Output: 100_000}, "*/o4-mini*": {Input: 200_000, Output: 100_000},

		"*gemini-*":   {Input: 1_048_576, Output: 65_536},
		"*gemini-2.0": {Input: 1_048_576, Output: 8_192}, "*gemini-2.0-*": {Input: 1_048_576, Output: 8_192},
		"*gemini-2.5-flash-image*": {Input: 65_536, Output: 32_768},
		"*gemini-*-tts":            {Input: 8_192, Output: 16_384},
		"*gemini-3-pro-image*":     {Input: 131_072, Output: 32_768},
		"*gemini-3.1-flash-image*": {Input: 131_072, Output: 65_536},
	}
})

// unpublishedOutput is the longest answer of a model that is not in the table: few take a larger maximum, and fewer
// refuse this one.
const unpublishedOutput = 16_384

// Published returns what the model can take and answer at most by what its vendor has published: the context window,
// 0 if it is not known, and the longest answer. What a host declares wins over it.
func Published(model string) Maximum {
	if most, known := Best(published(), model); known {
		return most
	}
	return Maximum{Output: unpublishedOutput}
}
