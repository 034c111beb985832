package record

import (
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/taxonomy"
)

// A reason of a cancel event is the name of the limit and "_exceeded", or another guard's. Its stop code has
// "watchdog_" before that. A host's own code is its reason, too.
const (
	// Exceeded ends the reasons of limits.
	Exceeded = "_exceeded"
	// CodePrefix begins the stop codes of this module.
	CodePrefix = "watchdog_"
)

// LimitReason is the reason of a limit.
func LimitReason(limit string) string { return limit + Exceeded }

// LimitOf is the limit of a reason. When a run whose process died ends is decided by the limit of silence.
func LimitOf(reason string) string {
	switch reason {
	case hostLost:
		return idleTimeout
	case loopDetected: // a limit of earlier versions
		return "loop"
	}
	return strings.TrimSuffix(reason, Exceeded)
}

// LimitCode is the stop code of a limit.
func LimitCode(limit string) string { return CodePrefix + LimitReason(limit) }

// LimitOfCode returns the limit whose trips have the stop code, nil for any other code.
func LimitOfCode(code string) *taxonomy.Limit {
	limit := taxonomy.Find(LimitOf(Reason(code)))
	if limit == nil || LimitCode(limit.Name) != code {
		return nil
	}
	return limit
}

// idleTimeout and hostLost are the reasons of a sweeper, loopDetected is that of a host which finds loops.
const idleTimeout, hostLost, loopDetected = "idle_timeout", "host_lost", "loop_detected"

// others are the reasons of this module's guards that no limit gives its name to.
var others = [...]string{loopDetected, "no_output", "no_progress", "terminal", idleTimeout, hostLost}

// Code is the stop code of a reason. One that this version does not know stays as it is.
func Code(reason string) string {
	if strings.HasSuffix(reason, Exceeded) || slices.Contains(others[:], reason) {
		return CodePrefix + reason
	}
	return reason
}

// Reason is the reason of a stop code.
func Reason(code string) string { return strings.TrimPrefix(code, CodePrefix) }

// Checkpoint is a kind of event that versions before wrote. One may tell when a run began.
const Checkpoint = event.Prefix + "checkpoint"
