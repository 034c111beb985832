package usage

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// A request goes through the body of a call by the tables of its API, and takes it apart. What the tables do not have
// is input by its bytes, whatever it is; only what names input that is not in the body is why the call has no bound.
type request struct {
	call *Call
	body []byte
	// at is what is gathered: a part, or the call's key, which has what is no part and can change what the API adds to the
	// parts.
	at *writer
	// to is where parts go: to the turns of the conversation, or to what stands before it.
	to          *[]part
	turns, head []part
	name        string // of the member that is taken

	kind    string // of media that are walked
	made    bool   // the model made what is walked
	results bool   // the message has results of tools
	brief   bool   // the message is left out after the next one of the user

	tooled  bool             // a message brings tools, or the request has them
	tools   []string         // the types of tools that the API defines
	endless string           // one that the API runs, and that has no maximum of uses
	later   map[string]int64 // the most of each tool that is loaded only where a part names it
	loaded  map[int]string   // the turns that name one
}

func newRequest(c *Call, body []byte) *request {
	r := &request{call: c, body: body, at: newWriter(), later: map[string]int64{}, loaded: map[int]string{}}
	r.to = &r.turns
	return r
}

// span returns where a value stands in the body, of which it is a part.
func (r *request) span(v value) span {
	from := cap(r.body) - cap(v)
	return span{from, from + len(v)}
}

// seal ends the request: the key has what is not in the body, too.
func (r *request) seal(req *http.Request, v value) {
	c, key := r.call, r.at
	note := func(name, text string) { key.note(name, value(text)) }
	note("api", fmt.Sprint(c.API))
	note("model", c.Model)
	note("host", req.URL.Host)
	betas := strings.Split(strings.Join(req.Header.Values("Anthropic-Beta"), ","), ",")
	for i := range betas {
		betas[i] = strings.TrimSpace(betas[i])
	}
	for _, of := range []struct {
		name  string
		texts []string
	}{{"beta", betas}, {"tool", r.tools}} {
		slices.Sort(of.texts)
		for _, text := range slices.Compact(of.texts) {
			note(of.name, text)
		}
	}
	tools := r.tooled || !memberOf(v, "tools").isNothing() || !memberOf(v, "functions").isNothing()
	note("tools", fmt.Sprint(tools, c.Compacts))
	for _, p := range r.turns {
		if p.hides {
			key.note("hides", p.digest[:])
		}
	}
	c.key, c.turns, c.parts = key.sum(), len(r.turns), append(r.turns, r.head...)
}

// A field takes the value of a member of an object.
type field func(r *request, v value)

// An object is a table of what an object can have.
type object map[string]field

// object goes through an object. A key that is there twice has two values, and servers differ in which one they take.
// So do they in whether they take one that only its case tells from a known one.
func (r *request) object(known object, v value) {
	if v[0] != '{' {
		r.unknown("", v)
		return
	}
	var seen []string
	v.members(func(key string, member value) {
		if r.call.API == Gemini {
			key = camelCase(key)
		}
		take := known[key]
		switch {
		case slices.Contains(seen, key), take == nil && known.hasFolded(key):
			r.blame(Malformed, key)
			r.blameOutput(Malformed, key)
		case take == nil:
			r.unknown(key, member)
		default:
			seen = append(seen, key)
			r.name = key
			take(r, member)
		}
	})
}

// hasFolded reports whether a key is one of the table in another case.
func (o object) hasFolded(key string) bool {
	for name := range o {
		if strings.EqualFold(name, key) {
			return true
		}
	}
	return false
}

// blame notes why the input is not bounded by the body. The first reason is told.
func (r *request) blame(why Reason, part string) {
	if r.call.input.Reason == Readable {
		r.call.input = Unbounded{Reason: why, Part: partName(part)}
	}
}

func (r *request) blameOutput(why Reason, part string) {
	if r.call.outputCause.Reason == Readable {
		r.call.outputCause = Unbounded{Reason: why, Part: partName(part)}
	}
}

// unknown takes what is not known: its name is told, and it is input by its bytes.
func (r *request) unknown(name string, v value) {
	r.tell(name)
	r.at.put(name, v)
}

func (r *request) tell(part string) {
	part = partName(part)
	if c := r.call; part != "" && len(c.unknown) < mostUnknown && !slices.Contains(c.unknown, part) {
		c.unknown = append(c.unknown, part)
	}
}

// mostUnknown is how many names of parts that are not known are kept.
const mostUnknown = 16

// part gathers a part while walk goes through it.
func (r *request) part(walk func()) {
	outer, w := r.at, newWriter()
	r.at = w
	walk()
	w.digest, w.made, w.left = w.sum(), r.made, w.left || r.brief
	if w.loads != "" && r.to == &r.turns {
		r.loaded[len(r.turns)] = w.loads
	}
	*r.to = append(*r.to, w.part)
	r.results = r.results || w.result
	r.at = outer
}

// message gathers a message or an item of a conversation, whose role says who made it.
func (r *request) message(role string, walk func()) {
	r.call.Parts++
	r.made, r.results = role == "assistant" || role == "model", false
	r.part(func() {
		walk()
		r.at.result = r.at.result || role == "tool"
	})
	if role == "user" && !r.results && r.to == &r.turns {
		r.call.own = len(r.turns)
	}
	r.made = false
}

// text is a field that is text, or a setting that the model is told.
func text(r *request, v value) { r.at.put(r.name, v) }

// free is a field that is no input and changes none.
func free(*request, value) {}

// head is a field whose parts stand before the conversation.
func head(take field) field {
	return func(r *request, v value) {
		outer := r.to
		r.to = &r.head
		take(r, v)
		r.to = outer
	}
}

// refers is a field whose presence is why the input has no bound.
func refers(why Reason) field {
	return func(r *request, v value) {
		if !v.isNothing() {
			r.blame(why, r.name)
			text(r, v)
		}
	}
}

// count is a field that is a number. Null is as if it were not there.
func count(take func(r *request, v value, n int64)) field {
	return func(r *request, v value) {
		n, ok := v.number()
		switch {
		case ok:
			take(r, v, n)
		case string(v) != "null":
			r.blameOutput(Malformed, r.name)
		}
	}
}

// maxOutput is a field that has the maximum of the output. Of two of them the larger counts.
func maxOutput(r *request, v value) {
	if string(v) == "null" {
		r.call.gap = gap{at: r.span(v)}
	}
	count(func(r *request, v value, n int64) {
		c := r.call
		c.output, c.numbers = max(c.output, n), append(c.numbers, number{r.span(v), n})
	})(r, v)
}

// candidates is a field that has how many answers are made.
func candidates(r *request, v value) {
	count(func(r *request, _ value, n int64) { r.call.candidates = max(r.call.candidates, n) })(r, v)
}

func stream(r *request, v value) { r.call.Stream = v.isTrue() }

func model(r *request, v value) { r.call.Model = modelName(v.text()) }

// modelName returns the name, if it looks like one. Names of models have slashes, colons and the like.
func modelName(name string) string {
	cleaned := strings.NewReplacer("/", "", ":", "", "@", "", "+", "", " ", "").Replace(name)
	if len(name) > longestPart || partName(cleaned) == "" {
		return ""
	}
	return name
}

// each is a field that is a list of values, or null.
func each(take func(r *request, v value)) field {
	return func(r *request, v value) {
		name := r.name
		switch {
		case v[0] == '[':
			v.elements(func(element value) { take(r, element) })
		case !v.isNothing():
			r.unknown(name, v)
		}
	}
}

// inside is a field that is an object, or null.
func inside(known object) field {
	return func(r *request, v value) {
		if !v.isNothing() {
			r.object(known, v)
		}
	}
}

// A kind is what an object of one type has, or why such an object is not in the body.
type kind struct {
	has object
	why Reason
	is  func(*part) // what the part is, beside text; can be nil
}

func (k kind) with(more object) kind {
	k.has.with(more)
	return k
}

func (k kind) as(is func(*part)) kind {
	k.is = is
	return k
}

// typed takes an object by its type. Without one it is of the type that is assumed.
func (r *request) typed(kinds map[string]kind, assumed string, v value) {
	name := typeOf(v, assumed)
	known, ok := kinds[name]
	switch {
	case !ok:
		r.unknown(name, v)
		return
	case known.why != Readable:
		r.blame(known.why, name)
		r.at.put(name, v)
		return
	case known.is != nil:
		known.is(&r.at.part)
	}
	r.at.put("type", value(name)) // first, wherever it stands
	r.object(known.has, v)
}

func typeOf(v value, assumed string) string {
	if name := memberText(v, "type"); name != "" {
		return name
	}
	return assumed
}

// content takes a text, or a list of texts and typed objects: each is a part. A text is the part that an object of it
// would be, because clients send the same one in both forms.
func (r *request) content(textType string, kinds map[string]kind, v value) {
	ofText := func(v value) {
		r.part(func() {
			r.at.put("type", value(textType))
			r.at.put("text", v)
		})
	}
	switch {
	case v.isNothing():
	case v[0] == '"':
		ofText(v)
	case v[0] == '[':
		v.elements(func(element value) {
			if element[0] == '"' {
				ofText(element)
				return
			}
			r.part(func() { r.typed(kinds, "", element) })
		})
	default:
		r.unknown(r.name, v)
	}
}

// memberOf returns what an object has under the key, or null.
func memberOf(v value, key string) value {
	found := value("null")
	if v[0] == '{' {
		v.members(func(k string, member value) {
			if k == key {
				found = member
			}
		})
	}
	return found
}

// memberText returns the text that an object has under the key, empty if there is none or it is too long for a name.
func memberText(v value, key string) string {
	if member := memberOf(v, key); len(member) <= longestPart+len(`""`) {
		return member.text()
	}
	return ""
}

// memberNumber returns the number that an object has under the key, -1 if there is none.
func memberNumber(v value, key string) int64 {
	if n, ok := memberOf(v, key).number(); ok {
		return n
	}
	return -1
}

// fields makes a table of fields that are all of one sort.
func fields(take field, names string) object {
	table := object{}
	for name := range strings.FieldsSeq(names) {
		table[name] = take
	}
	return table
}

func (o object) with(more ...object) object {
	for _, m := range more {
		maps.Copy(o, m)
	}
	return o
}
