package config

import (
	"cmp"
	"strings"
)

// prefix is the kind of a fingerprint's prefix, which is one word of a log and a part of a path.
type prefix struct {
	field func(*Config) *string
}

// maxPrefix keeps fingerprints short.
const maxPrefix = 100

var prefixForm = formOf(`^[A-Za-z0-9._:/@=+-]+$`)

func (p prefix) fromVariable(text string) value { return fromText(text) }

func (p prefix) set(c *Config, v value) *invalidValue {
	problem := textProblem(v)
	switch {
	case problem != "":
	case v.text == "":
		problem = "is empty"
	case len(v.text) > maxPrefix:
		problem = "is longer than 100 characters"
	case !prefixForm().MatchString(v.text):
		problem = "has a character that fingerprints must not have"
	case strings.HasPrefix(v.text, "/") || strings.HasSuffix(v.text, "/"):
		problem = "has a slash at its beginning or end; the one after it is added"
	}
	if problem != "" {
		return v.invalid(problem)
	}
	*p.field(c) = v.text
	return nil
}

func (p prefix) show(c *Config) string { return shown(cmp.Or(*p.field(c), "none"), maxShown) }
func (p prefix) off(c *Config) bool    { return *p.field(c) == "" }
func (p prefix) disable(c *Config)     { *p.field(c) = "" }

// prefixes is a prefix that may be written as a list of its parts.
type prefixes struct{ prefix }

func (p prefixes) set(c *Config, v value) *invalidValue {
	if !v.list {
		return p.prefix.set(c, v)
	}
	var parts []string
	for _, item := range v.items {
		part := &Config{}
		if invalid := p.prefix.set(part, item); invalid != nil {
			return invalid
		}
		parts = append(parts, *p.field(part))
	}
	joined := strings.Join(parts, "/")
	if len(joined) > maxPrefix {
		return v.invalid("is longer than 100 characters")
	}
	*p.field(c) = joined
	return nil
}
