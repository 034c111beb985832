package usage

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Peek returns the body of a request, read from a copy that the request makes of it: what is sent stays as it is. One
// with Bytes, as that of modelproxy, is read where it lies. Peek reads no more than the limit, and decompresses gzip to
// no more than that. If it cannot read the body the reason is not Readable.
func Peek(req *http.Request, limit int64) (body []byte, why Reason) {
	encoding := strings.ToLower(req.Header.Get("Content-Encoding"))
	switch {
	case !slices.Contains([]string{"", "identity", "gzip", "x-gzip"}, encoding):
		return nil, Encoded
	case req.Body == nil || req.Body == http.NoBody:
		return nil, Readable
	case req.ContentLength > limit:
		return nil, TooLong
	case req.GetBody == nil:
		return nil, Unseekable
	}
	again, err := req.GetBody()
	if err != nil {
		return nil, Unseekable
	}
	body, err = readAll(again, req.ContentLength, limit)
	closeErr := again.Close()
	switch {
	case int64(len(body)) > limit:
		return nil, TooLong
	case err != nil || closeErr != nil:
		return nil, Unseekable
	case strings.HasSuffix(encoding, "gzip"):
		return unzip(body, limit)
	}
	return body, Readable
}

// readAll reads a body of that length, if it is known, up to a byte beyond the limit.
func readAll(r io.Reader, length, limit int64) ([]byte, error) {
	if held, ok := r.(interface{ Bytes() []byte }); ok {
		if all := held.Bytes(); int64(len(all)) == length { // not only what was read until now
			return all, nil
		}
	}
	var body bytes.Buffer
	body.Grow(int(max(length, 0)) + bytes.MinRead) // what is read is held once, and grows no more
	_, err := body.ReadFrom(io.LimitReader(r, limit+1))
	return body.Bytes(), err
}

func unzip(zipped []byte, limit int64) (body []byte, why Reason) {
	reader, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, Encoded
	}
	body, err = io.ReadAll(io.LimitReader(reader, limit+1))
	switch {
	case int64(len(body)) > limit:
		return nil, TooLong
	case err != nil:
		return nil, Encoded
	}
	return body, Readable
}

// includeUsage is what a stream of Chat Completions needs to end with its usage.
const includeUsage = `"include_usage":true`

// A Change is what is sent in the place of a part of a body.
type Change struct {
	at   span
	text string
}

// Pieces returns a body with changes as what is sent of it, in order: all other bytes lie where they are. Of changes at
// one place the first comes first.
func Pieces(body []byte, changes []Change) [][]byte {
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.at.from, b.at.from) })
	pieces, from := make([][]byte, 0, 2*len(changes)+1), 0
	for _, c := range changes {
		pieces = append(pieces, body[from:c.at.from], []byte(c.text))
		from = c.at.to
	}
	return append(pieces, body[from:])
}

// WithUsage returns the change of a request for a stream of Chat Completions to one with include_usage, and whether it
// needs one. A request that sets it already, to whatever, is left alone.
func (c *Call) WithUsage() (change Change, ok bool) {
	needs := c.API == Chat && c.Stream && !c.Usage && c.input.Reason != Malformed
	return c.asks, needs && c.asks != Change{}
}

func hasMember(v value, name string) (has bool) {
	v.members(func(key string, _ value) { has = has || key == name })
	return has
}

func (v value) isEmptyObject() bool { return v[skipSpace(v, 1)] == '}' }

// An Allowance is the maximum of output that a request names, and where it stands in the body, so that it can be
// lowered there, or set.
type Allowance struct {
	// Own is what the request allows for each answer, -1 if it says nothing.
	Own int64
	// Floor is the least for each answer that leaves room for one: what it thinks first, and a short text.
	Floor int64

	numbers []number // that say it
	set     gap      // of one that is set where none does
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

// gaps are what sets a maximum where a request has none, as its first member.
var gaps = [...]gap{
	Anthropic: {before: `"max_tokens":`, after: ","},
	Chat:      {before: `"max_completion_tokens":`, after: ","},
	Responses: {before: `"max_output_tokens":`, after: ","},
	Gemini:    {before: `"generationConfig":{"maxOutputTokens":`, after: "},"},
}

// Allowance returns the allowance of a call by its request, nil if that has to stay as it is.
func (c *Call) Allowance(req *http.Request, body []byte) *Allowance {
	switch {
	case c.outputCause.Reason != Readable || c.Compacts,
		slices.Contains(fixedHosts, req.URL.Hostname()), c.API == Anthropic && bytes.Contains(body, attribution):
		return nil
	}
	a := &Allowance{Own: c.output, numbers: c.numbers, set: c.gap, Floor: shortest}
	if c.API == Anthropic && !interleaves(req.Header, body) { // else the budget is of all rounds
		a.Floor = sum(c.thinks, shortest)
	}
	if a.Own >= 0 {
		a.Floor = min(a.Floor, a.Own)
	}
	if c.API == Responses && a.Own != 0 {
		a.Floor = max(a.Floor, shortestTaken)
	}
	return a
}

// interleaves reports whether a request of Anthropic's may think between the calls of tools.
func interleaves(header http.Header, body []byte) bool {
	const beta = "interleaved-thinking"
	return strings.Contains(strings.Join(header.Values("Anthropic-Beta"), ","), beta) ||
		bytes.Contains(body, []byte(`"`+beta))
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
	return max(min(Published(c.Model).Output, longestSet)/c.candidates, 1)
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
