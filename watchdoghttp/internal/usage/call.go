package usage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// A Call is what a request asks of a model, as far as it matters to what that can use up. It keeps no text of the
// request but the name of the model and, where something is not known or cannot be bounded, the name of a field: of its
// parts it has digests.
//
// It is for one goroutine at a time.
type Call struct {
	API API
	// Model is the one that the request names; it can be empty.
	Model string
	// Stream says that the answer is asked for as a stream.
	Stream bool
	// Usage says that a stream has usage: only Chat Completions has to be asked for it.
	Usage bool
	// Compacts says that it is a call to compact a conversation. The request has no maximum of output, and takes none.
	Compacts bool
	// Bytes is the length of the body; Parts are its messages and tools.
	Bytes, Parts int64

	output      int64 // the request's maximum, -1 if there is none
	extraOutput int64 // what comes on top of it
	candidates  int64
	toolUses    int64     // requests of the API's own tools at most, -1 for no maximum
	result      int64     // what one of them adds to the input at most
	rounds      int64     // calls that the API can make of it beside the one
	input       Unbounded // why the input is not all in the body
	outputCause Unbounded // why the request's maximum is none

	key     digest // of what can change what the API adds to the parts
	parts   []part // the turns of the conversation, and then what stands before it
	turns   int    // how many of the parts are turns
	own     int    // and how many of those come before the end of the last message of the user's own
	skipped int64  // bytes of the body that say nothing about tokens
	managed bool   // the API can shorten the conversation
	cut     bool   // or cut what does not fit
	vendor  bool   // it is for a vendor's own host
	unknown []string

	numbers []number // that say the maximum of output
	gap     gap      // where one is set if none does
	thinks  int64    // what it may think at most, inside of the maximum
	asks    Change   // what has a stream end with its usage

	// What Bound found: what each part can have, and the longest answer.
	costs   []int64
	longest int64
}

// What inline text can cost beyond the bytes of its body: a call's own tokens, and those of each message and tool.
const (
	tokensOfCall = 1024
	tokensOfPart = 16
)

// Unknown returns the names of fields and types that are not known here, and were counted by their bytes.
func (c *Call) Unknown() []string { return c.unknown }

// Bound returns the most that the call can use. The declared maximum counts where the request has no bound, and where
// it is less: a model takes no more. Without either the error is an [*Unbounded].
//
// A token is at least one byte of text, and JSON writes no text in fewer bytes than it has. That does not hold for
// media and for encrypted content: those have the most that their model takes, see [images] and [Published]. An earlier
// call of the run that had some of the same parts tells what those are, see [History].
func (c *Call) Bound(most Maximum, past *History) (Bound, error) {
	bound := Bound{Input: most.Input, Output: product(most.Output, c.candidates), ToolRequests: c.toolUses}
	known := Published(c.Model)
	if c.input.Reason == Readable {
		bound.Input = atMost(c.mostInput(most, known, past), most.Input)
	}
	if c.output >= 0 && c.outputCause.Reason == Readable {
		bound.Output = atMost(product(sum(c.output, c.extraOutput), c.candidates), bound.Output)
	}
	if c.Compacts && most.Output == 0 {
		bound.Output = known.Output
	}
	if c.toolUses < 0 && most.ToolRequests > 0 {
		bound.ToolRequests = most.ToolRequests
	}
	if err := c.unboundedIn(bound, most); err != nil {
		return Bound{}, err
	}
	c.longest = bound.Output
	bound.Output = product(bound.Output, 1+c.rounds)
	return bound, nil
}

func (c *Call) unboundedIn(bound Bound, most Maximum) error {
	switch {
	case bound.Input == 0:
		return c.unbounded(c.input)
	case bound.Output == 0 && c.outputCause.Reason != Readable:
		return c.unbounded(c.outputCause)
	case most.Output == 0 && c.output < 0 && !c.Compacts:
		return c.unbounded(Unbounded{Reason: NoMaximum})
	}
	return nil
}

// mostInput returns the most input that the call can have, by its parts alone or by what other calls have taught.
func (c *Call) mostInput(most, known Maximum, past *History) int64 {
	costs, more := c.costsOf(most, known)
	taught := past.least(c, costs)
	c.costs = costs
	input := sum(c.Bytes-c.skipped, tokensOfCall, product(tokensOfPart, c.Parts))
	for i, p := range c.parts {
		input = sum(input, less(costs[i], p.most))
	}
	if taught >= 0 {
		input = min(input, taught)
	}
	window := int64(0)
	if more || c.toolUses > 0 {
		window = cmp.Or(most.Input, known.Input)
	}
	return c.inRounds(input, window)
}

// TookIn reports whether the usage has all that the call took in.
func (c *Call) TookIn(result Result) bool {
	_, all := c.taught(result)
	return all
}

// taught returns what the call took in by its usage, whether it was read or cleared from the conversation before, and
// whether that says what its parts are.
func (c *Call) taught(result Result) (input int64, known bool) {
	input = sum(result.Usage.TokensIn(), result.Cleared)
	switch {
	case c.input.Reason != Readable, c.cut, input == 0, result.Unread != Readable, result.Rounds:
		return 0, false
	case c.API == Responses && c.managed:
		return 0, false
	case result.State == Final:
		return input, true
	}
	// Anthropic counts the input before it answers. What it clears, and what its tools find, it tells at the end.
	early := c.API == Anthropic && c.vendor && !c.managed && c.toolUses == 0 && c.rounds == 0
	return input, early && result.State == Partial
}

// atMost is the lesser of a count and a maximum, if there is one.
func atMost(n, most int64) int64 {
	if most == 0 {
		return n
	}
	return min(n, most)
}

func (c *Call) unbounded(why Unbounded) error {
	why.Model = c.Model
	return &why
}

// Unknown returns a call of which only the route is known, and why: the name of what is to blame can be empty. Only a
// declared maximum bounds it.
func (r Route) Unknown(why Reason, part string) *Call {
	blame := Unbounded{Reason: why, Part: partName(part)}
	return &Call{
		API: r.API, Model: modelName(r.Model), Stream: r.Stream, Usage: true, Compacts: r.Compacts, output: -1,
		candidates: 1, toolUses: -1, input: blame, outputCause: blame,
	}
}

// ReadCall reads a request, whose body is the one given. It returns nil if the body has nothing of what the API takes:
// then it is for another service. One that is no JSON is a call that only a declared maximum bounds.
func ReadCall(route Route, req *http.Request, body []byte) *Call {
	c := route.Unknown(Malformed, "")
	c.Bytes, c.vendor = int64(len(body)), ErrorsFree(req.URL.Hostname(), nil)
	if !json.Valid(body) {
		return c
	}
	v := value(bytes.TrimSpace(body))
	if v[0] != '{' || !isFor(route.API, v) {
		return nil
	}
	c.input, c.outputCause, c.toolUses, c.Usage = Unbounded{}, Unbounded{}, 0, route.API != Chat
	r := newRequest(c, body)
	inside := span{r.span(v).from + 1, r.span(v).from + 1}
	c.gap, c.asks = gaps[route.API], Change{inside, `"stream_options":{` + includeUsage + `},`}
	c.gap.at = inside
	r.object(bodyOf(route.API), v)
	if c.Model == "" {
		c.Model = modelName(route.Model)
	}
	r.settle(v)
	r.seal(req, v)
	return c
}

// settle does what needs the whole request.
func (r *request) settle(v value) {
	c := r.call
	if c.API == Anthropic && c.extraOutput < c.output { // the budget is a part of the maximum
		c.extraOutput = 0
	}
	if most := memberNumber(v, "max_tool_calls"); c.API == Responses && most >= 0 && r.endless != "" {
		c.toolUses, r.endless = most, ""
	}
	if r.endless != "" {
		r.blame(ServerTool, r.endless)
	}
	c.cut = c.API == Responses && memberText(v, "truncation") == "auto"
	for at, name := range r.loaded {
		r.turns[at].extra = sum(r.turns[at].extra, r.later[name])
	}
}

// isFor reports whether the body has what every request of the API has.
func isFor(api API, v value) bool {
	has := func(name string) bool { return hasMember(v, name) }
	switch api {
	case Responses:
		return has("prompt") || has("model") && (has("input") || has("previous_response_id") || has("conversation"))
	case Gemini:
		return has("contents")
	}
	return has("messages")
}

// bodyOf returns the table of an API's requests. All tables are made when a request is read first: a program that links
// the package and reads none, because it has a Transport and no Meter, has none of them.
func bodyOf(api API) object {
	tablesMade.Do(func() {
		makeAnthropic()
		makeBlocks()
		makeGemini()
		makePieces()
		makeChat()
		makeResponses()
		makeItems()
	})
	return [...]object{Anthropic: anthropicBody, Chat: chatBody, Responses: responsesBody, Gemini: geminiBody}[api]
}

var tablesMade sync.Once

// camelCase is how the tables have the names of protocol buffers, which Google's APIs take, too.
func camelCase(key string) string {
	if !strings.Contains(key, "_") {
		return key
	}
	words := strings.Split(key, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}
