package usage

import (
	"maps"
	"slices"
	"strings"
)

// A request goes through the body of a call by the tables of its API. What the tables do not have may be anything, a
// reference among it, so it is the reason that the call is bounded by a declared maximum only.
type request struct{ call *Call }

// A field takes the value of a member of an object.
type field func(r *request, v value)

// An object is a table of what an object can have.
type object map[string]field

// object goes through an object. A key that is there twice has two values, and servers differ in which one they take;
// one that only its case tells from a known one is unknown.
func (r *request) object(known object, v value, spelling func(string) string) {
	if v[0] != '{' {
		r.unknown("")
		return
	}
	var seen []string
	v.members(func(key string, member value) {
		if spelling != nil {
			key = spelling(key)
		}
		take := known[key]
		if take == nil {
			r.unknown(key)
			return
		}
		if slices.Contains(seen, key) {
			r.blame(Malformed, key)
			r.blameOutput(Malformed, key)
			return
		}
		seen = append(seen, key)
		take(r, member)
	})
}

// blame notes why the input is not bounded by the body. The first reason is told.
func (r *request) blame(why Reason, part string) {
	if r.call.input.reason == Readable {
		r.call.input = cause{why, partName(part)}
	}
}

func (r *request) blameOutput(why Reason, part string) {
	if r.call.outputCause.reason == Readable {
		r.call.outputCause = cause{why, partName(part)}
	}
}

// unknown notes a part that may be anything.
func (r *request) unknown(part string) {
	r.blame(Unknown, part)
	r.blameOutput(Unknown, part)
}

// text is a field that is text, or a setting, whatever it has inside.
func text(*request, value) {}

// refers is a field whose presence is why the input has no bound.
func refers(why Reason, name string) field {
	return func(r *request, v value) {
		if !v.isNothing() {
			r.blame(why, name)
		}
	}
}

// count is a field that is a number. Null is as if it were not there.
func count(name string, take func(c *Call, n int64)) field {
	return func(r *request, v value) {
		n, ok := v.number()
		switch {
		case ok:
			take(r.call, n)
		case string(v) != "null":
			r.blameOutput(Malformed, name)
		}
	}
}

// maxOutput is a field that has the maximum of the output. Of two of them the larger counts.
func maxOutput(name string) field {
	return count(name, func(c *Call, n int64) { c.output = max(c.output, n) })
}

// candidates is a field that has how many answers are made.
func candidates(name string) field {
	return count(name, func(c *Call, n int64) { c.candidates = max(c.candidates, n) })
}

// model is the field that names the model.
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
		switch {
		case v[0] == '[':
			v.elements(func(element value) { take(r, element) })
		case !v.isNothing():
			r.unknown("")
		}
	}
}

// inside is a field that is an object, or null.
func inside(known func() object, spelling func(string) string) field {
	return func(r *request, v value) {
		if !v.isNothing() {
			r.object(known(), v, spelling)
		}
	}
}

// part counts a message or a tool.
func (r *request) part() { r.call.Parts++ }

// A kind is what an object of one type has, or why such an object is not only text.
type kind struct {
	has object
	why Reason
}

// typed takes an object by its type. Without one it is of the type that is assumed.
func (r *request) typed(kinds map[string]kind, assumed string, v value) {
	name := assumed
	if v[0] == '{' {
		v.members(func(key string, member value) {
			if key == "type" {
				name = member.text()
			}
		})
	}
	switch known, ok := kinds[name]; {
	case !ok:
		r.unknown(name)
	case known.why != Readable:
		r.blame(known.why, name)
	default:
		r.object(known.has, v, nil)
	}
}

// content is a field that is a text or a list of texts and typed objects.
func content(kinds func() map[string]kind) field {
	return func(r *request, v value) {
		switch {
		case v[0] == '"' || v.isNothing():
		case v[0] == '[':
			v.elements(func(element value) {
				if element[0] != '"' {
					r.typed(kinds(), "", element)
				}
			})
		default:
			r.unknown("content")
		}
	}
}

// serverTool notes a tool of the API's own, with the most requests that it makes, -1 for any number.
func (r *request) serverTool(name string, most int64) {
	r.blame(ServerTool, name)
	if c := r.call; c.toolUses >= 0 {
		c.toolUses = sum(c.toolUses, most)
		if most < 0 {
			c.toolUses = -1
		}
	}
}

// memberNumber returns the number that an object has under the key, -1 if there is none.
func memberNumber(v value, key string) int64 {
	n := int64(-1)
	if v[0] == '{' {
		v.members(func(k string, member value) {
			if k == key {
				if count, ok := member.number(); ok {
					n = count
				}
			}
		})
	}
	return n
}

// fields makes a table of fields that are all of one sort.
func fields(take field, names ...string) object {
	table := object{}
	for _, name := range names {
		table[name] = take
	}
	return table
}

// with adds to a table, and returns it.
func (o object) with(more object) object {
	maps.Copy(o, more)
	return o
}
