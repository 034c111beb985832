// Package eventtest tests an implementation of [event.Store], as testing/fstest tests an fs.FS.
//
// # One call in a store's own tests
//
//	func TestStore(t *testing.T) {
//		eventtest.Run(t, func(t *testing.T) event.Store { return openEmpty(t) })
//	}
//
// [Run] checks the contract rule by rule. Each rule is a subtest named by a sentence and gets an empty store of its
// own. When it fails it prints what went wrong, and why a guard or its host depends on the rule.
//
// A store may be a [event.TransactionalStore] or a [event.LayerStore] as well. The suite then checks their rules,
// too, and skips them otherwise.
//
// # Stores that outlive their process
//
// [RunDurable] adds the rules of a store that keeps its events when it is closed and opened again, and that several
// processes may open at once. It does not kill a process or cut the power: a store needs tests of its own for that.
//
// # Without a test
//
// [Test] and [TestDurable] check the same rules without a testing.T. They return one error that joins a
// [*Violation] for each broken rule.
//
// Package eventtest does not measure speed and does not read files or tables. It does not check what
// [event.Store] leaves open: the order of the keys in a payload, the text of an error, and whether an event ID
// is taken after a failed append.
package eventtest
