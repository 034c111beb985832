package watchdoghttp

import "sync"

// maxTold is how many warnings a meter remembers, and maxToldName how much of the name of each. The names of models
// come from requests.
const (
	maxTold     = 1000
	maxToldName = 256
)

// A told remembers what was logged.
type told struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// add reports whether the name is new, and whether it is the last one that is remembered. After that none is new.
func (t *told) add(name string) (first, full bool) {
	name = name[:min(len(name), maxToldName)]
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.names[name]; known || len(t.names) == maxTold {
		return false, false
	}
	if t.names == nil {
		t.names = map[string]struct{}{}
	}
	t.names[name] = struct{}{}
	return true, len(t.names) == maxTold
}
