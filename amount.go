package watchdog

import (
	"fmt"
	"strings"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/internal/wording"
)

// Money is an amount of one currency, in micro-units: a million are one unit, such as a euro. No amount is invented: a
// call whose price nobody gave costs nothing.
type Money struct {
	Micros   int64  `json:"micros,omitempty"`
	Currency string `json:"currency,omitempty"`
}

// An Amount is what a call may use at most, or has used, besides time. The zero value is nothing.
type Amount struct {
	// InputTokens and OutputTokens are those that the call sends and gets.
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	// Cost is what it costs. A run counts one currency: that of its [Spend], or of the first Cost.
	Cost Money `json:"cost,omitzero"`
	// Requests, Turns and ToolCalls are how many of each the call is.
	Requests  int64 `json:"requests,omitempty"`
	Turns     int64 `json:"turns,omitempty"`
	ToolCalls int64 `json:"tool_calls,omitempty"`
	// Tool is the name of the tool that ToolCalls are of, for [Spend].Tools.
	Tool string `json:"tool,omitempty"`
	// Result is how the call ended, for [Spend].Errors and Retries. A call without one counts in neither row.
	Result string `json:"result,omitempty"`
}

// The results of a call: how it ended.
const (
	// ResultOK ends every row of errors and of retries.
	ResultOK = string(verdict.ResultOK)
	// ResultError is an error of the call, such as a tool that failed.
	ResultError = string(verdict.ResultError)
	// ResultRetry is a call that is to be made again, such as one that was answered by 429 or 503. It is no error.
	ResultRetry = string(verdict.ResultRetry)
)

// Totals count what was used up, one number for each kind. Tokens are those in and out; Cost is in micro-units of one
// currency.
type Totals struct {
	InputTokens, OutputTokens, Tokens int64
	Cost                              int64
	Requests, Turns, ToolCalls        int64
}

func (a *Amount) flaw() string {
	var c verdict.Counts
	a.countInto(&c)
	for kind, n := range c {
		if n < 0 {
			return fmt.Sprintf("its %s is %d; use a positive number, or 0 for none", verdict.Kind(kind).Field(), n)
		}
	}
	switch {
	case a.Cost.Micros != 0 && a.Cost.Currency == "":
		return fmt.Sprintf("its Cost of %d has no Currency", a.Cost.Micros)
	case a.ToolCalls == 0 && a.Tool != "":
		return fmt.Sprintf("its Tool is %q and it has no ToolCalls", a.Tool)
	case a.Result != "" && a.Result != ResultOK && a.Result != ResultError && a.Result != ResultRetry:
		return fmt.Sprintf("its Result is %q; use %q, %q, %q or none", a.Result, ResultOK, ResultError, ResultRetry)
	}
	return ""
}

func (a *Amount) setUse(u *verdict.Use) {
	u.Tool, u.Result = a.Tool, verdict.Result(a.Result)
	a.countInto(&u.Counts)
}

// countInto sets the counts to those of the amount, in place: what is copied costs each call a tenth of its time.
func (a *Amount) countInto(c *verdict.Counts) {
	c[verdict.KindInput], c[verdict.KindOutput], c[verdict.KindCost] = a.InputTokens, a.OutputTokens, a.Cost.Micros
	c[verdict.KindRequests], c[verdict.KindTurns], c[verdict.KindToolCalls] = a.Requests, a.Turns, a.ToolCalls
	c.SumTokens()
}

// A Usage is how far one counted limit of a run is used.
type Usage struct {
	// Run is the run whose limit it is. Limit is what it counts, as events name it: the field of [Spend] in snake_case,
	// such as "tool_calls".
	Run   string `json:"run,omitempty"`
	Limit string `json:"limit"`
	// Tool is the one tool that it limits, empty for all tools.
	Tool string `json:"tool,omitempty"`
	// Currency is that of a cost, whose numbers are micro-units.
	Currency string `json:"currency,omitempty"`
	// Used is what was settled, Admitted what open calls may use besides, Allowed the limit with its extensions.
	Used     int64 `json:"used"`
	Admitted int64 `json:"admitted,omitempty"`
	Allowed  int64 `json:"allowed"`
	// Needed is what the call may use that did not fit, 0 where none was refused.
	Needed int64 `json:"needed,omitempty"`
	// Refused is how many calls did not fit since this attach, Reserve the part of the limit that is kept for wrapping up,
	// WarnAt the fractions at which the run is warned. Only [Watchdog.Usage] has them. WarnAt must not be changed.
	Refused int64     `json:"-"`
	Reserve int64     `json:"-"`
	WarnAt  []float64 `json:"-"`
	// Pattern names what a run repeated, in the event of an earlier version that stopped it for a loop. Used is then how
	// often, and Limit "loop".
	Pattern string `json:"pattern,omitempty"`
}

// Remaining returns what is left for new calls, at least 0.
func (u Usage) Remaining() int64 {
	return max(u.Allowed-verdict.AddCount(u.Used, u.Admitted), 0)
}

// Code is the stop code of the limit.
func (u Usage) Code() StopReason {
	if kind := verdict.KindOf(u.Limit); kind >= 0 {
		return codeOf(record.LimitReason(string(kind.Limit())))
	}
	return ""
}

// String says which limit it is and how far it is used.
func (u Usage) String() string {
	name := strings.ReplaceAll(u.Limit, "_", " ")
	if u.Tool != "" {
		name = fmt.Sprintf("%s of %q", name, u.Tool)
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
		Run: runID, Limit: s.Limit, Tool: s.Tool, Currency: s.Currency,
		Used: int64(s.Used), Admitted: int64(s.Admitted), Allowed: int64(s.Allowed),
		Needed: int64(s.Needed), Pattern: s.Pattern,
	}
}
