package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/seed62658d38/watchdog"
)

// eventSet is the kind of a list of the host's own kinds of event. It has no variable: the sets describe the host's
// program, not the place where it runs.
type eventSet struct {
	class watchdog.Class
	field func(*Config) *[]string
}

// maxKinds is more kinds of event than any program has.
const maxKinds = 1000

// ownKinds begins the kinds of the watchdog's own events, which are never a signal.
var ownKinds = strings.TrimSuffix(watchdog.EventCancel, "cancel")

func (e eventSet) fromVariable(text string) value { return written(text) }

func (e eventSet) set(c *Config, v value) *flaw {
	switch {
	case v.odd != "":
		return v.flaw(v.odd)
	case !v.list:
		return v.flaw("is not a list")
	case len(v.items) > maxKinds:
		return v.flaw("has more than 1000 kinds")
	}
	*e.field(c) = make([]string, 0, len(v.items))
	for _, item := range v.items {
		problem := kindProblem(item)
		if before := classOf(c, item.text); problem == "" && before != "" {
			problem = fmt.Sprintf("is there twice; it is %s already", before)
		}
		if problem != "" {
			return item.flaw(problem)
		}
		*e.field(c) = append(*e.field(c), item.text)
	}
	return nil
}

// classOf is the class of the set that has a kind already, if there is one.
func classOf(c *Config, kind string) watchdog.Class {
	for _, k := range keys {
		if set, ok := k.kind.(eventSet); ok && slices.Contains(*set.field(c), kind) {
			return set.class
		}
	}
	return ""
}

// nothings are the words that are a boolean or nothing to some readers of YAML.
var nothings = append([]string{"y", "n", "null"}, booleans...)

var plainKind = regexp.MustCompile(`^[A-Za-z_]`)

func kindProblem(v value) string {
	if problem := wordProblem(v); problem != "" {
		return problem
	}
	switch {
	case !v.quoted && (!plainKind.MatchString(v.text) || slices.Contains(nothings, strings.ToLower(v.text))):
		return "is not a text to every reader; write it in quotes"
	case strings.ContainsFunc(v.text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "has a character that cannot be seen"
	case strings.TrimSpace(v.text) != v.text:
		return "has white space around it"
	case strings.HasPrefix(v.text, ownKinds):
		return "is the watchdog's own, which is never a signal"
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
