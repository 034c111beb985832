package usage

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// A Modality is a kind of content whose tokens can have a price of their own. Text is all that is no other.
type Modality uint8

// The modalities beside text.
const (
	Image Modality = iota
	Audio
	Video
	Document
	modalities
)

var modalityNames = [modalities]string{"image", "audio", "video", "document"}

func modalityNamed(name string) (m Modality, known bool) {
	i := slices.IndexFunc(modalityNames[:], func(known string) bool { return strings.EqualFold(name, known) })
	return Modality(max(i, 0)), i >= 0
}

// A Tool is one of an API's own tools, whose requests can have a price.
type Tool uint8

// The tools whose requests are counted. OtherTool is each that has no name here.
const (
	WebSearch Tool = iota
	WebFetch
	CodeExecution
	ToolSearch
	FileSearch
	CodeInterpreter
	ImageGeneration
	Computer
	MCP
	GoogleSearch
	OtherTool
	tools
)

var toolNames = [tools]string{
	"web_search", "web_fetch", "code_execution", "tool_search", "file_search", "code_interpreter", "image_generation",
	"computer", "mcp", "google_search", "other",
}

func toolNamed(name string) Tool {
	if tool := slices.Index(toolNames[:], name); tool >= 0 {
		return Tool(tool)
	}
	return OtherTool
}

// Usage is what a call used: tokens by class, which add up, and requests of the API's own tools. What the API counts
// twice, such as cached tokens inside the prompt, is counted once. The zero value is nothing.
type Usage struct {
	// Input are the tokens that were neither read from a cache nor written to one.
	Input int64
	// CacheWrite5m and CacheWrite1h are input that was written to a cache for that time; CacheWrite is for a time that the
	// API does not tell.
	CacheWrite, CacheWrite5m, CacheWrite1h int64
	// CacheRead is input that was read from a cache.
	CacheRead int64
	// Output are all tokens that the model made, with those of its reasoning.
	Output int64
	// Reasoning is the part of Output that was reasoning, where the API tells.
	Reasoning int64
	// InputBy, CacheReadBy and OutputBy are the parts of Input, CacheRead and Output that are no text.
	InputBy, CacheReadBy, OutputBy [modalities]int64
	// Tools are the requests of the API's own tools. For Gemini they are the queries of its search.
	Tools [tools]int64
	// Tier is the API's name for how the call was served, or empty.
	Tier string
}

// TokensIn returns all input, cached or not.
func (u *Usage) TokensIn() int64 {
	return sum(u.Input, u.CacheWrite, u.CacheWrite5m, u.CacheWrite1h, u.CacheRead)
}

// TokensOut returns all output.
func (u *Usage) TokensOut() int64 { return u.Output }

// A Maximum is what a host declares that one call of a model can use: with the API's own tools, of all rounds that one
// call makes with them, each of which reads the whole input again. Zero is nothing declared.
type Maximum struct {
	Input, Output int64
	// ToolRequests is the most requests of the API's own tools.
	ToolRequests int64
}

// A Bound is the most that a call can use.
type Bound struct {
	Input, Output int64
	// ToolRequests is -1 if there is no bound.
	ToolRequests int64
}

// sum adds counts that are not negative. A sum that is too much for a number is the largest one.
func sum(counts ...int64) (total int64) {
	for _, count := range counts {
		if count > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += count
	}
	return total
}

// product multiplies counts that are not negative, as sum adds them.
func product(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// less subtracts, but never to less than zero.
func less(from int64, parts ...int64) int64 { return max(0, from-sum(parts...)) }

// Best returns what stands under the name that matches the model best, in which a "*" stands for any characters. Of two
// that match as well, the first in the alphabet counts.
func Best[T any](byName map[string]T, model string) (T, bool) {
	if exact, ok := byName[model]; ok {
		return exact, true
	}
	best, found := "", false
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if matches(name, model) && (!found || literal(name) > literal(best)) {
			best, found = name, true
		}
	}
	return byName[best], found
}

// literal is how many characters of a name stand for themselves.
func literal(name string) int { return len(name) - strings.Count(name, "*") }

func matches(name, model string) bool {
	parts := strings.Split(name, "*")
	if len(parts) == 1 {
		return name == model
	}
	rest, ok := strings.CutPrefix(model, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
