package usage

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// A tally keeps the counts of one response. What an event says counts when its JSON is whole and had usage. Later
// counts replace earlier ones, because every API sends running totals.
type tally struct {
	api   API
	total counts

	seen      bool // usage that can be read
	malformed bool // the last usage could not be
	over      bool // the last usage was that of the end
	empty     bool // it came without a choice
	cut       bool // an answer ended at its maximum
	array     bool // the response is an array
	whole     bool // and has ended
}

// counts are the numbers and names of a response so far.
type counts struct {
	count [countSlots]int64
	by    [len(modalityDetails)][modalities]int64
	tools [tools]int64
	// roundIn and roundOut are those of calls that the API made besides, each the sum of all.
	roundIn, roundOut int64
	// cleared is what the API cleared from the conversation before it was read, in tokens.
	cleared int64
	// rounds says that the API made other calls of a model besides.
	rounds bool

	model, tier, speed string
}

// members are those of an object of a response, as far as they stand on its API's paths: a json.Number is a number or a
// word, and other values are members, lists, strings and skipped.
type members map[string]any

// skipped stands for an array or an object that is kept nowhere.
type skipped struct{}

// at returns what stands at a path without arrays, nil for null and for nothing.
func (m members) at(path string) any {
	first, rest, further := strings.Cut(path, ".")
	v := m[first]
	switch inner, _ := v.(members); {
	case v == json.Number("null"):
		return nil
	case further:
		return inner.at(rest)
	}
	return v
}

// elements returns the objects of a list.
func (m members) elements(path string) (all []members) {
	list, _ := m.at(path).([]any)
	for _, v := range list {
		if element, ok := v.(members); ok {
			all = append(all, element)
		}
	}
	return all
}

func (m members) text(path string) string {
	text, _ := m.at(path).(string)
	return text
}

// An event is one event of a response, or the whole, while it is read.
type event struct {
	counts

	bad     bool // a count of it is none
	stopped bool // it says why the model stopped, or that the response is over
	cut     bool
}

// take takes a whole response or event. One without usage is of no account.
func (t *tally) take(m members) {
	hasUsage := func(path string) bool { _, is := m.at(path).(members); return is }
	if !slices.ContainsFunc(usagePaths, hasUsage) {
		return
	}
	e := event{counts: t.total}
	for _, p := range placesOf(t.api).places {
		if strings.Contains(p.path, "[]") {
			continue
		}
		e.take(p.slot, m.at(p.path))
	}
	choices, _ := m.at("choices").([]any)
	for _, answer := range slices.Concat(m.elements("choices"), m.elements("candidates")) {
		e.cut = e.cut || isCut(answer.text("finish_reason")) || isCut(answer.text("finishReason"))
	}
	switch t.api {
	case Gemini:
		e.ofGemini(m)
	case Anthropic, Chat:
		e.ofMessage(m)
		inner, _ := m.at("message").(members)
		e.ofMessage(inner)
	case Responses:
		inner, _ := m.at("response").(members)
		e.called(slices.Concat(m.elements("output"), inner.elements("output")))
	}
	if t.malformed = e.bad; t.malformed {
		return
	}
	t.seen, t.over, t.empty, t.cut = true, e.stopped, len(choices) == 0, t.cut || e.cut
	t.total = e.counts
}

// usagePaths are where usage is, in one API or another.
var usagePaths = []string{"usage", "usageMetadata", "message.usage", "response.usage"}

// take takes what stands at a place. Nothing is as if it were not there.
func (e *event) take(s slot, v any) {
	text, _ := v.(string)
	switch {
	case v == nil:
	case s < countSlots:
		e.count[s] = e.number(v)
	case s == slotModel:
		setName(&e.model, text)
	case s == slotTier:
		setName(&e.tier, strings.ToLower(text))
	case s == slotSpeed:
		setName(&e.speed, strings.ToLower(text))
	case s == slotState:
		e.stopped = isOver(text)
	case s == slotStop:
		e.stopped = text != ""
		e.cut = e.cut || isCut(text)
	case s == slotCut:
		e.cut = e.cut || isCut(text)
	}
}

// setName sets a name to another one, if it looks like one.
func setName(to *string, name string) {
	if name = partName(name); name != "" {
		*to = name
	}
}

// number reads a count. What is none makes the usage unreadable.
func (e *event) number(v any) int64 {
	text, ok := v.(json.Number)
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case text == "null":
		return 0
	case !ok || err != nil || n < 0:
		e.bad = true
		return 0
	}
	return n
}

// numberAt reads a count of an object. One that is not there is 0.
func (e *event) numberAt(m members, name string) int64 {
	if v := m.at(name); v != nil {
		return e.number(v)
	}
	return 0
}

// ofMessage takes what messages have beside counts: the requests of tools, what was cleared, and the calls that the API
// made besides.
func (e *event) ofMessage(m members) {
	requests, _ := m.at("usage.server_tool_use").(members)
	var used [tools]int64
	for name := range requests {
		tool := toolNamed(strings.TrimSuffix(name, "_requests"))
		used[tool] = sum(used[tool], e.numberAt(requests, name))
	}
	e.atLeast(used)
	var cleared int64
	for _, edit := range m.elements("context_management.applied_edits") {
		cleared = sum(cleared, e.numberAt(edit, "cleared_input_tokens"))
	}
	e.cleared = max(e.cleared, cleared)
	var in, out int64
	rounds := false
	for _, round := range m.elements("usage.iterations") {
		if round.text("type") == "message" { // it is the call itself, whose usage is told apart
			continue
		}
		rounds = true
		for _, name := range []string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"} {
			in = sum(in, e.numberAt(round, name))
		}
		out = sum(out, e.numberAt(round, "output_tokens"))
	}
	if rounds {
		e.rounds, e.roundIn, e.roundOut = true, in, out
	}
}

// called takes the items of a response's output: calls of the API's own tools are among them.
func (e *event) called(items []members) {
	var used [tools]int64
	for _, item := range items {
		called, is := strings.CutSuffix(item.text("type"), "_call")
		if is && !slices.Contains(hostTools, called) {
			used[toolNamed(called)]++
		}
	}
	e.atLeast(used)
}

// hostTools are those that the host runs.
var hostTools = []string{"function", "custom_tool", "local_shell", "shell", "apply_patch"}

// atLeast takes the requests of tools, which are running totals.
func (e *event) atLeast(used [tools]int64) {
	for tool, requests := range used {
		e.tools[tool] = max(e.tools[tool], requests)
	}
}

// ofGemini takes what Gemini has beside counts: tokens by modality, and the queries of its search.
func (e *event) ofGemini(m members) {
	for group, name := range modalityDetails {
		var by [modalities]int64
		named := false
		for _, detail := range m.elements("usageMetadata." + name) {
			size := e.numberAt(detail, "tokenCount")
			if m, known := modalityNamed(detail.text("modality")); known {
				by[m], named = sum(by[m], size), true
			}
		}
		if named {
			e.by[group] = by
		}
	}
	var used [tools]int64
	for _, candidate := range m.elements("candidates") {
		queries, _ := candidate.at("groundingMetadata.webSearchQueries").([]any)
		used[GoogleSearch] += int64(len(queries))
	}
	e.atLeast(used)
}

// modalityDetails are the lists of Gemini's tokens by modality: of input, of what of it was cached, of what tools gave
// the model, and of output.
var modalityDetails = [...]string{
	"promptTokensDetails", "cacheTokensDetails", "toolUsePromptTokensDetails", "candidatesTokensDetails",
}

// isOver reports whether a response of that status, or an event or object of that type, is the last.
func isOver(state string) bool {
	switch strings.TrimPrefix(state, "response.") {
	case "completed", "incomplete", "failed", "cancelled":
		return true
	}
	return state == "response.compaction"
}

// isCut reports whether an answer ended for that reason because it had as much as it may.
func isCut(reason string) bool {
	switch reason {
	case "max_tokens", "length", "max_output_tokens", "MAX_TOKENS":
		return true
	}
	return false
}

// usage turns the counts of the API's wire format into classes that add up.
func (t *tally) usage() Usage {
	c := &t.total
	u := Usage{
		Input: c.count[slotInput], Output: c.count[slotOutput], Reasoning: c.count[slotReasoning],
		CacheRead: c.count[slotCacheRead], CacheWrite: c.count[slotCacheWrite], Tools: c.tools, Tier: c.tier,
	}
	switch t.api {
	case Anthropic:
		c.anthropic(&u)
	case Gemini:
		c.gemini(&u)
	default:
		c.openAI(&u)
	}
	return u
}

// anthropic: the classes of input add up. What was written to a cache without a lifetime stays without one. Calls that
// the API made besides, such as one to compact the conversation, come on top.
func (c *counts) anthropic(u *Usage) {
	u.CacheWrite5m, u.CacheWrite1h = c.count[slotCacheWrite5m], c.count[slotCacheWrite1h]
	u.CacheWrite = less(u.CacheWrite, u.CacheWrite5m, u.CacheWrite1h)
	u.Input, u.Output = sum(u.Input, c.roundIn), sum(u.Output, c.roundOut)
	if c.speed == "fast" {
		u.Tier = "fast"
	}
}

// openAI: what is cached is inside the prompt, and reasoning inside the output. Compatible servers leave reasoning out
// of it, and have it in the total only.
func (c *counts) openAI(u *Usage) {
	u.Input = less(u.Input, u.CacheRead, u.CacheWrite)
	u.InputBy[Audio], u.InputBy[Image] = c.count[slotInputAudio], c.count[slotInputImage]
	u.OutputBy[Audio], u.OutputBy[Image] = c.count[slotOutputAudio], c.count[slotOutputImage]
	c.addUnnamed(u)
}

// gemini: what is cached is inside the prompt; thoughts, and what tools gave the model, come on top.
func (c *counts) gemini(u *Usage) {
	u.Input = sum(less(u.Input, u.CacheRead), c.count[slotToolInput])
	u.Output, u.Reasoning = sum(u.Output, c.count[slotThoughts]), c.count[slotThoughts]
	prompt, cached, tool := c.by[0], c.by[1], c.by[2]
	u.OutputBy, u.CacheReadBy = c.by[3], cached
	for m := range modalities {
		u.InputBy[m] = sum(less(prompt[m], cached[m]), tool[m])
	}
	c.addUnnamed(u)
}

// addUnnamed adds what the API's total has beyond its parts to the output, the dearer class.
func (c *counts) addUnnamed(u *Usage) {
	u.Output = sum(u.Output, less(c.count[slotTotal], u.TokensIn(), u.Output))
}
