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
	return direct(env)
}

// proxied are the variables by which a client sends plain HTTP to a proxy.
var proxied = []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"}

// direct has clients reach the loopback interface without the proxy that their environment names, if it names one.
// Some read NO_PROXY and some no_proxy, and where both are there only one of them: what one lacks it has of the other.
func direct(env []string) []string {
	if !slices.ContainsFunc(proxied, func(name string) bool { return lookup(env, name) != "" }) {
		return env
	}
	upper, lower := lookup(env, "NO_PROXY"), lookup(env, "no_proxy")
	return append(env, "NO_PROXY="+besides(upper, lower), "no_proxy="+besides(lower, upper))
}

// besides adds the loopback interface to a list of hosts that are reached directly. A star means all, but only alone.
func besides(hosts, others string) string {
	if hosts == "" {
		hosts = others
	}
	switch {
	case hosts == "":
		return loopback
	case strings.TrimSpace(hosts) == "*":
		return hosts
	}
	return hosts + "," + loopback
}

const loopback = "127.0.0.1"

// lookup returns the value of a variable: the last one counts.
func lookup(env []string, name string) string {
	for _, pair := range slices.Backward(env) {
		if value, found := strings.CutPrefix(pair, name+"="); found {
			return value
		}
	}
	return ""
}
