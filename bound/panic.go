package bound

import (
	"fmt"
	"runtime/debug"
)

// A CallPanic is what [Do] panics with when the work did: the value, with the stack of the goroutine that it comes
// from. An abandoned call's panic is kept in a [LateEnd] instead.
type CallPanic struct {
	// Value is what the work panicked with.
	Value any
	// Stack is that of the work's goroutine at that moment, as [debug.Stack] writes it.
	Stack []byte
}

// newCallPanic is called while the stack still stands.
func newCallPanic(value any) *CallPanic { return &CallPanic{value, debug.Stack()} }

// Error is what the runtime prints of the panic if nobody recovers it: the value and the stack.
func (p *CallPanic) Error() string {
	return fmt.Sprintf("the bounded call panicked: %v\n\nits goroutine:\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error, such as a [runtime.Error], otherwise nil.
func (p *CallPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
