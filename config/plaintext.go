package config

import (
	"cmp"
	"strings"
)

// plainText is the kind of a text that only the host reads.
type plainText struct {
	field func(*Config) *string
	form  form // nil means any text on one line
}

var classForm = formOf(`^[A-Za-z0-9._-]{1,100}$`)

// maxPlainText is longer than any path of a file.
const maxPlainText = 4096

func (p plainText) fromVariable(text string) value { return fromText(text) }

func (p plainText) set(c *Config, v value) *invalidValue {
	problem := textProblem(v)
	switch {
	case problem != "":
	case strings.TrimSpace(v.text) == "":
		problem = "is empty"
	case strings.ContainsAny(v.text, "\n\r\x00"):
		problem = "is not on one line"
	case len(v.text) > maxPlainText:
		problem = "is longer than 4096 characters"
	case p.form != nil && !p.form().MatchString(v.text):
		problem = "is not one name"
	}
	if problem != "" {
		return v.invalid(problem)
	}
	*p.field(c) = v.text
	return nil
}

func (p plainText) show(c *Config) string { return shown(cmp.Or(*p.field(c), "none"), maxShown) }
func (p plainText) off(c *Config) bool    { return *p.field(c) == "" }
