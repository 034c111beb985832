//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// printTable prints a row for each shape, with the number of processes left after each ending for each tool.
func printTable(w io.Writer, jobs []*job) error {
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
	_, err := io.WriteString(w, text.String())
	return errors.Join(append(errs, err)...)
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
