package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// eventSet is the kind of a list of the host's own kinds of event. It has no variable: the sets depend on the host's
// program, not on its environment.
type eventSet struct {
	class string
	field func(*Config) *[]string
}

// maxKinds is more than a program has.
const maxKinds = 1000

// ownKinds is the prefix of the watchdog's own events, which are never signals.
var ownKinds = strings.TrimSuffix(watchdog.EventCancel, "cancel")

func (e eventSet) fromVariable(text string) value { return fromText(text) }

func (e eventSet) set(c *Config, v value) *invalidValue {
	switch {
	case v.unsupported != "":
		return v.invalid(v.unsupported)
	case !v.list:
		return v.invalid("is not a list")
	case len(v.items) > maxKinds:
		return v.invalid("has more than 1000 kinds")
	}
	*e.field(c) = make([]string, 0, len(v.items))
	for _, item := range v.items {
		problem := kindProblem(item)
		if before := classOf(c, item.text); problem == "" && before != "" {
			problem = fmt.Sprintf("is a duplicate; it is %s already", before)
		}
		if problem != "" {
			return item.invalid(problem)
		}
		*e.field(c) = append(*e.field(c), item.text)
	}
	return nil
}

// classOf returns the class of the set that has the kind already, or "".
func classOf(c *Config, kind string) string {
	for _, k := range keys {
		if set, ok := k.kind.(eventSet); ok && slices.Contains(*set.field(c), kind) {
			return set.class
		}
	}
	return ""
}

// ambiguousWords are the words that some readers of YAML take for a boolean or for null.
var ambiguousWords = append([]string{"y", "n", "null"}, booleans...)

var plainKind = formOf(`^[A-Za-z_]`)

func kindProblem(v value) string {
	if problem := wordProblem(v); problem != "" {
		return problem
	}
	switch {
	case !v.quoted && (!plainKind().MatchString(v.text) || slices.Contains(ambiguousWords, strings.ToLower(v.text))):
		return "is not a text to every reader; write it in quotes"
	case unseenProblem(v.text) != "":
		return unseenProblem(v.text)
	case strings.HasPrefix(v.text, ownKinds):
		return "is a kind of the watchdog's own events, which are never signals"
	}
	return ""
}

func (e eventSet) show(c *Config) string {
	if e.off(c) {
		return "none"
	}
	return shorten(strings.Join(*e.field(c), ", "), maxShown)
}

func (e eventSet) off(c *Config) bool { return len(*e.field(c)) == 0 }
