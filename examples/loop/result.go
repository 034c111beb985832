package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/seed62658d38/watchdog"
)

// How a run ended that was not stopped.
const (
	completed = "completed"
	failed    = "failed"
)

// A result is the output of -json for one run. Every key but error is always there.
type result struct {
	Scenario string `json:"scenario"`
	RunID    string `json:"run_id"`
	// Expected and Ended are the code of a stop, "completed", or "failed".
	Expected string `json:"expected"`
	Ended    string `json:"ended"`
	// AsExpected reports whether Ended is Expected, the directives are the scenario's, and no limit was overspent.
	AsExpected bool                     `json:"as_expected"`
	Directives []watchdog.DirectiveKind `json:"directives"`
	// Usage is how far the counted limits were used.
	Usage  []watchdog.Usage `json:"usage"`
	Events []watchdog.Event `json:"events"`
	Error  string           `json:"error,omitempty"`
}

// kinds returns the events' kinds without their common prefix.
func (r result) kinds() []string {
	var kinds []string
	for _, e := range r.Events {
		kinds = append(kinds, kind(e))
	}
	return kinds
}

func kind(e watchdog.Event) string { return strings.TrimPrefix(e.Type, "runtime.watchdog.") }

// printJSON prints the results as one array.
func printJSON(out io.Writer, results []result) error { return json.NewEncoder(out).Encode(results) }

// printTable prints a line for each run.
func printTable(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "scenario\texpected\tended by\tdirectives\tevents\tas expected\n")
	for _, r := range results {
		verdict := "yes"
		if !r.AsExpected {
			verdict = "NO"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
			r.Scenario, r.Expected, r.Ended, list(r.Directives), list(r.kinds()), verdict)
	}
	return table.Flush()
}

// list formats words as a cell of the table.
func list[T ~string](words []T) string {
	if len(words) == 0 {
		return "-"
	}
	text := make([]string, len(words))
	for i, word := range words {
		text[i] = string(word)
	}
	return strings.Join(text, ", ")
}
