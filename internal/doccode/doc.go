// Package doccode holds what documents, comments and lists say against the code that they are about.
//
// [Load] reads a source tree once. [Tree.Names] finds names, documents and headings that do not exist, [Tree.Words]
// exported words with two meanings, [Tree.Zero] settings that do not say what zero means, and [Tree.Imports] what
// differs between the imports of packages and docs/packages.txt, which [List.Picture] draws. They compare names, and
// build nothing.
//
// [Markdown], [Comment] and [Examples] cut documents into snippets of Go: the blocks and the quoted calls of Markdown
// files, the indented code of package comments, and the examples. [Checker.Check] returns what the compiler would
// report of each, at its place in the document. Go runs once for that, as `go list -export`.
//
// The package does not link or run a snippet, does not see a name without link or quotes, and cannot tell whether a
// text is true.
package doccode
