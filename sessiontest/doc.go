// Package sessiontest says whether a [session.Store] is right, as package storetest does for its events.
//
//	func TestSessions(t *testing.T) {
//		sessiontest.Run(t, func(t *testing.T) session.Store { return openEmpty(t) })
//	}
//
// [Run] checks the contract rule by rule. Each rule is a subtest named by a sentence, gets an empty store of its own, and when it fails prints what went wrong and why a
// sweeper or a keeper depends on it. [Test] checks the same rules without a test.
//
// # Rows of others
//
// A session cannot be silent for ten minutes without ten minutes going by, unless somebody else wrote its row. A store under test that is a [Putter] can be asked for such
// rows; without one, the rules that need it are skipped. [session.Memory] is one; a store in a database is wrapped in one for its tests.
//
// Package sessiontest does not check events, which storetest does, nor that what is written is durable, and does not measure speed.
package sessiontest
