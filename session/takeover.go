package session

import (
	"fmt"
)

// A TakeoverError is the cause of the context of a run that another process has taken over: it attached to the run
// while this one ran it. It wraps no other error.
type TakeoverError struct {
	RunID string
	// Attempt is the attempt of this process. By is the later one, and Host where that runs, as its row says.
	Attempt, By int
	Host        string
}

// Error says who took the run over.
func (e *TakeoverError) Error() string {
	return fmt.Sprintf("run %s was taken over: attempt %d was followed by attempt %d on host %q",
		e.RunID, e.Attempt, e.By, e.Host)
}
