package contract

// A failure carries the error of a check from where it was found to Catch.
type failure struct{ err error }

// Fail ends a check with an error, from however deep in it. Only Catch may run the check, in the same goroutine.
func Fail(err error) { panic(failure{err}) }

// Catch runs a check and returns the error with which Fail ended it, or nil. It does not recover from other panics.
func Catch(check func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	check()
	return nil
}
