package modelproxy

import (
	"fmt"
	"net/url"
	"strings"
)

// An API is one of the model APIs that clients find by a variable.
type API string

// The APIs.
const (
	Anthropic API = "anthropic"
	OpenAI    API = "openai"
	Gemini    API = "gemini"
)

// A client is how clients of an API find it.
type client struct {
	api      API
	variable string
	base     string // where the variable is not set
}

// clients are in the order of the README. OpenAI's base has the version in it, the others' has not.
var clients = []client{
	{Anthropic, "ANTHROPIC_BASE_URL", "https://api.anthropic.com"},
	{OpenAI, "OPENAI_BASE_URL", "https://api.openai.com/v1"},
	{Gemini, "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"},
}

// Variables returns the names of the variables that a [Proxy] sets.
func Variables() (names []string) {
	for _, c := range clients {
		names = append(names, c.variable)
	}
	return names
}

// upstreams returns where the requests of each API go: where the environment says, else to the API's own host. The
// error names a variable that is no base.
func upstreams(lookup func(string) (string, bool)) (map[API]*url.URL, error) {
	all := map[API]*url.URL{}
	for _, c := range clients {
		base := c.base
		if set, ok := lookup(c.variable); ok && strings.TrimSpace(set) != "" {
			base = strings.TrimSpace(set)
		}
		to, err := url.Parse(base)
		if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" || to.User != nil || to.RawQuery != "" {
			// The value may hold a key.
			return nil, fmt.Errorf("%s is not the base of a model API; write one such as %s, or unset it", c.variable, c.base)
		}
		all[c.api] = to
	}
	return all, nil
}
