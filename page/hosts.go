package page

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// hosts are the names that are answered, as hostName returns them; nil for any.
type hosts map[string]bool

func newHosts(names []string) (hosts, error) {
	if len(names) == 0 {
		return nil, nil
	}
	known := hosts{}
	for _, name := range names {
		host := hostName(name)
		if !isHostName(host) {
			return nil, fmt.Errorf("%w page config: Hosts has %q; write a name as browsers send it, such as "+
				"watchdog.example.com, or an IP address", watchdog.ErrInvalid, name)
		}
		known[host] = true
	}
	return known, nil
}

// Guard returns a handler that answers the same names as the page: for what a host serves beside it.
func (p *Page) Guard(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.hosts.answer(w, r) {
			handler.ServeHTTP(w, r)
		}
	})
}

// answer reports whether a request is answered. If it is not, it says what to do.
func (h hosts) answer(w http.ResponseWriter, r *http.Request) bool {
	if h == nil {
		return true
	}
	host := hostName(r.Host)
	if h[host] || host != "" && host == localAddress(r) {
		return true
	}
	http.Error(w, "This server is not known by the name that was asked for. Use its own name or address, "+
		"or have whoever runs it add the name: watchdog serve --host NAME, or page.Config.Hosts.",
		http.StatusMisdirectedRequest)
	return false
}

// localAddress returns the address that the connection of a request was made to. Whoever asks for that one has no other
// name for it, and a health check may have nothing else.
func localAddress(r *http.Request) string {
	if at, is := r.Context().Value(http.LocalAddrContextKey).(net.Addr); is {
		return hostName(at.String())
	}
	return ""
}

// hostName returns the name in a Host header, without port, in one form. What is none stays different from all names.
func hostName(host string) string {
	if name, port, err := net.SplitHostPort(host); err == nil && strings.Trim(port, "0123456789") == "" {
		host = name
	} else if inside, found := strings.CutPrefix(host, "["); found && strings.HasSuffix(inside, "]") {
		host = strings.TrimSuffix(inside, "]")
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().WithZone("").String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isHostName reports whether the text is an IP address, or could be a name.
func isHostName(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-._"
	return host != "" && strings.Trim(host, letters) == "" && !strings.HasSuffix(host, ".")
}
