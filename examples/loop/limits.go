package main

import (
	"time"

	"github.com/seed62658d38/watchdog"
)

// limits are those of every run here, whatever goes wrong in it: a host has one set of them too.
var limits = watchdog.Budget{
	WallClock:  5 * time.Second,
	WarnAt:     []float64{0.9},
	Idle:       600 * time.Millisecond,
	NoProgress: 1800 * time.Millisecond,
	Hold:       1500 * time.Millisecond, // of a tool; a person's approval has no cap
	Ladders: watchdog.Ladders{
		Idle:       []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveCancel},
		NoProgress: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck, watchdog.DirectiveCancel},
	},
}
