// Package taxonomy is the one table of what a run can exceed. From it come the stop codes of limits and what they mean,
// and the names of counts in events, errors, databases and metrics.
//
// It knows no rule of them, and nothing else of the module.
package taxonomy

import "slices"

// A Limit is what trips are named after: in reasons, in stop codes and in the ladders of a budget. Several counts can
// share one.
type Limit struct {
	// Name is snake_case, and stored.
	Name string
	// Counts tells a limit that counts from a length of time.
	Counts bool
	// Lead begins the sentence that has the lengths of time that decided. Meaning is that sentence without numbers.
	Lead, Meaning string
}

// Limits are the limits. Their codes are listed in this order.
var Limits = [...]Limit{
	{"wall_clock", false, "ran", "its window lasted longer than its wall-clock budget"},
	{"safety", false, "ran from this attach for", "it lasted longer than its hard cap, from this attach"},
	{"idle", false, "no sign of life for", "it gave no sign of life for too long, by its own limit or that of a hold"},
	{"no_progress", false, "no progress for", "it got nowhere for too long, however active it was"},
	{"hold", false, "a hold was open for", "a stretch in which silence was expected lasted longer than its cap"},
	{"tokens", true, "", "it reached its limit of tokens: those in, out or in all"},
	{"call_input", true, "", "one call needed more tokens of input than one may send"},
	{"cost", true, "", "it reached its limit of cost"},
	{"requests", true, "", "it reached its limit of requests"},
	{"turns", true, "", "it reached its limit of turns"},
	{"tool_calls", true, "", "it reached its limit of calls of tools, or of one tool"},
	{"errors", true, "", "too many calls in a row failed, or had to be tried again"},
}

// A Count is what is counted, of which a budget has a limit.
type Count struct {
	// Name is that in events, databases, files of settings and metrics, Field that in watchdog.Spend, and in
	// watchdog.Amount and watchdog.Totals if it adds up.
	Name, Field string
	// Limit names the limit.
	Limit string
}

// Counts are in the order of verdict.Kind: first those that add up.
var Counts = [...]Count{
	{"input_tokens", "InputTokens", "tokens"},
	{"output_tokens", "OutputTokens", "tokens"},
	{"tokens", "Tokens", "tokens"},
	{"cost", "Cost", "cost"},
	{"requests", "Requests", "requests"},
	{"turns", "Turns", "turns"},
	{"tool_calls", "ToolCalls", "tool_calls"},
	{"call_input", "CallInput", "call_input"},
	{"errors", "Errors", "errors"},
	{"retries", "Retries", "errors"},
}

// Find returns the limit with the name, nil if there is none.
func Find(name string) *Limit {
	i := slices.IndexFunc(Limits[:], func(l Limit) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &Limits[i]
}
