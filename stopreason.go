package watchdog

import (
	"context"
	"os"
	"slices"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/taxonomy"
)

// A StopReason is the stable code of why a run ended: snake_case, never renamed, written to events and session
// rows and compared with ==. It is an error, so that errors.Is finds it in a [Stop] or in a context's cause. That of a
// limit of time is a timeout, see [StopReason.Timeout].
// The zero value is no reason.
type StopReason string

// The codes of the watchdog's own limits.
const (
	// WallClockExceeded says that the run's window lasted longer than its wall-clock budget.
	WallClockExceeded StopReason = "watchdog_wall_clock_exceeded"
	// SafetyExceeded says that the run lasted longer than its hard cap allows, from this attach.
	SafetyExceeded StopReason = "watchdog_safety_exceeded"
	// IdleExceeded says that the run gave no sign of life for too long.
	IdleExceeded StopReason = "watchdog_idle_exceeded"
	// NoProgressExceeded says that the run got nowhere for too long, however active it was.
	NoProgressExceeded StopReason = "watchdog_no_progress_exceeded"
	// HoldExceeded says that a stretch in which silence was expected, such as a tool call, lasted longer than its cap.
	HoldExceeded StopReason = "watchdog_hold_exceeded"
	// TokensExceeded says that a call did not fit in the run's limit of tokens, those in, out or in all, or overran it.
	TokensExceeded StopReason = "watchdog_tokens_exceeded"
	// CallInputExceeded says that one call needed more tokens of input than one may send.
	CallInputExceeded StopReason = "watchdog_call_input_exceeded"
	// CostExceeded says that a call did not fit in the run's limit of cost, or overran it.
	CostExceeded StopReason = "watchdog_cost_exceeded"
	// RequestsExceeded says that a call did not fit in the run's limit of requests.
	RequestsExceeded StopReason = "watchdog_requests_exceeded"
	// TurnsExceeded says that a call did not fit in the run's limit of turns.
	TurnsExceeded StopReason = "watchdog_turns_exceeded"
	// ToolCallsExceeded says that a call did not fit in the run's limit of calls of tools, or of the one tool that the
	// [Usage] names.
	ToolCallsExceeded StopReason = "watchdog_tool_calls_exceeded"
	// ErrorsExceeded says that too many calls in a row failed, or had to be tried again.
	ErrorsExceeded StopReason = "watchdog_errors_exceeded"
)

// The codes of other guards: of loops, of commands and of sessions in a database. They end a run by [Watchdog.Cancel]
// or write its cancel themselves.
const (
	// LoopDetected says that the run did the same again and got the same. A host that finds that, with package loop,
	// cancels the run with it.
	LoopDetected StopReason = "watchdog_loop_detected"
	// CommandNoOutput says that a command wrote nothing for too long.
	CommandNoOutput StopReason = "watchdog_no_output"
	// CommandNoProgress says that what a command works on did not change for too many probes.
	CommandNoProgress StopReason = "watchdog_no_progress"
	// CommandTerminal says that a command came to a state that it cannot get out of.
	CommandTerminal StopReason = "watchdog_terminal"
	// SessionIdleTimeout says that a session in a database had nothing new for too long, whoever ran it.
	SessionIdleTimeout StopReason = "watchdog_idle_timeout"
	// SessionHostLost says that the process of a session in a database was found dead or cut off, and that the session
	// had nothing new for too long. It is a timeout as SessionIdleTimeout is: the same limit decides when.
	SessionHostLost StopReason = "watchdog_host_lost"
)

// guardReasons are the codes that are not those of limits.
var guardReasons = []StopReason{
	LoopDetected, CommandNoOutput, CommandNoProgress, CommandTerminal, SessionIdleTimeout, SessionHostLost,
}

// StopReasons returns every code of the watchdog's own: those of its limits, then those of the other guards of this
// module. A host stops a run with a code of its own by [Watchdog.Cancel]. The slice is the caller's.
func StopReasons() (all []StopReason) {
	for _, limit := range taxonomy.Limits {
		all = append(all, StopReason(record.LimitCode(limit.Name)))
	}
	return append(all, guardReasons...)
}

// Error returns the code.
func (r StopReason) Error() string { return string(r) }

// Own reports whether the code is one of the watchdog's own: of its limits, or of another guard of this module.
func (r StopReason) Own() bool {
	return record.LimitOfCode(string(r)) != nil || slices.Contains(guardReasons, r)
}

// Timeout reports whether the code is that of a limit of time of the watchdog or of another guard of this module, as
// [net.Error] has it. It is false for a limit that counts, for [CommandTerminal], and for every code of a host: what
// such a guard measured is not known.
func (r StopReason) Timeout() bool {
	if limit := record.LimitOfCode(string(r)); limit != nil {
		return !limit.Counts
	}
	return r == CommandNoOutput || r == SessionIdleTimeout || r == SessionHostLost // CommandNoProgress counts probes
}

// Temporary reports the same as Timeout, as [context.DeadlineExceeded] and [os.ErrDeadlineExceeded] do. It makes the
// code a [net.Error]. It does not mean that the run can be tried again.
func (r StopReason) Temporary() bool { return r.Timeout() }

// Is reports true for [context.DeadlineExceeded] and [os.ErrDeadlineExceeded] if the code is that of a limit of time.
func (r StopReason) Is(target error) bool {
	return r.Timeout() && (target == context.DeadlineExceeded || target == os.ErrDeadlineExceeded)
}

func codeOf(reason string) StopReason { return StopReason(record.Code(reason)) }
