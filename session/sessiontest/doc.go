// Package sessiontest tests the session rows of a [session.Store], as package eventtest tests its events.
//
//	func TestSessions(t *testing.T) {
//		sessiontest.Run(t, func(t *testing.T) session.Store { return openEmpty(t) })
//	}
//
// [Run] checks the contract rule by rule. Each rule is a subtest named by a sentence and gets an empty store of its
// own. When it fails it prints what went wrong, and why a sweeper or a keeper depends on the rule. [Test] checks the
// same rules without a testing.T.
//
// # Rows of other writers
//
// A test cannot wait until a session was silent for ten minutes: somebody must write a row with an old time. If the
// store under test is a [Putter], the rules use it to write such rows; otherwise Run skips the rules that need them.
// [session.Memory] is a Putter. For a store in a database, the test wraps the store in one.
//
// Package sessiontest does not check events, which eventtest does. It does not check that rows are durable, and does
// not measure speed.
package sessiontest
