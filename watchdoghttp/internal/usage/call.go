package usage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A Call is what a request asks of a model, as far as it matters to what that can use up. It keeps no text of the
// request but the name of the model and, where something cannot be bounded, the name of a field.
type Call struct {
	API API
	// Model is the one that the request names; it can be empty.
	Model string
	// Stream says that the answer is asked for as a stream.
	Stream bool
	// Usage says that a stream has usage: only Chat Completions has to be asked for it.
	Usage bool
	// Bytes is the length of the body; Parts are its messages and tools.
	Bytes, Parts int64

	output      int64 // the request's maximum, -1 if there is none
	extraOutput int64 // what comes on top of it
	candidates  int64
	toolUses    int64 // requests of the API's own tools at most, -1 for no maximum
	input       cause // why the input is not only text
	outputCause cause // why the request's maximum is none
}

// A cause is why something has no bound.
type cause struct {
	reason Reason
	part   string
}

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

// What inline text can cost beyond the bytes of its body: a call's own tokens, and those of each message and tool.
const (
	tokensOfCall = 1024
	tokensOfPart = 16
)

// Bound returns the most that the call can use. The declared maximum counts where the request has no bound, and where
// it is less: a model takes no more. Without either the error is an [*Unbounded].
//
// A token is at least one byte of text, and JSON writes no text in fewer bytes than it has. That holds for text alone.
// The tokens of an image follow from its size in pixels, of sound from its length, of a document from its pages, and a
// few compressed bytes can make each of these large. Encrypted content stands for text that may be longer.
func (c *Call) Bound(most Maximum) (Bound, error) {
	bound := Bound{Input: most.Input, Output: product(most.Output, c.candidates), ToolRequests: c.toolUses}
	if c.input.reason == Readable {
		bound.Input = atMost(sum(c.Bytes, tokensOfCall, product(tokensOfPart, c.Parts)), most.Input)
	}
	if c.output >= 0 && c.outputCause.reason == Readable {
		bound.Output = atMost(product(sum(c.output, c.extraOutput), c.candidates), bound.Output)
	}
	if c.toolUses < 0 && most.ToolRequests > 0 {
		bound.ToolRequests = most.ToolRequests
	}
	switch {
	case bound.Input == 0:
		return Bound{}, c.unbounded(c.input)
	case most.Output == 0 && c.outputCause.reason != Readable:
		return Bound{}, c.unbounded(c.outputCause)
	case most.Output == 0 && c.output < 0:
		return Bound{}, c.unbounded(cause{NoMaximum, ""})
	}
	return bound, nil
}

// atMost is the lesser of a count and a maximum, if there is one.
func atMost(n, most int64) int64 {
	if most == 0 {
		return n
	}
	return min(n, most)
}

func (c *Call) unbounded(why cause) error {
	return &Unbounded{Reason: why.reason, Part: why.part, Model: c.Model}
}

// Unknown returns a call of which only the route is known, and why. Only a declared maximum bounds it.
func (r Route) Unknown(why Reason) *Call {
	return &Call{
		API: r.API, Model: modelName(r.Model), Stream: r.Stream, Usage: true, output: -1, candidates: 1, toolUses: -1,
		input: cause{why, ""}, outputCause: cause{why, ""},
	}
}

// NotModel is the error of a request that has a path of a model API, and a body of another service.
type NotModel struct{ API API }

// Error says so.
func (n *NotModel) Error() string { return fmt.Sprintf("the request is none of %v", n.API) }

// ReadCall reads the body of a request. A body that is not what the API takes is a [*NotModel] if it has nothing of it,
// else a call that only a declared maximum bounds.
func ReadCall(route Route, body []byte) (*Call, error) {
	c := route.Unknown(Malformed)
	c.Bytes = int64(len(body))
	if !json.Valid(body) {
		return c, nil
	}
	v := value(bytes.TrimSpace(body))
	if v[0] != '{' || !isFor(route.API, v) {
		return nil, &NotModel{route.API}
	}
	c.input, c.outputCause, c.toolUses, c.Usage = cause{}, cause{}, 0, route.API != Chat
	r := &request{call: c}
	r.object(bodies[route.API], v, spellings[route.API])
	c.settle(v)
	if c.Model == "" {
		c.Model = modelName(route.Model)
	}
	return c, nil
}

// settle does what needs the whole request.
func (c *Call) settle(v value) {
	switch c.API {
	case Anthropic:
		if c.extraOutput < c.output { // the budget is a part of the maximum
			c.extraOutput = 0
		}
	case Responses:
		if most := memberNumber(v, "max_tool_calls"); most >= 0 && c.toolUses < 0 {
			c.toolUses = most
		}
	}
}

// isFor reports whether the body has what every request of the API has.
func isFor(api API, v value) bool {
	has := map[string]bool{}
	v.members(func(key string, _ value) {
		switch key {
		case "messages", "model", "input", "prompt", "previous_response_id", "conversation", "contents":
			has[key] = true
		}
	})
	switch api {
	case Responses:
		return has["prompt"] || has["model"] && (has["input"] || has["previous_response_id"] || has["conversation"])
	case Gemini:
		return has["contents"]
	}
	return has["messages"]
}

// bodies are the tables of the APIs' requests.
var bodies = [...]object{Anthropic: anthropicBody, Chat: chatBody, Responses: responsesBody, Gemini: geminiBody}

// spellings turn a key into the one that the tables have. Google's APIs take the names of protocol buffers too.
var spellings = [...]func(string) string{Anthropic: nil, Chat: nil, Responses: nil, Gemini: camelCase}

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
