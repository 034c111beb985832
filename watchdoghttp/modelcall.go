package watchdoghttp

import "github.com/seed62658d38/watchdog/watchdoghttp/internal/usage"

// IsModelCall reports whether a [Meter] charges or refuses a request of that method and path, on any host: whether it
// calls a model. The path is decoded, as that of a URL is. A request whose body turns out to be for another service is
// passed on all the same.
func IsModelCall(method, path string) bool {
	return isModel(usage.RouteOf(method, path))
}

func isModel(route usage.Route) bool { return route.API != usage.None || route.Unread != "" }
