// Package hostcall makes calls of the host's code, which may panic, end the goroutine that runs it, or block.
//
// It bounds no call: who must not wait makes it aside.
package hostcall

// Log makes a call of the host's log. If that panics there is nobody to tell, and the process must not end for it.
func Log(log func()) {
	defer func() { _ = recover() }()
	log()
}

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
