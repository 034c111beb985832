package watchdog

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The code of a cancellation has at most maxReason characters, each one of codeLetters.
const (
	maxReason   = 100
	codeLetters = "abcdefghijklmnopqrstuvwxyz0123456789_"
)

// A Cancellation is a cancel that another guard than the watchdog's own limits has decided: that of a command, that of
// the sessions in a database, or the host's.
type Cancellation struct {
	// Reason is the code: one of the watchdog's own, or a host's, of at most 100 characters a to z, 0 to 9 and _. A
	// host's code does not begin with "watchdog_", does not end with "_exceeded", and is none of the watchdog's own
	// without its beginning.
	Reason StopReason
	// Elapsed is what was used of the guard's limit, Budget what there was; zero if it has none.
	Elapsed, Budget time.Duration
	// ObserveOnly records the cancel and does not carry it out, as for a run that is only observed.
	ObserveOnly bool
}

// Cancel ends the run as a limit does: the event is recorded first, then the context ends with the [Stop] as its cause.
// A store that fails or hangs delays that by at most the record timeout, and Close returns its error if the event was
// never recorded. A layer's cancel leaves the run around it as it is.
//
// The first cause wins: Cancel returns the stop that counts, which is another one if a limit was exceeded before, if
// the run was stopped already, or if another process was first. It returns nil for a run that is only observed: then
// the cancel is recorded as a warning and given as a [Directive], once for each call, and the run goes on.
//
// The error wraps [ErrInvalid] if the Reason is empty, is no code or would be read back as another, or if a length is
// negative; and [ErrEnded] if the run has ended without a stop, or for a nil Watchdog. Nothing is recorded then.
func (w *Watchdog) Cancel(c Cancellation) (*Stop, error) {
	if w == nil {
		return nil, fmt.Errorf("cancel: %w", errNoRun)
	}
	stop, err := w.r.cancelFor(c)
	if err != nil {
		return nil, fmt.Errorf("cancel run %s: %w", w.r.Node.Run, err)
	}
	return stop, nil
}

func (r *run) cancelFor(c Cancellation) (*Stop, error) {
	if flaw := c.flaw(); flaw != "" {
		return nil, fmt.Errorf("%w cancellation: %s", ErrInvalid, flaw)
	}
	in := machine.Input{Kind: machine.Cancel, Guard: &machine.Guard{
		Verdict: verdict.Verdict{
			Action: verdict.Cancel, Directive: verdict.DirectCancel, Rung: 1, Used: c.Elapsed, Allowed: c.Budget,
		},
		Reason: record.Reason(string(c.Reason)), Observe: c.ObserveOnly,
	}}
	if _ = r.Decide(&in); in.Done { // only observed
		return nil, nil
	}
	return r.howEnded()
}

func (c Cancellation) flaw() string {
	if flaw := event.Flaw(string(c.Reason), maxReason); flaw != "" {
		return "its Reason " + flaw
	}
	switch read := codeOf(record.Reason(string(c.Reason))); {
	case strings.TrimLeft(string(c.Reason), codeLetters) != "":
		return fmt.Sprintf("its Reason is %q; use the characters a to z, 0 to 9 and _", c.Reason)
	case strings.HasPrefix(string(c.Reason), record.CodePrefix) && !c.Reason.Own():
		return fmt.Sprintf("its Reason is %q; only the watchdog's own codes begin with %q", c.Reason, record.CodePrefix)
	case read != c.Reason:
		return fmt.Sprintf("its Reason is %q and would be read back as %q; use that, or another name", c.Reason, read)
	case c.Elapsed < 0:
		return fmt.Sprintf("its Elapsed is %v; use a positive duration, or 0 for none", c.Elapsed)
	case c.Budget < 0:
		return fmt.Sprintf("its Budget is %v; use a positive duration, or 0 for none", c.Budget)
	}
	return ""
}
