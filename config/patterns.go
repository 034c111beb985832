package config

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// patterns is the kind of a list of regular expressions. It has no variable, because commas are a part of patterns.
type patterns struct {
	field func(*Config) *[]*regexp.Regexp
}

// maxPatterns is more than anyone looks for in every line.
const maxPatterns = 100

func (p patterns) fromVariable(text string) value { return written(text) }

func (p patterns) set(c *Config, v value) *flaw {
	switch {
	case v.odd != "":
		return v.flaw(v.odd)
	case !v.list:
		return v.flaw("is not a list")
	case len(v.items) > maxPatterns:
		return v.flaw("has more than 100 patterns")
	}
	var list []*regexp.Regexp
	for _, item := range v.items {
		pattern, problem := parsePattern(item)
		if problem == "" && slices.ContainsFunc(list, func(p *regexp.Regexp) bool { return p.String() == item.text }) {
			problem = "is there twice"
		}
		if problem != "" {
			return item.flaw(problem)
		}
		list = append(list, pattern)
	}
	*p.field(c) = list
	return nil
}

func parsePattern(v value) (pattern *regexp.Regexp, problem string) {
	if v.odd != "" || v.list {
		return nil, "is not a text; write the pattern in single quotes"
	}
	if v.text == "" {
		return nil, "is empty"
	}
	if problem := textProblem(v); problem != "" {
		return nil, problem
	}
	pattern, err := regexp.Compile(v.text)
	var at *syntax.Error
	switch {
	case errors.As(err, &at):
		return nil, "is not a regular expression: " + at.Code.String() + " at " + shown(at.Expr, maxShown)
	case err != nil:
		return nil, "is not a regular expression: " + shown(err.Error(), maxReason)
	case matchesAll(pattern):
		return nil, "is in every line, and would end every command; look for an alternative that is empty"
	}
	return pattern, ""
}

// matchesAll reports whether a pattern finds what lines have in common, which is nothing.
func matchesAll(pattern *regexp.Regexp) bool {
	return pattern.MatchString("") && pattern.MatchString("\x00") && pattern.MatchString("a line")
}

func (p patterns) show(c *Config) string {
	if p.off(c) {
		return "none"
	}
	var list []string
	for _, pattern := range *p.field(c) {
		list = append(list, shown(pattern.String(), maxShown))
	}
	return shorten(strings.Join(list, ", "), maxShown)
}

func (p patterns) off(c *Config) bool { return len(*p.field(c)) == 0 }
