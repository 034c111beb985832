package config

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/seed62658d38/watchdog/notify"
)

// webhook is the kind of the address that notices go to. What follows its host may be a secret, and is not shown.
type webhook struct {
	field func(*Config) *string
}

// noWebhook switches the webhook off, for a variable that overrides the file.
const noWebhook = "none"

func (w webhook) fromVariable(text string) value {
	v := fromText(text)
	v.show = "a value that is not shown"
	return v
}

func (w webhook) set(c *Config, v value) *invalidValue {
	problem := cmp.Or(textProblem(v), unseenProblem(v.text))
	switch {
	case problem != "":
	case v.text == "":
		problem = "is empty"
	case v.text == noWebhook:
		*w.field(c) = ""
		return nil
	default:
		if err := (notify.Config{URL: v.text}).Validate(); err != nil {
			problem = err.Error()[strings.Index(err.Error(), "URL ")+len("URL "):]
		}
	}
	if problem != "" {
		return v.invalid(problem)
	}
	*w.field(c) = v.text
	return nil
}

// show returns the scheme and the host.
func (w webhook) show(c *Config) string {
	u, err := url.Parse(*w.field(c))
	if err != nil || u.Host == "" {
		return noWebhook
	}
	return shown(u.Scheme+"://"+u.Host+"/...", maxShown)
}

func (w webhook) off(c *Config) bool { return *w.field(c) == "" }

// path is the kind of the path of a file.
type path struct {
	field func(*Config) *string
}

func (p path) fromVariable(text string) value { return fromText(text) }

func (p path) set(c *Config, v value) *invalidValue {
	problem := cmp.Or(textProblem(v), unseenProblem(v.text))
	if problem == "" && v.text == "" {
		problem = "is empty"
	}
	if problem != "" {
		return v.invalid(problem)
	}
	*p.field(c) = v.text
	return nil
}

func (p path) show(c *Config) string { return shown(cmp.Or(*p.field(c), "none"), maxShown) }
func (p path) off(c *Config) bool    { return *p.field(c) == "" }
func (p path) disable(c *Config)     { *p.field(c) = "" }
