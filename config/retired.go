package config

import (
	_ "embed" // for retired.txt
	"strings"
	"sync"
)

//go:embed retired.txt
var retiredText string

// retired has what to do instead by kind and name.
var retired = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(retiredText) {
		if name, instead, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(name, "#") {
			all[name] = instead
		}
	}
	return all
})

// Retired reports whether a name that a version before read is gone, and what to do instead. The kind is key, with the
// path in a file as the name, variable, flag, with the command before it, or command. A key is gone with the block that
// it was in.
func Retired(kind, name string) (instead string, ok bool) {
	instead, ok = retired()[kind+" "+name]
	if block := strings.LastIndex(name, "."); !ok && kind == "key" && block > 0 {
		return Retired(kind, name[:block])
	}
	return instead, ok
}

// isGone ends the error of a name that is gone.
const isGone = "is gone; "

// retiredVariables has what to do instead by the variable that is gone, without the prefix.
func retiredVariables() map[string]string {
	variables := map[string]string{}
	for name, instead := range retired() {
		if variable, ok := strings.CutPrefix(name, "variable "+defaultPrefix); ok {
			variables[variable] = instead
		}
	}
	return variables
}
