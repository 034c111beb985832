package bounded

import "runtime/debug"

// Guard makes a call of the host's on the caller's goroutine, and returns its panic, nil for none.
func Guard(call func()) (p *PanicError) {
	defer func() {
		if value := recover(); value != nil {
			p = &PanicError{value, debug.Stack()}
		}
	}()
	call()
	return nil
}

// Quietly makes a call of the host's log. If that panics there is nobody to tell, and the process must not end for it.
func Quietly(log func()) { _ = Guard(log) }

// Each makes the call for every element, also if one of them ends this goroutine.
func Each[T any](all []T, call func(T)) {
	if len(all) == 0 {
		return
	}
	defer Each(all[1:], call)
	call(all[0])
}

// Aside makes a call that may block, or end its goroutine, on another one. It returns a channel that is closed when the
// call has ended.
func Aside(call func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	return done
}
