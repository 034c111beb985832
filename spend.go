package watchdog

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Spend limits what a run may use besides time, in a window. A limit is exceeded when more than it was used. Zero and
// [NoLimit] mean no limit, [None] that nothing may be used. See [Watchdog.Admit].
type Spend struct {
	// InputTokens, OutputTokens and Tokens limit the tokens in, out and in all.
	InputTokens, OutputTokens, Tokens int64
	// CallInput limits the tokens that one call may send.
	CallInput int64
	// Cost limits the money. It needs a Currency.
	Cost Money
	// Requests, Turns and ToolCalls limit how many there are of each, Tools the calls of one tool, by its name.
	Requests, Turns, ToolCalls int64
	Tools                      map[string]int64
	// Errors limits how many calls in a row may end with [ResultError], Retries how many with [ResultRetry].
	Errors, Retries int64
	// Reserve is the part of each limit that is kept for wrapping up: the first call that does not fit in the rest has
	// the host asked for that ([DirectiveWrapUp]), and unlocks it. Zero means no reserve.
	Reserve Totals
	// WarnAt holds the fractions of each limit at which the run is warned, as [Budget].WarnAt does. Nil means
	// [DefaultWarnAt], an empty slice no warnings.
	WarnAt []float64
	// Used is what the run has used before this process, in its window: what [Watchdog.Usage] returned there, which the
	// host has kept. What is used and admitted counts for the limits from the first [Watchdog.Admit] on, in the units of
	// Usage. What is not limited here, and how many calls in a row failed, is left out. That of a [Watchdog.Layer] counts
	// for the layer alone. Nil is nothing.
	//
	// A process that keeps Usage before a call that was admitted is made, and again when it is settled, never oversteps a
	// limit after a restart: a call that was cut off may be billed, and stays charged.
	Used []Usage
}

type countedLimit struct {
	kind         verdict.Kind
	tool         string
	max, reserve int64
}

func (s *Spend) listed() iter.Seq[countedLimit] {
	return func(yield func(countedLimit) bool) {
		for _, l := range [...]countedLimit{
			{verdict.KindInput, "", s.InputTokens, s.Reserve.InputTokens},
			{verdict.KindOutput, "", s.OutputTokens, s.Reserve.OutputTokens},
			{verdict.KindTokens, "", s.Tokens, s.Reserve.Tokens},
			{verdict.KindCallInput, "", s.CallInput, 0},
			{verdict.KindCost, "", s.Cost.Micros, s.Reserve.Cost},
			{verdict.KindRequests, "", s.Requests, s.Reserve.Requests},
			{verdict.KindTurns, "", s.Turns, s.Reserve.Turns},
			{verdict.KindToolCalls, "", s.ToolCalls, s.Reserve.ToolCalls},
			{verdict.KindErrors, "", s.Errors, 0},
			{verdict.KindRetries, "", s.Retries, 0},
		} {
			if !yield(l) {
				return
			}
		}
		if len(s.Tools) == 0 {
			return
		}
		for _, tool := range slices.Sorted(maps.Keys(s.Tools)) {
			if !yield(countedLimit{verdict.KindToolCalls, tool, s.Tools[tool], 0}) {
				return
			}
		}
	}
}

func (s *Spend) check() error {
	if s.isZero() { // nearly always of a layer
		return nil
	}
	for l := range s.listed() {
		if err := l.check(); err != nil {
			return err
		}
	}
	for tool := range s.Tools {
		if flaw := event.Flaw(tool, event.MaxAggregateID); flaw != "" {
			return fmt.Errorf("%w budget: a name in Spend.Tools %s", ErrInvalid, flaw)
		}
	}
	if err := s.checkUsed(); err != nil {
		return err
	}
	switch flaw := currencyFlaw(s.Cost.Currency); {
	case flaw != "":
		return fmt.Errorf("%w budget: the currency of Spend.Cost %s", ErrInvalid, flaw)
	case limitOf(s.Cost.Micros) != NoLimit && s.Cost.Currency == "":
		return fmt.Errorf("%w budget: Spend.Cost of %d has no Currency; name that of the prices, such as EUR", ErrInvalid,
			s.Cost.Micros)
	case s.WarnAt != nil && s.none():
		return fmt.Errorf("%w budget: Spend.WarnAt is set and Spend has no limit", ErrInvalid)
	}
	return checkFractions("Spend.WarnAt", "the limit", s.WarnAt)
}

// currencyFlaw says what is wrong with a currency, or nothing. None is fine: money is not limited then.
func currencyFlaw(currency string) string {
	if len(currency) > 16 || event.Flaw(currency, 16) != "" && currency != "" {
		return fmt.Sprintf("is %q; use a short code such as EUR", currency)
	}
	return ""
}

// checkUsed finds what no [Watchdog.Usage] has returned.
func (s *Spend) checkUsed() error {
	for i, u := range s.Used {
		var flaw string
		switch currency := cmp.Or(s.Cost.Currency, u.Currency); {
		case verdict.KindOf(u.Limit) < 0 && u.Pattern == "": // that is a loop, which earlier versions counted
			flaw = fmt.Sprintf("has the limit %q, which is none; use what Usage returned", u.Limit)
		case u.Used < 0 || u.Admitted < 0:
			flaw = fmt.Sprintf("is %d, and %d admitted; neither can be negative", u.Used, u.Admitted)
		case u.Currency != "" && u.Currency != currency:
			flaw = fmt.Sprintf("is in %s, and Cost in %s", u.Currency, currency)
		case slices.ContainsFunc(s.Used[:i], func(o Usage) bool { return o.Limit == u.Limit && o.Tool == u.Tool }):
			flaw = "is a second one of its limit"
		default:
			continue
		}
		return fmt.Errorf("%w budget: Spend.Used[%d] %s", ErrInvalid, i, flaw)
	}
	return nil
}

// usedOf is what was used before this process of what a limit counts, which adds up.
func (s *Spend) usedOf(l countedLimit) int64 {
	for _, u := range s.Used {
		if u.Limit == l.kind.String() && u.Tool == l.tool && l.kind.Adds() {
			return verdict.AddCount(u.Used, u.Admitted)
		}
	}
	return 0
}

func (l countedLimit) name() string {
	if l.tool != "" {
		return "Tools"
	}
	return l.kind.Field()
}

func (l countedLimit) field() string {
	if l.tool != "" {
		return fmt.Sprintf("Spend.Tools[%q]", l.tool)
	}
	return "Spend." + l.name()
}

func (l countedLimit) check() error {
	switch limit := limitOf(l.max); {
	case l.max < None:
		return fmt.Errorf("%w budget: %s is %d; use a positive number, 0 for no limit or None for nothing at all", ErrInvalid,
			l.field(), l.max)
	case l.reserve < 0:
		return fmt.Errorf("%w budget: Spend.Reserve.%s is %d; use a positive number, or 0 for none", ErrInvalid, l.name(),
			l.reserve)
	case l.reserve > 0 && l.reserve >= limit:
		return fmt.Errorf("%w budget: Spend.Reserve.%s of %d leaves nothing of %s %d to work with", ErrInvalid, l.name(),
			l.reserve, l.field(), limit)
	case l.reserve > 0 && limit == NoLimit:
		return fmt.Errorf("%w budget: Spend.Reserve.%s is %d and %s has no limit", ErrInvalid, l.name(), l.reserve, l.field())
	}
	return nil
}

// limitOf is the number of a limit whose default is none.
func limitOf(limit int64) int64 {
	if limit == None {
		return 0
	}
	return cmp.Or(limit, NoLimit)
}

func (s *Spend) isZero() bool {
	numbers := s.InputTokens | s.OutputTokens | s.Tokens | s.CallInput | s.Requests | s.Turns | s.ToolCalls | s.Errors |
		s.Retries
	return numbers == 0 && s.Cost == Money{} && s.Reserve == Totals{} && len(s.Tools) == 0 && s.WarnAt == nil &&
		s.Used == nil
}

// none reports whether nothing is limited.
func (s *Spend) none() bool {
	if s.isZero() {
		return true
	}
	for l := range s.listed() {
		if limitOf(l.max) != NoLimit {
			return false
		}
	}
	return true
}

// limits are those that are on, as the decision takes them.
func (s *Spend) limits() (limits []verdict.CountLimit) {
	warnAt := inOrder(s.WarnAt)
	for l := range s.listed() {
		limit := limitOf(l.max)
		if limit == NoLimit {
			continue
		}
		limits = append(limits, verdict.CountLimit{
			CountID: verdict.CountID{Kind: l.kind, Tool: l.tool}, Max: limit, Reserve: l.reserve, Used: s.usedOf(l),
			WarnAt: warnAt,
		})
	}
	return limits
}
