package usage

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// An Allowance is the maximum of output that a request names, and where it stands in the body, so that it can be
// lowered there, or set.
type Allowance struct {
	// Own is what the request allows for each answer, -1 if it says nothing.
	Own int64
	// Answers is how many it asks for, at least 1.
	Answers int64
	// Floor is the least for each answer that leaves room for one: what it thinks first, and a short text.
	Floor int64
	// Fixed says that the body must stay as it is.
	Fixed bool

	numbers []number // that say it
	set     gap      // of one that is set where none does
	thinks  int64    // what it may think at most
}

// A number stands at a place of a body.
type number struct {
	at   span
	says int64
}

// A gap is what of a body a number takes the place of, and what stands around it there.
type gap struct {
	at            span
	before, after string
}

// A span is a part of a body.
type span struct{ from, to int }

// shortest is the least that is left for the text of an answer, and shortestTaken what Responses take at least.
const (
	shortest      = 1024
	shortestTaken = 16
)

// fixedHosts refuse requests with a maximum of output: that of Codex with an account of ChatGPT.
var fixedHosts = []string{"chatgpt.com"}

// attribution is how Claude Code marks a request whose body it has hashed: one that is changed is not its own.
var attribution = []byte("x-anthropic-billing-header:")

// AllowanceOf reads the allowance of a request of an API to a host. The body has to be an object of valid JSON.
func AllowanceOf(api API, host string, header http.Header, body []byte) *Allowance {
	a := &Allowance{Own: -1, Answers: 1}
	a.Fixed = slices.Contains(fixedHosts, host) || api == Anthropic && bytes.Contains(body, attribution)
	in := bytes.IndexByte(body, '{')
	a.set = gap{span{in + 1, in + 1}, allowanceNames[api].before, allowanceNames[api].after}
	eachAt(body, in, func(key string, at span) { a.member(api, body, key, at) })
	if api == Anthropic && interleaves(header, body) {
		a.thinks = 0 // the budget is of all rounds, and may be more than the maximum
	}
	a.Floor = a.thinks + shortest
	if a.Own >= 0 {
		a.Floor = min(a.Floor, a.Own)
	}
	if api == Responses && a.Own != 0 {
		a.Floor = max(a.Floor, shortestTaken)
	}
	return a
}

// member takes a member of the request.
func (a *Allowance) member(api API, body []byte, key string, at span) {
	v := value(body[at.from:at.to])
	if api == Gemini {
		key = camelCase(key)
	}
	switch {
	case slices.Contains(allowanceNames[api].read, key):
		a.read(v, at)
	case slices.Contains(allowanceNames[api].answers, key):
		a.answers(v)
	case key == "thinking" && api == Anthropic && v[0] == '{':
		a.thinks = max(memberNumber(v, "budget_tokens"), 0)
	case key == "generationConfig" && api == Gemini:
		a.config(body, at)
	}
}

// allowanceNames are the fields that have the maximum, the one that is set where there is none, and those that say how
// many answers there are.
var allowanceNames = [...]struct {
	read, answers []string
	before, after string
}{
	Anthropic: {read: []string{"max_tokens"}, before: `"max_tokens":`, after: ","},
	Chat: {
		read: []string{"max_tokens", "max_completion_tokens"}, answers: []string{"n", "best_of"},
		before: `"max_completion_tokens":`, after: ",",
	},
	Responses: {read: []string{"max_output_tokens"}, before: `"max_output_tokens":`, after: ","},
	Gemini:    {before: `"generationConfig":{"maxOutputTokens":`, after: "},"},
}

// read takes a number. Of several the largest counts, as for the bound.
func (a *Allowance) read(v value, at span) {
	n, ok := v.number()
	switch {
	case ok:
		a.Own = max(a.Own, n)
		a.numbers = append(a.numbers, number{at, n})
	case string(v) == "null":
		a.set = gap{at: at}
	default:
		a.Fixed = true
	}
}

func (a *Allowance) answers(v value) {
	if n, ok := v.number(); ok {
		a.Answers = max(a.Answers, n)
	}
}

// config reads the object that has Gemini's maximum.
func (a *Allowance) config(body []byte, at span) {
	switch {
	case string(body[at.from:at.to]) == "null":
		a.set = gap{at, `{"maxOutputTokens":`, "}"}
		return
	case body[at.from] != '{':
		a.Fixed = true
		return
	}
	a.set = gap{span{at.from + 1, at.from + 1}, `"maxOutputTokens":`, ","}
	if value(body[at.from:at.to]).isEmptyObject() {
		a.set.after = ""
	}
	eachAt(body, at.from, func(key string, at span) {
		switch member := value(body[at.from:at.to]); camelCase(key) {
		case "maxOutputTokens":
			a.read(member, at)
		case "candidateCount":
			a.answers(member)
		}
	})
}

// interleaves reports whether a request of Anthropic's may think between the calls of tools.
func interleaves(header http.Header, body []byte) bool {
	const beta = "interleaved-thinking"
	return strings.Contains(strings.Join(header.Values("Anthropic-Beta"), ","), beta) ||
		bytes.Contains(body, []byte(`"`+beta))
}

// CanChange reports whether the call's maximum of output can be lowered, or set.
func (a *Allowance) CanChange(c *Call) bool {
	return a != nil && !a.Fixed && !c.Compacts && c.outputCause.reason == Readable
}

// Wants is the most that each answer can have: what the request says, else what is declared, else what its model can
// answer, but not more than most answers ever need.
func (a *Allowance) Wants(c *Call, declared Maximum) int64 {
	switch {
	case a.Own >= 0:
		return atMost(a.Own, declared.Output)
	case declared.Output > 0:
		return declared.Output
	}
	return max(min(Published(c.Model).Output, longestSet)/a.Answers, 1)
}

// longestSet is the largest maximum that is set where a request has none.
const longestSet = 32_768

// Allow has the call have that maximum for each answer.
func (c *Call) Allow(most int64) { c.output = most }

// OutputOf is the output that the call can use if each answer has that maximum.
func (c *Call) OutputOf(most int64) int64 {
	return product(product(sum(most, c.extraOutput), c.candidates), 1+c.rounds)
}

// AnswerOf is the inverse of OutputOf, rounded down.
func (c *Call) AnswerOf(output int64) int64 {
	return less(output/product(max(c.candidates, 1), 1+c.rounds), c.extraOutput)
}

// Set returns the changes of the body to at most that for each answer.
func (a *Allowance) Set(most int64) (changes []Change) {
	lower := strconv.FormatInt(most, 10)
	if a.Own < 0 {
		return []Change{{a.set.at, a.set.before + lower + a.set.after}}
	}
	for _, n := range a.numbers {
		if n.says > most {
			changes = append(changes, Change{n.at, lower})
		}
	}
	return changes
}

// eachAt calls each with the members of the object that begins there, and where their values are.
func eachAt(body []byte, from int, each func(key string, at span)) {
	v := value(body[from:])
	for i := skipSpace(v, 1); v[i] != '}'; {
		end := endOf(v, i)
		key := v[i:end].text()
		i = skipSpace(v, skipSpace(v, end)+1)
		end = endOf(v, i)
		each(key, span{from + i, from + end})
		i = afterComma(v, end)
	}
}
