package stall

import (
	"fmt"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/signame"
)

// ParseSignal returns the signal with a name or a number: SIGTERM, TERM, term and 15 are the same. The error wraps
// [watchdog.ErrInvalid]; it says why the signal cannot end a command, or that there is none.
func ParseSignal(text string) (syscall.Signal, error) {
	sig, problem := signame.Parse(text)
	if problem != "" {
		return 0, fmt.Errorf("signal %q: %w", text, unfit(problem))
	}
	return sig, nil
}

// SignalName returns the usual name of a signal, such as SIGTERM, or what package syscall calls one without.
func SignalName(sig syscall.Signal) string { return signame.Name(sig) }

// An unfit is why a signal cannot end a command.
type unfit string

func (u unfit) Error() string { return string(u) }

func (u unfit) Unwrap() error { return watchdog.ErrInvalid }
