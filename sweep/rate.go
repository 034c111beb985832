package sweep

import (
	"slices"
	"time"
)

// A rate counts cancels for an alert.
type rate struct {
	Alert
	cancels []time.Time
	told    bool
}

// more counts a cancel, and reports whether that is one to alert of, and how many there are.
func (r *rate) more(now time.Time) (alert bool, cancels int) {
	if r.Func == nil {
		return false, 0
	}
	r.cancels = slices.DeleteFunc(r.cancels, func(at time.Time) bool { return now.Sub(at) > r.Within })
	if len(r.cancels) <= r.Count {
		r.told = false
	}
	r.cancels = append(r.cancels, now)
	if len(r.cancels) <= r.Count || r.told {
		return false, len(r.cancels)
	}
	r.told = true
	return true, len(r.cancels)
}
