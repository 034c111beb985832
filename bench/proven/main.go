// Proven runs package stall on this system and prints what was tried, expected and seen, as Markdown.
//
//	GOWORK=off go run ./proven
//
// It is for systems that no CI of ours runs on, such as Windows: what it prints can stand in docs/stall.md. It takes a
// minute, starts processes of its own only, and ends them all, also if it is killed. The exit status is 1 if something
// was not as expected.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childMark {
		os.Exit(beChild(os.Args[2:]))
	}
	if !printAll(os.Stdout, checks()) {
		os.Exit(1)
	}
}

// cell keeps a text within its cell.
var cell = strings.NewReplacer("|", `\|`, "\n", " ")

// printAll runs the checks, prints a row for each, and reports whether all is as expected.
func printAll(w io.Writer, all []check) bool {
	_, _ = fmt.Fprintf(w, "%s, %s, %s:\n\n| what | expected | seen |\n|---|---|---|\n",
		system(), runtime.GOARCH, strings.Fields(runtime.Version())[0])
	good := 0
	for _, c := range all {
		seen := c.try()
		if seen == c.expected {
			good++
		} else {
			seen = "**" + seen + "**"
		}
		_, _ = fmt.Fprintf(w, "| %s | %s | %s |\n", c.what, cell.Replace(c.expected), cell.Replace(seen))
	}
	_, _ = fmt.Fprintf(w, "\n%d of %d as expected\n", good, len(all))
	return good == len(all)
}
