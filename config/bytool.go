package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
)

// byTool is the kind of what single tools have, by their names. A tool with a zero has nothing.
type byTool[V comparable] struct {
	field func(*Config) *map[string]V
	one   string // what a tool has, for errors
	all   string // and what several have
	no    string // what is shown if none has any
	parse func(value) (of V, problem string)
}

// maxTools is more than an agent has.
const maxTools = 1000

// fromVariable reads pairs such as bash=100,search=20. A name may have an equals sign, and no comma.
func (k byTool[V]) fromVariable(text string) value {
	v := fromText(text)
	if text == "0" {
		return v
	}
	v.mapping = true
	for item := range strings.SplitSeq(text, ",") {
		i := strings.LastIndex(item, "=")
		if i < 0 {
			one := fromText(item)
			one.unsupported = "is not a name, an equals sign and a " + k.one
			v.entries = append(v.entries, entry{key: one, value: one})
			continue
		}
		v.entries = append(v.entries, entry{key: fromText(item[:i]), value: fromText(item[i+1:])})
	}
	return v
}

func (k byTool[V]) set(c *Config, v value) *invalidValue {
	switch {
	case !v.mapping && v.unsupported != "":
		return v.invalid(v.unsupported)
	case !v.mapping && (v.text != "0" || v.quoted):
		return v.invalid("is not a mapping of names and " + k.all)
	case len(v.entries) > maxTools:
		return v.invalid("has more than 1000 tools")
	}
	tools, invalid := k.tools(v.entries)
	if invalid == nil {
		*k.field(c) = tools
	}
	return invalid
}

// tools returns the tools that have something, nil for none.
func (k byTool[V]) tools(entries []entry) (tools map[string]V, invalid *invalidValue) {
	var none V
	seen := map[string]bool{}
	for _, e := range entries {
		problem, of := e.nameProblem(seen), none
		if problem == "" && !e.absent {
			of, problem = k.parse(e.value)
		}
		if problem != "" {
			return nil, e.invalid(problem)
		}
		seen[e.key.text] = true
		if of == none {
			continue
		}
		if tools == nil {
			tools = map[string]V{}
		}
		tools[e.key.text] = of
	}
	return tools, nil
}

// nameProblem returns what is wrong with the name of a tool.
func (e entry) nameProblem(seen map[string]bool) string {
	name := e.key.text
	switch {
	case e.key.unsupported != "":
		return e.key.unsupported
	case e.key.merge:
		return "is a merge key; write the names themselves"
	case name == "":
		return "has an empty name"
	case seen[name]:
		return "is a second value; write one"
	case utf8.RuneCountInString(name) > watchdog.MaxAggregateID:
		return fmt.Sprintf("has a name of more than %d characters", watchdog.MaxAggregateID)
	}
	if problem := cmp.Or(textProblem(e.key), unseenProblem(name)); problem != "" {
		return "has a name that " + problem
	}
	return ""
}

// invalid names the entry.
func (e entry) invalid(problem string) *invalidValue {
	v := e.value
	v.line = e.key.line
	if e.key.show != v.show {
		v.show = e.key.show + ": " + v.show
	}
	return v.invalid(problem)
}

func (k byTool[V]) show(c *Config) string {
	if k.off(c) {
		return k.no
	}
	tools := *k.field(c)
	var items []string
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		items = append(items, fmt.Sprintf("%s=%v", name, tools[name]))
	}
	return shorten(strings.Join(items, ", "), maxShown)
}

func (k byTool[V]) off(c *Config) bool { return len(*k.field(c)) == 0 }
func (k byTool[V]) disable(c *Config)  { *k.field(c) = nil }
