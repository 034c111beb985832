package config

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// patterns is the kind of a list of regular expressions. It has no variable, because a pattern can contain commas.
type patterns struct {
	field func(*Config) *[]*regexp.Regexp
}

// maxPatterns is more than anyone needs in every line.
const maxPatterns = 100

func (p patterns) fromVariable(text string) value { return fromText(text) }

func (p patterns) set(c *Config, v value) *invalidValue {
	switch {
	case v.unsupported != "":
		return v.invalid(v.unsupported)
	case !v.list:
		return v.invalid("is not a list")
	case len(v.items) > maxPatterns:
		return v.invalid("has more than 100 patterns")
	}
	var list []*regexp.Regexp
	for _, item := range v.items {
		pattern, problem := parsePattern(item)
		if problem == "" && slices.ContainsFunc(list, func(p *regexp.Regexp) bool { return p.String() == item.text }) {
			problem = "is a duplicate"
		}
		if problem != "" {
			return item.invalid(problem)
		}
		list = append(list, pattern)
	}
	*p.field(c) = list
	return nil
}

func parsePattern(v value) (pattern *regexp.Regexp, problem string) {
	if v.unsupported != "" || v.list {
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
		return nil, "matches every line, and would end every command; check it for an empty alternative"
	}
	return pattern, ""
}

// matchesAll reports whether a pattern matches lines that have nothing in common.
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
