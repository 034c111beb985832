package modelproxy

import (
	"slices"
	"strings"
)

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
