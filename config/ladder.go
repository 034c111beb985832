package config

import (
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// ladder is the kind of a list of directives.
type ladder struct {
	field    func(*Config) *[]watchdog.DirectiveKind
	fallback []watchdog.DirectiveKind // the default, which an empty one is, too
}

// maxRungs is more than a limit trips.
const maxRungs = 100

func (l ladder) fromVariable(text string) value { return fromList(text) }

func (l ladder) set(c *Config, v value) *invalidValue {
	switch {
	case v.unsupported != "":
		return v.invalid(v.unsupported)
	case !v.list:
		return v.invalid("is not a list")
	case len(v.items) > maxRungs:
		return v.invalid("has more than 100 rungs")
	}
	rungs := make([]watchdog.DirectiveKind, 0, len(v.items))
	for _, item := range v.items {
		problem := rungProblem(item)
		if problem == "" && slices.Contains(rungs, watchdog.DirectiveCancel) {
			problem = "comes after cancel, which ends the run"
		}
		if problem != "" {
			return item.invalid(problem)
		}
		rungs = append(rungs, watchdog.DirectiveKind(item.text))
	}
	*l.field(c) = rungs
	return nil
}

// directives are what a rung can be, and what it is taken for.
var directives = []watchdog.DirectiveKind{
	watchdog.DirectiveWait, watchdog.DirectiveRetry, watchdog.DirectiveUnstuck, watchdog.DirectiveWrapUp,
	watchdog.DirectiveCancel,
}

func rungProblem(v value) string {
	if problem := wordProblem(v); problem != "" {
		return problem
	}
	if v.text == string(watchdog.DirectiveWrapUp) {
		return "is no rung: it comes by itself when only the reserve of a limit is left"
	}
	if known := words(directives); !slices.Contains(known, v.text) {
		return unknownWord(v.text, "a directive", known)
	}
	return ""
}

// show includes the cancel after the last rung, also if it was left out. None comes after a wait.
func (l ladder) show(c *Config) string {
	rungs := *l.field(c)
	if len(rungs) == 0 {
		rungs = l.fallback
	}
	if n := len(rungs); n == 0 || rungs[n-1] != watchdog.DirectiveWait && rungs[n-1] != watchdog.DirectiveCancel {
		rungs = append(slices.Clone(rungs), watchdog.DirectiveCancel)
	}
	return strings.Join(words(rungs), ", ")
}

func (l ladder) off(c *Config) bool { return len(*l.field(c)) == 0 }
func (l ladder) disable(c *Config)  { *l.field(c) = nil }
