package probe

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// Differ returns the names of the fields in which two outputs differ, sorted and without duplicates, such as
// "state.updated_at". An element of an array has its index as its name. It returns nothing if an output has a digest of
// its own or is no observation, and [Unnamed] for a name that is not short and plain: such a name may be data.
func Differ(older, newer []byte) []string {
	before, err := decode(older)
	if err != nil || before["digest"] != nil {
		return nil
	}
	after, err := decode(newer)
	if err != nil || after["digest"] != nil {
		return nil
	}
	names := map[string]bool{}
	differ(names, "", before, after)
	return slices.Sorted(maps.Keys(names))
}

// Unnamed is in place of the name of a field that is not shown.
const Unnamed = "?"

// plainName is compiled when it is used first: few programs have a probe.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,39}$`) })

func differ(names map[string]bool, at string, before, after any) {
	switch one := before.(type) {
	case map[string]any:
		if other, same := after.(map[string]any); same {
			differObjects(names, at, one, other)
			return
		}
	case []any:
		if other, same := after.([]any); same && len(one) == len(other) {
			for i := range one {
				differ(names, join(at, strconv.Itoa(i)), one[i], other[i])
			}
			return
		}
	}
	if string(appendCanonical(nil, before)) != string(appendCanonical(nil, after)) {
		names[at] = true
	}
}

func differObjects(names map[string]bool, at string, before, after map[string]any) {
	for key, value := range before {
		if other, both := after[key]; both {
			differ(names, join(at, shown(key)), value, other)
		} else {
			names[join(at, shown(key))] = true
		}
	}
	for key := range after {
		if _, both := before[key]; !both {
			names[join(at, shown(key))] = true
		}
	}
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// shown returns the name if it is one that a program has in its text, and not data.
func shown(name string) string {
	if !plainName().MatchString(name) {
		return Unnamed
	}
	return name
}
