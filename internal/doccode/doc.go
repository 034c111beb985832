// Package doccode type-checks the Go code in documents: the blocks of Markdown files and the calls that they quote, the
// indented code of package comments, and the examples.
//
// [Markdown], [Comment] and [Examples] cut documents into snippets, and [Checker.Check] returns what the compiler would
// report of each, at its place in the document. A snippet with a package clause is a file. Declarations are checked as
// they are, and everything else as the body of a function that returns an error; a package that such a snippet uses is
// imported, and other names that it does not declare are looked up in a file that stands for the host.
//
// Go runs once, as `go list -export`. The package does not link or run a snippet, and does not look at names in prose:
// package doccheck does that.
package doccode
