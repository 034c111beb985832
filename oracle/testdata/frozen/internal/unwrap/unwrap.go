// Package unwrap finds what a store can do besides, also where another store is wrapped around it.
//
// It names no store: the root and the packages beside it say which method Unwrap counts by what that returns.
package unwrap

// To returns the store, or the first one inside it, that can do what T asks for. A store that may be passed by has a
// method Unwrap, which returns the one inside, an Inner.
func To[T, Inner, Store any](store Store) (able T, ok bool) {
	if able, ok = any(store).(T); ok {
		return able, true
	}
	if wrapper, wraps := any(store).(interface{ Unwrap() Inner }); wraps {
		return To[T, Inner](wrapper.Unwrap())
	}
	return able, false
}
