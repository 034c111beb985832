package storerows

import (
	"os"
	"strings"
	"sync"
)

// SpendKinds are the columns of one watchdog.Totals, in the order of its fields.
var SpendKinds = []string{"input_tokens", "output_tokens", "tokens", "cost", "requests", "turns", "tool_calls"}

// EachKind returns the form for each of the kinds, with the name of the kind in the place of KIND, separated by commas.
func EachKind(form string) string {
	all := make([]string, len(SpendKinds))
	for i, kind := range SpendKinds {
		all[i] = strings.ReplaceAll(form, "KIND", kind)
	}
	return strings.Join(all, ", ")
}

// Process returns the name of this machine, empty if it has none, and the number of this process: they say who took a
// slice.
func Process() (host string, pid int) { return hostName(), os.Getpid() }

var hostName = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return strings.ToValidUTF8(name, "?") // as a database wants it
})
