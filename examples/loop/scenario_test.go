package main_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	loop "github.com/seed62658d38/watchdog/examples/loop"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// played holds the results and the output of all scenarios.
type played struct {
	results []loop.Result
	text    string
}

// play plays scenarios in a bubble with fake time.
func play(t *testing.T, name string, raw bool) (p played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network pipes
		var out bytes.Buffer
		results, err := loop.Play(t.Context(), name, &watchdog.Memory{}, raw, network.listen, network.dial, &out)
		require.NoError(t, err)
		require.NoError(t, loop.PrintTable(&out, results))
		p = played{results, out.String()}
	})
	return p
}

func TestScenarios(t *testing.T) {
	p := play(t, "all", false)
	for _, r := range p.results {
		t.Run(r.Scenario+" ends as expected, and its events say why", func(t *testing.T) {
			assert.True(t, r.AsExpected, "%+v", r)
			assert.Equal(t, r.Expected, r.Ended)
			assert.ElementsMatch(t, kindsOf(r), r.Kinds())
			if r.Ended != "completed" {
				cancel := r.Events[len(r.Events)-1]
				assert.Equal(t, watchdog.EventCancel, cancel.Type)
				assert.Equal(t, r.Ended, "watchdog_"+field(t, cancel, "reason"))
			}
		})
	}
	t.Run("the output matches the golden file to the hundredth of a second", func(t *testing.T) {
		const golden = "testdata/all.golden"
		got := inOrder(p.text)
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), got)
	})
	require.NoError(t, loop.CheckResults(p.results))
}

// kindsOf returns the events that a run records: one for each directive and, unless it is a cancel, a warning with its
// decision or, before the wrap-up, of the wall clock; the progress that puts a ladder back; and its end.
func kindsOf(r loop.Result) (kinds []string) {
	for _, d := range r.Directives {
		if r.Ended == "completed" && d != watchdog.DirectiveWrapUp {
			kinds = append(kinds, "progress")
		}
		if d != watchdog.DirectiveCancel {
			kinds = append(kinds, "warning")
		}
		kinds = append(kinds, string(d))
	}
	if r.Ended == "completed" {
		kinds = append(kinds, "complete")
	}
	return kinds
}

func field(t *testing.T, e watchdog.Event, name string) string {
	t.Helper()
	var payload map[string]any
	require.NoError(t, json.Unmarshal(e.Payload, &payload))
	text, _ := payload[name].(string)
	return text
}

// directiveFirst matches a directive printed before its warning. Both have the same time: the store orders them by
// their random IDs.
var directiveFirst = regexp.MustCompile(
	`(?m)(^ *\S+  event: (?:retry|unstuck) .*\n)(^ *\S+  event: warning .*\n)|\b(retry|unstuck), warning`)

func inOrder(text string) string {
	return directiveFirst.ReplaceAllStringFunc(text, func(found string) string {
		if lines := strings.SplitAfter(found, "\n"); len(lines) > 1 {
			return lines[1] + lines[0]
		}
		return "warning, " + strings.TrimSuffix(found, ", warning")
	})
}

func TestNoTextInEvents(t *testing.T) {
	for _, name := range []string{"dead", "stuck", "mute", "cycle"} {
		p := play(t, name, true)
		stored, err := json.Marshal(p.results[0].Events)
		require.NoError(t, err)
		require.Regexp(t, `"note":"(model: turn 2|tool: go_build)"`, string(stored))
		for _, said := range []string{"looking", "Perhaps", "Fix the bug", "do not get anywhere", "apply", "3 matches", "index", "renaming"} {
			assert.NotContains(t, string(stored), said, "an event holds text of a prompt or a reply")
		}
	}
}

func TestRawEvents(t *testing.T) {
	p := play(t, "hung-tool", true)
	stored, err := json.Marshal(p.results[0].Events[0])
	require.NoError(t, err)
	assert.Contains(t, p.text, "\n"+string(stored)+"\n")
	assert.Contains(t, string(stored), `"hold":"tool: read_file"`)
}

func TestJudge(t *testing.T) {
	fine := loop.Result{AsExpected: true}
	require.NoError(t, loop.CheckResults([]loop.Result{fine, fine}))
	require.Error(t, loop.CheckResults([]loop.Result{fine, {Scenario: "dead"}}))
	var table bytes.Buffer
	require.NoError(t, loop.PrintTable(&table, []loop.Result{fine, {Scenario: "dead"}}))
	lines := slices.Collect(strings.Lines(table.String()))
	assert.Contains(t, lines[1], " yes\n")
	assert.Contains(t, lines[2], " NO\n")
}
