package fold

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Key names a limit of a run and its ladder: a limit of time, the caps of the holds with a key, or a counted limit.
// The zero Key stands for the wall clock where a budget is meant.
type Key = record.FoldedLimit

// KeyOf names the ladder that a trip is on, of a counted limit if it has a spend. A hold has one for its cap; its
// silence is on that of idle.
func KeyOf(limit verdict.Limit, hold string, s *record.Spend) Key {
	switch {
	case s != nil:
		return CountKey(s.Limit, s.Tool, s.Scope)
	case limit == verdict.Hold:
		return Key{Limit: string(limit), Hold: hold}
	}
	return Key{Limit: string(limit)}
}

// CountKey names a counted limit.
func CountKey(limit, tool, scope string) Key {
	return Key{Limit: limit, Tool: tool, Scope: scope, Count: true}
}

// A Directive is one that the host was given.
type Directive struct {
	Rung    int
	On      Key
	Allowed int64 // by a counted limit, with its extensions
}

// budgetOf names a budget of one limit, that of the wall clock in seconds.
func budgetOf(wallClock record.Seconds, s *record.Spend) record.FoldedNumber {
	if s == nil {
		return record.FoldedNumber{Budget: wallClock}
	}
	return record.FoldedNumber{FoldedLimit: KeyOf("", "", s), Budget: record.Seconds(s.Allowed)}
}

// Elapsed is what was used of the limit that a cancel is about. What elapsed is floored in it; the two times tell it
// exactly, unless the clock was set in between.
func Elapsed(p *record.Cancel) time.Duration {
	elapsed := record.Duration(p.ElapsedSeconds)
	if p.MeasuredSeconds != 0 {
		elapsed = record.Duration(p.MeasuredSeconds)
	}
	if p.Reason != record.LimitReason(string(verdict.WallClock)) {
		return elapsed
	}
	exact := time.Time(p.FiredAt).Sub(time.Time(p.SessionStartedAt)) - record.Duration(p.PausedSeconds)
	if exact.Truncate(time.Second) == elapsed {
		return exact
	}
	return elapsed
}
