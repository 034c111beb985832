package config

import (
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// ladder is the kind of a list of directives.
type ladder struct {
	field func(*Config) *[]watchdog.DirectiveKind
}

// maxRungs is more than any limit trips.
const maxRungs = 100

func (l ladder) fromVariable(text string) value { return separated(text) }

func (l ladder) set(c *Config, v value) *flaw {
	switch {
	case v.odd != "":
		return v.flaw(v.odd)
	case !v.list:
		return v.flaw("is not a list")
	case len(v.items) > maxRungs:
		return v.flaw("has more than 100 rungs")
	}
	rungs := make([]watchdog.DirectiveKind, 0, len(v.items))
	for _, item := range v.items {
		problem := rungProblem(item)
		if problem == "" && slices.Contains(rungs, watchdog.DirectiveCancel) {
			problem = "comes after cancel, which ends the run"
		}
		if problem != "" {
			return item.flaw(problem)
		}
		rungs = append(rungs, watchdog.DirectiveKind(item.text))
	}
	*l.field(c) = rungs
	return nil
}

func rungProblem(v value) string {
	if problem := wordProblem(v); problem != "" {
		return problem
	}
	if known := words(watchdog.Directives()); !slices.Contains(known, v.text) {
		return unknownWord(v.text, "a directive", known)
	}
	return ""
}

// show has the cancel that comes after the last rung, also where it was left out.
func (l ladder) show(c *Config) string {
	rungs := words(*l.field(c))
	if last := string(watchdog.DirectiveCancel); len(rungs) == 0 || rungs[len(rungs)-1] != last {
		rungs = append(rungs, last)
	}
	return strings.Join(rungs, ", ")
}

func (l ladder) off(c *Config) bool { return len(*l.field(c)) == 0 }
func (l ladder) rest(c *Config)     { *l.field(c) = nil }
