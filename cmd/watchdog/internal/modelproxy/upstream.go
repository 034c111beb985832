package modelproxy

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog/watchdoghttp"
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
	version  string // of the paths below its host
}

// clients are in the order of the README. OpenAI's base has the version in it, the others' has not.
var clients = []client{
	{Anthropic, "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "/v1"},
	{OpenAI, "OPENAI_BASE_URL", "https://api.openai.com/v1", "/v1"},
	{Gemini, "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com", "/v1beta"},
}

// Variables returns the names of the variables that a [Proxy] sets.
func Variables() (names []string) {
	for _, c := range clients {
		names = append(names, c.variable)
	}
	return names
}

// An upstream is where the requests of an API go.
type upstream struct {
	base *url.URL
	// version is what comes before a path without a version, if the base is the API's own: a client that has the version
	// in its default base, such as the AI SDK, takes a base without one for such a base, too.
	version string
}

// upstreams returns where the requests of each API go: where the environment says, else to the API's own host. The
// error names a variable that is no base.
func upstreams(lookup func(string) (string, bool)) (map[API]upstream, error) {
	all := map[API]upstream{}
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
		u := upstream{base: to}
		if strings.TrimSuffix(base, "/") == c.base && !strings.HasSuffix(c.base, c.version) {
			u.version = c.version
		}
		all[c.api] = u
	}
	return all, nil
}

// versioned is a path with a version in it, such as /v1/messages and /upload/v1beta/files.
var versioned = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`/v[0-9]+((alpha|beta)[0-9]*)?(/|$)`)
})

// join returns the URL of an escaped path that a client has put after its base. What is sent is what the client would
// have sent to the upstream itself, with two exceptions: see version, and a version that the base ends in is not
// repeated.
func (u upstream) join(escaped, query string) *url.URL {
	base := strings.TrimSuffix(u.base.EscapedPath(), "/")
	if last := "/" + path.Base(base); versioned().MatchString(last) && strings.HasPrefix(escaped, last+"/") {
		base = strings.TrimSuffix(base, last)
	}
	if u.version != "" && !versioned().MatchString(escaped) && !strings.HasPrefix(escaped, "/api/") {
		base += u.version // Anthropic has /api beside /v1
	}
	to := url.URL{Scheme: u.base.Scheme, Host: u.base.Host, RawPath: base + escaped, RawQuery: query}
	to.Path, _ = url.PathUnescape(to.RawPath) // both are parts of URLs that were parsed
	return &to
}

// around reports whether a server may take the path of a request for a call of a model, and the meter does not: it is
// spelt otherwise, or has no version.
func around(method, name string) bool {
	if watchdoghttp.IsModelCall(method, name) {
		return false
	}
	name = strings.ToLower(path.Clean(name))
	parent, verb := path.Split(name)
	return watchdoghttp.IsModelCall(method, name) ||
		!versioned().MatchString(name) && watchdoghttp.IsModelCall(method, path.Join(parent, "v1", verb))
}

// Environ returns the environment with the variables by which clients find the proxy.
func (p *Proxy) Environ(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(Variables(), name)
	})
	for _, c := range clients {
		env = append(env, c.variable+"="+p.URL(c.api))
	}
	return direct(unsigned(env))
}

// unsigned has Claude Code leave out the line of its prompt that can hold a hash of the request, which is another one
// when the meter has lowered its maximum. With an API key nothing needs that line.
func unsigned(env []string) []string {
	const variable = "CLAUDE_CODE_ATTRIBUTION_HEADER"
	if lookup(env, "ANTHROPIC_API_KEY") == "" || lookup(env, variable) != "" {
		return env
	}
	return append(env, variable+"=0")
}

// proxied are the variables by which a client sends requests to a proxy, in upper case: some clients send plain HTTP to
// the one for HTTPS, too, and some read the names in any case.
var proxied = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}

// direct has clients reach the loopback interface without the proxy that their environment names, if it names one.
// Some read NO_PROXY and some no_proxy, and where both are there only one of them: the one that is missing begins as a
// copy of the other.
func direct(env []string) []string {
	if !slices.ContainsFunc(env, namesProxy) {
		return env
	}
	upper, lower := lookup(env, "NO_PROXY"), lookup(env, "no_proxy")
	return append(env, "NO_PROXY="+besides(upper, lower), "no_proxy="+besides(lower, upper))
}

func namesProxy(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	return value != "" && slices.Contains(proxied, strings.ToUpper(name))
}

// loopback are the names of the loopback interface. The address of IPv6 has no brackets: some clients refuse to start
// with them.
var loopback = []string{"127.0.0.1", "localhost", "::1"}

// besides adds the loopback interface to a list of hosts that are reached directly. A star means all, but only alone:
// to some clients one with a blank beside it is a host. Some split a list at commas alone, so that a name counts as
// named only between two of them.
func besides(hosts, others string) string {
	if strings.TrimSpace(hosts) == "" {
		hosts = others
	}
	if hosts == "*" {
		return hosts
	}
	hosts = strings.TrimRight(hosts, ", ")
	var named []string
	for name := range strings.SplitSeq(hosts, ",") {
		named = append(named, strings.ToLower(strings.TrimSpace(name)))
	}
	for _, name := range loopback {
		if !slices.Contains(named, name) {
			hosts += "," + name
		}
	}
	return strings.TrimPrefix(hosts, ",")
}

// lookup returns the value of a variable: the last one counts.
func lookup(env []string, name string) string {
	for _, pair := range slices.Backward(env) {
		if value, found := strings.CutPrefix(pair, name+"="); found {
			return value
		}
	}
	return ""
}
