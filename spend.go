package watchdog

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/seed62658d38/watchdog/internal/record"
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
		if flaw := record.TextFlaw(tool, MaxAggregateID); flaw != "" {
			return fmt.Errorf("%w budget: a name in Spend.Tools %s", ErrInvalid, flaw)
		}
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
	return numbers == 0 && s.Cost == Money{} && s.Reserve == Totals{} && len(s.Tools) == 0 && s.WarnAt == nil
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

// limits are those that are on, as the decision takes them, of a scope or the run's own.
func (s *Spend) limits(scope string) (limits []verdict.CountLimit) {
	warnAt := inOrder(s.WarnAt)
	for l := range s.listed() {
		limit := limitOf(l.max)
		if limit == NoLimit {
			continue
		}
		limits = append(limits, verdict.CountLimit{
			CountID: verdict.CountID{Kind: l.kind, Tool: l.tool, Scope: scope}, Max: limit, Reserve: l.reserve,
			WarnAt: warnAt,
		})
	}
	return limits
}

// A SharedSpend is limits that several runs share, such as those of a tenant, a fleet, a day: what each of them uses
// counts for all, whatever process it runs in. A run names them in its [Config]; its layers count for them, too.
type SharedSpend struct {
	// Scope names it, at most [MaxAggregateID] characters, with that of a tool of Spend.Tools.
	Scope string
	// Spend holds the limits, which every run that names the scope should give alike. CallInput, Errors and Retries are
	// of a run alone.
	Spend Spend
	// Period and Zone say when the count begins again, by the clock of the store. The zero value is never.
	Period Period
	Zone   string
}

// toolScope is the name under which a store keeps the limit of one tool.
func toolScope(scope, tool string) string {
	if tool == "" {
		return scope
	}
	return scope + "/tool/" + tool
}

func checkScopes(scopes []SharedSpend) error {
	seen := map[string]bool{}
	for _, s := range scopes {
		if err := s.check(); err != nil {
			return err
		}
		if seen[s.Scope] {
			return fmt.Errorf("%w config: Scopes has %q twice", ErrInvalid, s.Scope)
		}
		seen[s.Scope] = true
	}
	return nil
}

func (s *SharedSpend) check() error {
	if flaw := record.TextFlaw(s.Scope, MaxAggregateID); flaw != "" {
		return fmt.Errorf("%w config: the name of a scope %s", ErrInvalid, flaw)
	}
	for tool := range s.Spend.Tools {
		if flaw := record.TextFlaw(toolScope(s.Scope, tool), MaxAggregateID); flaw != "" {
			return fmt.Errorf("%w config: scope %q with the name of its tool %s", ErrInvalid, s.Scope, flaw)
		}
	}
	if err := errors.Join(s.Spend.check(), s.Period.check(s.Zone)); err != nil {
		return fmt.Errorf("scope %q: %w", s.Scope, err)
	}
	switch {
	case s.Spend.none():
		return fmt.Errorf("%w config: scope %q has no limit", ErrInvalid, s.Scope)
	case min(limitOf(s.Spend.CallInput), limitOf(s.Spend.Errors), limitOf(s.Spend.Retries)) != NoLimit:
		return fmt.Errorf("%w config: scope %q has CallInput, Errors or Retries, which are limits of one run; set them in "+
			"Budget", ErrInvalid, s.Scope)
	}
	return nil
}

// toolsOf are the tools that the limits are of which add up, each once; the empty one is all.
func toolsOf(limits []verdict.CountLimit) (tools []string) {
	for _, l := range limits {
		if l.Kind < verdict.KindCallInput && !slices.Contains(tools, l.Tool) {
			tools = append(tools, l.Tool)
		}
	}
	return tools
}
