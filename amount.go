package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/verdict"
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

// flaw says what is wrong with the amount, or nothing.
func (a *Amount) flaw() string {
	var c verdict.Counts
	a.countInto(&c)
	name, n := negativeCount(&c)
	switch {
	case n < 0:
		return fmt.Sprintf("its %s is %d; use a positive number, or 0 for none", name, n)
	case a.Cost.Micros != 0 && a.Cost.Currency == "":
		return fmt.Sprintf("its Cost of %d has no Currency", a.Cost.Micros)
	case a.ToolCalls == 0 && a.Tool != "":
		return fmt.Sprintf("its Tool is %q and it has no ToolCalls", a.Tool)
	case a.Result != "" && a.Result != ResultOK && a.Result != ResultError && a.Result != ResultRetry:
		return fmt.Sprintf("its Result is %q; use %q, %q, %q or none", a.Result, ResultOK, ResultError, ResultRetry)
	}
	return ""
}

// negativeCount returns the first count that is below zero, and the name of its field, or 0.
func negativeCount(c *verdict.Counts) (name string, n int64) {
	for kind, n := range c {
		if n < 0 {
			return verdict.Kind(kind).Field(), n
		}
	}
	return "", 0
}

// setUse sets a use to the amount.
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

// setCounts sets the amount to a use, whose currency, tool and result it has.
func (a *Amount) setCounts(u *verdict.Use) {
	c := &u.Counts
	a.InputTokens, a.OutputTokens, a.Cost.Micros = c[verdict.KindInput], c[verdict.KindOutput], c[verdict.KindCost]
	a.Requests, a.Turns, a.ToolCalls = c[verdict.KindRequests], c[verdict.KindTurns], c[verdict.KindToolCalls]
}

// Add returns the sum of both, kind by kind, which are not negative. What is too much for a number is [NoLimit].
func (t Totals) Add(other Totals) Totals {
	sum, more := t.counts(), other.counts()
	sum.Add(&more)
	return totalsOf(sum)
}

// Sub returns what is left of t without other, kind by kind, which are not negative; less than nothing is negative.
// What is [NoLimit] stays so.
func (t Totals) Sub(other Totals) Totals {
	rest, less := t.counts(), other.counts()
	for i := range rest {
		rest[i] = verdict.SubCount(rest[i], less[i])
	}
	return totalsOf(rest)
}

// GiveBack returns what is left of t, which a window is charged with, when unused is given back of a slice. The error
// wraps [ErrInvalid] if unused is negative or more than was granted.
func (t Totals) GiveBack(granted, unused Totals) (Totals, error) {
	back := unused.counts()
	for i, most := range granted.counts() {
		if back[i] < 0 || back[i] > most {
			return t, fmt.Errorf("%w return of %d %s: from 0 to %d were granted and can be given back", ErrInvalid, back[i],
				verdict.Kind(i), most)
		}
	}
	return t.Sub(unused), nil
}

func (t Totals) counts() verdict.Counts {
	return verdict.Counts{t.InputTokens, t.OutputTokens, t.Tokens, t.Cost, t.Requests, t.Turns, t.ToolCalls}
}

func totalsOf(c verdict.Counts) Totals {
	return Totals{c[0], c[1], c[2], c[3], c[4], c[5], c[6]}
}
