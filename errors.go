package watchdog

import (
	"errors"

	"github.com/seed62658d38/watchdog/internal/invalid"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// The errors of the package. Each method says which of them it wraps.
var (
	// ErrInvalid says that what the caller passed is wrong: a run, a config, a budget, an event, a name. The text says
	// which field, with which value, and what to use. Nothing was changed. The other packages of this module wrap it,
	// too.
	ErrInvalid = invalid.Err
	// ErrParentEnded says that the context was done before the run was attached. New and Resume wrap it, with the
	// context's cause.
	ErrParentEnded = errors.New("parent context has ended")
	// ErrEnded says that the run has ended. Complete, Extend, Interrupt, Hold and Layer wrap it, with the cause of the
	// end. Cancel and Sync wrap it if the run ended without a stop. On a nil Watchdog, Cancel, Extend, Interrupt and
	// Layer wrap it.
	ErrEnded = errors.New("run has ended")
	// ErrComplete says that the host declared the run done, see [Watchdog.Complete]. New wraps it; to go on with such a
	// run is to Resume it. It is the cause of the context of a run that is complete.
	ErrComplete = machine.ErrComplete
	// ErrClosed is the cause of the run's context after Close ended it.
	ErrClosed = errors.New("watchdog closed")
	// ErrHeld says that a hold with the key is open. Hold and During wrap it.
	ErrHeld = errors.New("already held")
	// ErrFailing says that guards have stopped the run as often in a row as [Config].MaxStops allows. Resume wraps it.
	ErrFailing = errors.New("run fails again and again")
	// ErrUnreadableEvent says that the payload of one of the run's events cannot be understood. New, Resume and Sync wrap
	// it, because they cannot tell whether the run may continue. The text names the event.
	ErrUnreadableEvent = journal.ErrUnreadableEvent
)

// errNoRun is the error of what cannot be done without a run.
var errNoRun error = noRun{}

type noRun struct{}

// Error says that there is no run.
func (noRun) Error() string { return "there is no run: the Watchdog is nil" }

// Unwrap returns [ErrEnded].
func (noRun) Unwrap() error { return ErrEnded }
