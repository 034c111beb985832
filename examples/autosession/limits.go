package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

// The limits that are always shown. -budget sets the wall clock.
const (
	wallClock = "runtime_controls.session_wall_clock_seconds"
	warnAt    = "runtime_controls.warn_at"
)

// ownLimits are the limits that a session keeps, by key.
var ownLimits = map[string]func(to *watchdog.Budget, from watchdog.Budget){
	wallClock:                          func(to *watchdog.Budget, from watchdog.Budget) { to.WallClock = from.WallClock },
	warnAt:                             func(to *watchdog.Budget, from watchdog.Budget) { to.WarnAt = from.WarnAt },
	"runtime_controls.reserve_seconds": func(to *watchdog.Budget, from watchdog.Budget) { to.Reserve = from.Reserve },
}

// limits are the limits in force, and a table of them with the source of each.
type limits struct {
	disabled bool
	budget   watchdog.Budget
	table    string
}

// findLimits merges the flag, the environment, the file, the session and the defaults. Kept are the limits that the
// window was opened with, nil for a new window.
func findLimits(file string, budget *time.Duration, kept *watchdog.Budget) (limits, error) {
	found, err := config.Load(file, nil)
	if err != nil {
		return limits{}, err
	}
	sources := map[string]string{}
	for _, setting := range found.Limits() {
		if keep := ownLimits[setting.Key]; kept != nil && keep != nil && setting.Source == "default" {
			keep(&found.Budget, *kept)
			sources[setting.Key] = "session"
		}
	}
	if budget != nil {
		found.Budget.WallClock = cmp.Or(*budget, watchdog.NoLimit)
		sources[wallClock] = "flag -budget"
	}
	in := limits{found.Disabled, found.Budget, table(found.Limits(), sources)}
	if err := in.budget.Validate(); err != nil {
		return limits{}, fmt.Errorf("%w; the limits are\n%s", err, in.table)
	}
	return in, nil
}

// table has a line for each limit of sessions that is set, and for those that always hold: a file can also have limits
// of commands and sweepers.
func table(settings []config.Setting, sources map[string]string) string {
	var text strings.Builder
	lines := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, s := range settings {
		source := cmp.Or(sources[s.Key], s.Source)
		isShown := source != "default" || s.Key == wallClock || s.Key == warnAt
		if isShown && strings.HasPrefix(s.Key, "runtime_controls.") {
			fmt.Fprintf(lines, "  %s\t%s\t%s\n", s.Key, s.Value, source)
		}
	}
	lines.Flush()
	return strings.TrimRight(text.String(), "\n")
}
