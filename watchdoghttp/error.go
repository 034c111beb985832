package watchdoghttp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrSilent is found by errors.Is in every [SilenceError].
var ErrSilent = errors.New("server is silent")

// A SilenceError says that a [Transport] ended an HTTP exchange because the server was silent for too long. It is the
// cause of the request's context. It wraps [ErrSilent], [context.DeadlineExceeded] and [os.ErrDeadlineExceeded], and is
// a [net.Error], as every timeout of this module. It must not be changed.
type SilenceError struct {
	// Host is the host of the request, with the port if there is one. Nothing else of the URL is kept: it can be secret.
	Host string
	// Answered says that the header had come: the body went silent.
	Answered bool
	// Limit is how long the server may be silent, Elapsed how long it was: the sum of the Reads since its last sign of
	// life, where [Transport].Alive let some of them bring none.
	Limit, Elapsed time.Duration
}

// Error says which server was silent, for how long, and when.
func (s *SilenceError) Error() string {
	when := "before it answered"
	if s.Answered {
		when = "in the middle of its answer"
	}
	return fmt.Sprintf("%s was silent for %v %s, and may be for %v; try again, or raise the limit if it needs that long",
		s.Host, s.Elapsed, when, s.Limit)
}

// Unwrap returns [ErrSilent], [context.DeadlineExceeded] and [os.ErrDeadlineExceeded].
func (s *SilenceError) Unwrap() []error {
	return []error{ErrSilent, context.DeadlineExceeded, os.ErrDeadlineExceeded}
}

// Timeout reports true: a silence is a timeout, as [net.Error] and os.IsTimeout have it.
func (s *SilenceError) Timeout() bool { return true }

// Temporary reports true, as Timeout does. It makes the error a [net.Error].
func (s *SilenceError) Temporary() bool { return true }
