package watchdog

import (
	"fmt"
	"strings"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/internal/wording"
)

// A Usage is how far one counted limit of a run is used.
type Usage struct {
	// Run is the run whose limit it is. Limit is what it counts, as events name it: the field of [Spend] in snake_case,
	// such as "tool_calls", or "loop".
	Run   string `json:"run,omitempty"`
	Limit string `json:"limit"`
	// Tool is the one tool that it limits, Scope who shares it; empty for all tools, and for a limit of the run alone.
	Tool  string `json:"tool,omitempty"`
	Scope string `json:"scope,omitempty"`
	// Currency is that of a cost, whose numbers are micro-units.
	Currency string `json:"currency,omitempty"`
	// Used is what was settled, Admitted what open calls may use besides, Allowed the limit with its extensions. Of a
	// shared limit they are as of the last slice that this process took.
	Used     int64 `json:"used"`
	Admitted int64 `json:"admitted,omitempty"`
	Allowed  int64 `json:"allowed"`
	// Needed is what the call may use that did not fit, 0 where none was refused.
	Needed int64 `json:"needed,omitempty"`
	// Pattern names what a loop repeats: its rule, the turns in a round, and a digest. Used is then how often.
	Pattern string `json:"pattern,omitempty"`
}

// Remaining returns what is left for new calls, at least 0.
func (u Usage) Remaining() int64 {
	return max(u.Allowed-verdict.AddCount(u.Used, u.Admitted), 0)
}

// Code is the stop code of the limit.
func (u Usage) Code() StopReason {
	if kind := verdict.KindOf(u.Limit); kind >= 0 {
		return codeOf(reasonOf(kind.Limit()))
	}
	return ""
}

// String says which limit it is and how far it is used.
func (u Usage) String() string {
	name := strings.ReplaceAll(u.Limit, "_", " ")
	if u.Tool != "" {
		name = fmt.Sprintf("%s of %q", name, u.Tool)
	}
	if u.Scope != "" {
		name = fmt.Sprintf("%s shared by %q", name, u.Scope)
	}
	if u.Pattern != "" {
		return fmt.Sprintf("%s: the same %d times (%s)", name, u.Used, u.Pattern)
	}
	switch {
	case u.Needed == 0:
		text := fmt.Sprintf("%s: %s of %s used", name, u.amount(u.Used), u.amount(u.Allowed))
		if u.Admitted > 0 {
			text += fmt.Sprintf(", %s admitted", u.amount(u.Admitted))
		}
		return text
	case u.Limit == verdict.KindCallInput.String():
		return fmt.Sprintf("%s: at most %s, and this call may need %s", name, u.amount(u.Allowed), u.amount(u.Needed))
	}
	text := fmt.Sprintf("%s: %s of %s left", name, u.amount(u.Remaining()), u.amount(u.Allowed))
	if u.Admitted > 0 {
		text += fmt.Sprintf(" beside %s for calls under way", u.amount(u.Admitted))
	}
	text += ", and this call may need " + u.amount(u.Needed)
	if u.Needed <= u.Remaining() {
		text += ", more than there is before wrapping up"
	}
	return text
}

// amount is a number of the limit as people read it.
func (u Usage) amount(n int64) string { return wording.Amount(n, u.Currency) }

// A Refused says which limit a call did not fit in. [Watchdog.Admit] returns it; nothing was charged, and the call must
// not be made. errors.Is finds the stop code of the limit in it.
type Refused struct {
	Usage
}

// Error says which limit it was, how far it is used and what the call needs.
func (r *Refused) Error() string {
	do := "make it smaller, or extend the limit"
	if r.Needed == 1 { // such as one request
		do = "extend the limit to make it"
	}
	return fmt.Sprintf("call of run %s refused: %s; %s", r.Run, r.Usage, do)
}

// Unwrap returns the stop code of the limit.
func (r *Refused) Unwrap() error { return r.Code() }

// usageOfRecord is what events have of it, nil for none.
func usageOfRecord(runID string, s *record.Spend) *Usage {
	if s == nil {
		return nil
	}
	return &Usage{
		Run: runID, Limit: s.Limit, Tool: s.Tool, Scope: s.Scope, Currency: s.Currency,
		Used: int64(s.Used), Admitted: int64(s.Admitted), Allowed: int64(s.Allowed),
		Needed: int64(s.Needed), Pattern: s.Pattern,
	}
}
