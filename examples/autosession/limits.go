package main

import (
	"fmt"
	"slices"
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

// limits are the limits in force and the source of each: the flag, the environment, the file, the session, the default.
type limits struct {
	disabled bool
	budget   watchdog.Budget
	table    []config.Setting
}

// findLimits merges all sources. Kept are the limits that the window was opened with, nil for a new window.
func findLimits(file string, budget *time.Duration, kept *watchdog.Budget) (limits, error) {
	found, err := config.Load(file, nil)
	if err != nil {
		return limits{}, err
	}
	sources := map[string]string{}
	if kept != nil {
		keepLimits(found, *kept, sources)
	}
	if budget != nil {
		found.Budget.WallClock = *budget
		if *budget == 0 {
			found.Budget.WallClock = watchdog.NoLimit
		}
		sources[wallClock] = "flag -budget"
	}
	in := limits{found.Disabled, found.Budget, ofSessions(found.Limits())}
	for i, setting := range in.table {
		if source, ok := sources[setting.Key]; ok {
			in.table[i].Source = source
		}
	}
	return in, in.check()
}

// ofSessions filters the settings of sessions: a file can also have those of commands and sweepers.
func ofSessions(all []config.Setting) []config.Setting {
	return slices.DeleteFunc(all, func(s config.Setting) bool { return !strings.HasPrefix(s.Key, "runtime_controls.") })
}

// keepLimits takes from the window the limits that neither the file nor the environment sets.
func keepLimits(found *config.Config, kept watchdog.Budget, sources map[string]string) {
	for _, setting := range found.Limits() {
		if keep := ownLimits[setting.Key]; keep != nil && setting.Source == "default" {
			keep(&found.Budget, kept)
			sources[setting.Key] = "session"
		}
	}
}

// check validates the merged limits.
func (l limits) check() error {
	if err := l.budget.Validate(); err != nil {
		return fmt.Errorf("%w; the limits are\n%s", err, l)
	}
	return nil
}

// set returns the limits that are set anywhere, and those that always hold.
func (l limits) set() limits {
	l.table = slices.DeleteFunc(slices.Clone(l.table), func(s config.Setting) bool {
		return s.Source == "default" && s.Key != wallClock && s.Key != warnAt
	})
	return l
}

// String returns one line for each limit.
func (l limits) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, setting := range l.table {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", setting.Key, setting.Value, setting.Source)
	}
	table.Flush()
	return strings.TrimRight(text.String(), "\n")
}
