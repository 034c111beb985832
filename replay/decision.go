package replay

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Decision is what the watchdog decides at one instant of a trace.
type Decision struct {
	// At is when it was due: what had elapsed of the window.
	At time.Duration
	// Kind is the directive, or empty for a warning of the wall clock, of which Fraction was used.
	Kind     watchdog.DirectiveKind
	Fraction float64
	// Reason is the code of the limit; Rung, Hold, Used and Allowed are as in a [watchdog.Directive].
	Reason        watchdog.StopReason
	Rung          int
	Hold          string
	Used, Allowed time.Duration
	// Usage is that of a counted limit, nil for a limit of time.
	Usage *watchdog.Usage
}

// decision is a verdict with the counted limit that it is about, nil for one of time.
func decision(v *verdict.Verdict, spend *record.Spend, now time.Duration) Decision {
	d := Decision{
		At: now, Kind: watchdog.DirectiveKind(v.Directive), Fraction: v.Fraction,
		Reason: watchdog.StopReason(record.LimitCode(string(v.Limit))),
		Rung:   v.Rung, Hold: v.Hold, Used: v.Used, Allowed: v.Allowed,
	}
	if spend != nil {
		d.Usage = &watchdog.Usage{
			Limit: spend.Limit, Tool: spend.Tool, Currency: spend.Currency, Used: int64(spend.Used),
			Admitted: int64(spend.Admitted), Allowed: int64(spend.Allowed), Needed: int64(spend.Needed), Pattern: spend.Pattern,
		}
	}
	return d
}
