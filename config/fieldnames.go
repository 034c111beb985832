package config

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// fieldNames is the kind of a list of names of fields. 0 is none.
type fieldNames struct {
	field func(*Config) *[]string
}

const (
	maxFields = 1000 // more than an outcome has
	maxField  = 255  // characters, more than a name has
)

// fromVariable does not split a single 0: it means no fields.
func (f fieldNames) fromVariable(text string) value {
	if text == "0" {
		return fromText(text)
	}
	return fromList(text)
}

func (f fieldNames) set(c *Config, v value) *invalidValue {
	switch {
	case v.unsupported != "":
		return v.invalid(v.unsupported)
	case !v.list && (v.text != "0" || v.quoted):
		return v.invalid("is not a list")
	case len(v.items) > maxFields:
		return v.invalid("has more than 1000 names")
	}
	var list []string
	for _, item := range v.items {
		if problem := fieldProblem(item, list); problem != "" {
			return item.invalid(problem)
		}
		list = append(list, item.text)
	}
	*f.field(c) = list
	return nil
}

func fieldProblem(v value, before []string) string {
	switch {
	case v.text == "" && v.unsupported == "" && !v.list:
		return "is empty"
	case utf8.RuneCountInString(v.text) > maxField:
		return "is longer than 255 characters"
	case slices.Contains(before, v.text):
		return "is a duplicate"
	}
	return cmp.Or(textProblem(v), unseenProblem(v.text))
}

func (f fieldNames) show(c *Config) string {
	if f.off(c) {
		return "none"
	}
	return shorten(strings.Join(*f.field(c), ", "), maxShown)
}

func (f fieldNames) off(c *Config) bool { return len(*f.field(c)) == 0 }
func (f fieldNames) disable(c *Config)  { *f.field(c) = nil }
