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

// toolCalls is the kind of the limits of single tools, by their names. A tool with 0 has none.
type toolCalls struct {
	field func(*Config) *map[string]int64
}

// maxTools is more than an agent has.
const maxTools = 1000

// fromVariable reads names and numbers such as bash=100,search=20. A name may have an equals sign, and no comma.
func (k toolCalls) fromVariable(text string) value {
	v := fromText(text)
	if text == "0" {
		return v
	}
	v.mapping = true
	for item := range strings.SplitSeq(text, ",") {
		i := strings.LastIndex(item, "=")
		if i < 0 {
			one := fromText(item)
			one.unsupported = "is not a name, an equals sign and a number"
			v.entries = append(v.entries, entry{key: one, value: one})
			continue
		}
		v.entries = append(v.entries, entry{key: fromText(item[:i]), value: fromText(item[i+1:])})
	}
	return v
}

func (k toolCalls) set(c *Config, v value) *invalidValue {
	switch {
	case !v.mapping && v.unsupported != "":
		return v.invalid(v.unsupported)
	case !v.mapping && (v.text != "0" || v.quoted):
		return v.invalid("is not a mapping of names and numbers")
	case len(v.entries) > maxTools:
		return v.invalid("has more than 1000 tools")
	}
	tools, invalid := toolLimits(v.entries)
	if invalid == nil {
		*k.field(c) = tools
	}
	return invalid
}

// toolLimits returns the limits of the tools that have one, nil for none.
func toolLimits(entries []entry) (tools map[string]int64, invalid *invalidValue) {
	seen := map[string]bool{}
	for _, e := range entries {
		n, problem := e.limit(seen)
		if problem != "" {
			return nil, e.invalid(problem)
		}
		seen[e.key.text] = true
		if n == 0 {
			continue
		}
		if tools == nil {
			tools = map[string]int64{}
		}
		tools[e.key.text] = n
	}
	return tools, nil
}

// limit returns the limit of one tool.
func (e entry) limit(seen map[string]bool) (n int64, problem string) {
	name := e.key.text
	switch {
	case e.key.unsupported != "":
		return 0, e.key.unsupported
	case e.key.merge:
		return 0, "is a merge key; write the names themselves"
	case name == "":
		return 0, "has an empty name"
	case seen[name]:
		return 0, "is a second value; write one"
	case utf8.RuneCountInString(name) > watchdog.MaxAggregateID:
		return 0, fmt.Sprintf("has a name of more than %d characters", watchdog.MaxAggregateID)
	}
	if problem := cmp.Or(textProblem(e.key), unseenProblem(name)); problem != "" {
		return 0, "has a name that " + problem
	}
	if e.absent {
		return 0, ""
	}
	return parseQuantity(e.value)
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

func (k toolCalls) show(c *Config) string {
	if k.off(c) {
		return "off"
	}
	tools := *k.field(c)
	var items []string
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		items = append(items, fmt.Sprintf("%s=%d", name, tools[name]))
	}
	return shorten(strings.Join(items, ", "), maxShown)
}

func (k toolCalls) off(c *Config) bool { return len(*k.field(c)) == 0 }
