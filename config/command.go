package config

import (
	"fmt"
	"strings"
)

// command is the kind of a program and its arguments, each a text, or of one text for the shell. Errors and the printed
// limits never show an argument: it can hold a secret. It has no variable, because a list divided by commas is not a
// command line.
type command struct {
	field func(*Config) *[]string
}

// maxArguments is more than a probe or an end of what runs elsewhere needs.
const maxArguments = 1000

func (k command) fromVariable(text string) value { return fromText(text) }

func (k command) set(c *Config, v value) *invalidValue {
	switch {
	case v.unsupported != "" && !v.block:
		return v.invalid(v.unsupported)
	case !v.list:
		return k.setShell(c, v)
	case len(v.items) == 0:
		return v.invalid("is empty; write the program")
	case len(v.items) > maxArguments:
		return v.invalid("has more than 1000 items")
	}
	arguments := make([]string, len(v.items))
	for i, item := range v.items {
		problem := textProblem(item)
		switch {
		case problem != "":
		case i == 0 && item.text == "":
			problem = "is empty; write the program"
		case strings.ContainsRune(item.text, 0):
			problem = "has the control character U+0000; remove it"
		}
		if problem != "" {
			return item.invalid(problem)
		}
		arguments[i] = item.text
	}
	*k.field(c) = arguments
	return nil
}

// setShell takes a text as what the shell reads. In a block of text every reader sees a text.
func (k command) setShell(c *Config, v value) *invalidValue {
	problem := ""
	switch {
	case strings.TrimSpace(v.text) == "":
		problem = "is empty; write the program"
	case strings.ContainsRune(v.text, 0):
		problem = "has the control character U+0000; remove it"
	case !v.block:
		problem = textProblem(v)
	}
	if problem != "" {
		return v.invalid(problem)
	}
	*k.field(c) = []string{"sh", "-c", v.text}
	return nil
}

func (k command) show(c *Config) string {
	line := *k.field(c)
	switch len(line) {
	case 0:
		return "none"
	case 1:
		return shown(line[0], maxShown)
	case 2:
		return shown(line[0], maxShown) + " and 1 argument"
	default:
		return fmt.Sprintf("%s and %d arguments", shown(line[0], maxShown), len(line)-1)
	}
}

func (k command) off(c *Config) bool { return len(*k.field(c)) == 0 }
