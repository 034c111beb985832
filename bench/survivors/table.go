//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// written is the table in a document: from its heading to its last row.
var written = regexp.MustCompile(`(?m)^Processes alive a second later, (?:.+\n)+\n(?:\|.*\n)+`)

// writeInto writes the table into a document that has one.
func writeInto(document, text string) error {
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	if !written.Match(old) {
		return fmt.Errorf("%s has no table that begins with: Processes alive a second later", document)
	}
	return os.WriteFile(document, written.ReplaceAllLiteral(old, []byte(text)), 0o644)
}

// table has a row for each shape, with the number of processes left after each ending for each tool.
func table(jobs []*job) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "Processes alive a second later, after %s.\n\n| shape |", join(endings))
	for _, tool := range tools {
		fmt.Fprintf(&text, " %s |", tool.name)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(tools)) + "\n")
	var errs []error
	escaped := map[string]int{}
	for len(jobs) > 0 {
		fmt.Fprintf(&text, "| %s |", jobs[0].scenario.Name)
		for range tools {
			cell := jobs[:len(endings)]
			jobs = jobs[len(endings):]
			fmt.Fprintf(&text, " %s |", counts(cell))
			if anyLeft(cell) {
				escaped[cell[0].tool.name]++
			}
			for _, j := range cell {
				errs = append(errs, j.err)
			}
		}
		text.WriteString("\n")
	}
	text.WriteString("| **shapes that left something** |")
	for _, tool := range tools {
		fmt.Fprintf(&text, " **%d** |", escaped[tool.name])
	}
	text.WriteString("\n")
	return text.String(), errors.Join(errs...)
}

func counts(cell []*job) string {
	all := make([]string, len(cell))
	for i, j := range cell {
		if all[i] = strconv.Itoa(j.left); j.left < 0 {
			all[i] = "–"
		}
	}
	return strings.Join(all, " / ")
}

func anyLeft(cell []*job) bool {
	for _, j := range cell {
		if j.left > 0 {
			return true
		}
	}
	return false
}

func join(all []ending) string {
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = string(e)
	}
	return strings.Join(names, " / ")
}
