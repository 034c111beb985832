// Package storetest says whether a [watchdog.EventStore] is right, as testing/fstest does for an fs.FS.
//
// # One call in a store's own tests
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) watchdog.EventStore { return openEmpty(t) })
//	}
//
// [Run] checks the contract rule by rule. Each rule is a subtest named by a sentence, gets an empty store of its own,
// and when it fails prints what went wrong and why a guard or its host depends on it.
//
// # Stores that outlive their process
//
// [RunDurable] adds the rules of a store whose events are still there when it is opened again, and which several
// processes may have open at once. It does not kill a process or pull a plug: a test that does belongs to the store.
//
// # Without a test
//
// [Test] and [TestDurable] check the same rules and return what was violated as one error, each part a [*Violation].
//
// Package storetest does not measure speed, does not look into files or tables, and does not check what
// [watchdog.EventStore] leaves open: the order of keys in a payload, the text of an error, what is done with an
// event ID after a failed append.
package storetest
