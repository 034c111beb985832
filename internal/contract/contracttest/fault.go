package contracttest

// A Call is a call of a method of a store: its arguments and, when it was made, its results.
type Call interface {
	// Method returns the name of the method.
	Method() string
	// Return has the call return an error, unless it is made.
	Return(err error)
}

// An Alteration gets each call of a store, and next, which makes the call.
type Alteration[C Call] = func(c C, next func())

// A Fault makes the alteration of one store.
type Fault[C Call] = func() Alteration[C]

// Around is a fault in the calls of one method.
func Around[C Call](method string, alter Alteration[C]) Fault[C] {
	return func() Alteration[C] {
		return func(c C, next func()) {
			if c.Method() == method {
				alter(c, next)
			} else {
				next()
			}
		}
	}
}

// Before is a fault that changes the arguments of a method.
func Before[C Call](method string, change func(c C)) Fault[C] {
	return Around(method, func(c C, next func()) {
		change(c)
		next()
	})
}

// After is a fault that changes the results of a method, or does something else after it.
func After[C Call](method string, change func(c C)) Fault[C] {
	return Around(method, func(c C, next func()) {
		next()
		change(c)
	})
}

// Fails is a fault in which some calls of a method are not made.
func Fails[C Call](method string, err error, which func(c C) bool) Fault[C] {
	return Around(method, func(c C, next func()) {
		if c.Return(err); !which(c) {
			next()
		}
	})
}

// Both is a fault in two methods.
func Both[C Call](one, other Fault[C]) Fault[C] {
	return func() Alteration[C] {
		first, second := one(), other()
		return func(c C, next func()) { first(c, func() { second(c, next) }) }
	}
}
