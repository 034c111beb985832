package usage

import (
	"math"
	"sync"
)

// An apiTool is a tool that the API defines, not the request.
type apiTool struct {
	// tokens are its definition's, and those of what the API tells the model about it.
	tokens int64
	// result is how many tokens one result adds to the input, of a tool that the API runs by itself, up to max_uses or
	// max_tool_calls.
	result int64
	// never is a tool that has no bound, whatever maximum the request has.
	never bool
}

// What a tool adds to the input for which no vendor documents a number. All are generous: documented are 245 tokens for
// Anthropic's bash, 700 for its text editor, and 735 and a system prompt of 499 for its computer.
const (
	toolTokens        = 2_048   // a tool's definition
	toolsetTokens     = 32_768  // those of a set of them
	unknownToolTokens = 4_096   // that of one which is not in the table
	resultTokens      = 32_768  // the result of a search: the texts of ten pages
	fetchTokens       = 160_000 // a page: Anthropic names 125,000 for a long PDF
)

// apiTools are the tools that APIs define, by their types, in which a "*" stands for any characters, and by the keys
// that Gemini has for them. As of 2026-11-27. Tools that search what the request does not have, and those with a
// container, a model or a server of their own, have no bound.
var apiTools = map[string]apiTool{
	"bash_*": {tokens: toolTokens}, "text_editor_*": {tokens: toolTokens}, "computer_*": {tokens: toolTokens},
	"memory_*":          {tokens: toolTokens},
	"browser_toolset_*": {tokens: toolsetTokens}, "computer_toolset_*": {tokens: toolsetTokens},
	"web_search_2*":     {tokens: toolTokens, result: resultTokens},
	"web_fetch_*":       {tokens: toolTokens, result: fetchTokens},
	"code_execution_*":  {tokens: toolTokens, result: resultTokens},
	"tool_search_tool*": {tokens: toolTokens, result: resultTokens},
	"advisor_*":         {never: true}, "mcp_toolset": {never: true},

	"local_shell": {tokens: toolTokens}, "shell": {tokens: toolTokens}, "apply_patch": {tokens: toolTokens},
	"computer": {tokens: toolTokens}, "computer-preview": {tokens: toolTokens}, "tool_search client": {tokens: toolTokens},
	"tool_search":         {tokens: toolTokens, result: resultTokens},
	"web_search":          {tokens: toolTokens, result: resultTokens},
	"web_search_preview*": {tokens: toolTokens, result: resultTokens},
	"file_search":         {never: true}, "code_interpreter": {never: true}, "image_generation": {never: true},
	"mcp": {never: true}, "programmatic_tool_calling": {never: true},

	"computerUse": {tokens: toolTokens}, "googleSearch": {result: resultTokens},
	"googleSearchRetrieval": {result: resultTokens}, "googleMaps": {result: resultTokens},
	"enterpriseWebSearch": {result: resultTokens}, "urlContext": {result: fetchTokens},
	"codeExecution": {result: resultTokens}, "parallelAiSearch": {result: resultTokens},
	"exaAiSearch": {result: resultTokens}, "fileSearch": {never: true}, "retrieval": {never: true},
	"mcpServers": {never: true},
}

// apiTool takes a tool that the API defines, with the most times that the API uses it, -1 for any number.
func (r *request) apiTool(name string, most int64) {
	tool, known := Best(apiTools, name)
	if !known {
		r.tell(name)
		tool.tokens = unknownToolTokens
	}
	r.at.extra = sum(r.at.extra, tool.tokens)
	r.tools = append(r.tools, name)
	switch {
	case tool.never:
		r.blame(ServerTool, name)
		r.call.toolUses = -1
	case tool.result > 0:
		r.serverTool(name, most, tool.result)
	}
}

// serverTool notes a tool that the API runs by itself: with the most requests that it makes, -1 for any number, and how
// many tokens one result has. After each the model reads all of its input again.
func (r *request) serverTool(name string, most, result int64) {
	c := r.call
	c.result = max(c.result, result)
	if most < 0 && c.toolUses >= 0 {
		c.toolUses, r.endless = -1, name
	}
	if c.toolUses >= 0 {
		c.toolUses = sum(c.toolUses, most)
	}
}

// loadedLater notes a tool that is no input but where a part names it.
func (r *request) loadedLater(tool value) {
	if memberOf(tool, "defer_loading").isTrue() {
		name := memberText(tool, "name")
		r.later[name] = max(r.later[name], int64(len(tool))+tokensOfPart)
	}
}

// toolReference is a field that names a tool which is loaded with it. The length of that is known when all tools are.
func toolReference(r *request, v value) {
	text(r, v)
	r.at.loads = v.text()
}

// inRounds returns what a call takes in whose input is read more than once: again after each use of a tool that the API
// runs, with the results so far, and before the call, to compact what it has. None is larger than the window.
func (c *Call) inRounds(input, window int64) int64 {
	if window == 0 {
		window = math.MaxInt64
	}
	const most = 1000 // uses that are counted one by one
	total, uses := min(input, window), max(0, c.toolUses)
	for use := int64(1); use <= uses; use++ {
		next := min(window, sum(input, product(use, c.result)))
		if next == window || use == most {
			total = sum(total, product(uses-use+1, max(next, window)))
			break
		}
		total = sum(total, next)
	}
	return product(total, 1+c.rounds)
}

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
