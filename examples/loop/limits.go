package main

import (
	"time"

	"github.com/seed62658d38/watchdog"
)

// limits are the limits of every run here, as a host has one set of limits.
var limits = watchdog.Budget{
	WallClock:  5 * time.Second,
	WarnAt:     []float64{0.9},
	Reserve:    400 * time.Millisecond,
	Idle:       600 * time.Millisecond,
	NoProgress: 1800 * time.Millisecond,
	Hold:       1500 * time.Millisecond, // for tools; a person's approval has no cap
	Spend: watchdog.Spend{ // for the run and all its sub-agents together
		Cost:    watchdog.Money{Micros: 1_000_000, Currency: "EUR"},
		Reserve: watchdog.Totals{Cost: 200_000},
		WarnAt:  []float64{0.5},
	},
	Ladders: watchdog.Ladders{
		Idle:       []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveCancel},
		NoProgress: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck, watchdog.DirectiveCancel},
		Loop:       []watchdog.DirectiveKind{watchdog.DirectiveUnstuck, watchdog.DirectiveCancel},
	},
}
