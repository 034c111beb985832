//go:build unix

package relay

import (
	"errors"
	"syscall"
)

// retryEINTR repeats a call that a signal interrupted. The runtime sends such signals to preempt goroutines.
func retryEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
