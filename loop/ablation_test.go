package loop_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
)

var update = flag.Bool("update", false, "write the tables of testdata instead of comparing with them")

var sets = []string{"loops", "productive", "heldout-loops", "heldout-work", "agents-loops", "agents-work"}

// cell says how many loops of a set were found, or how much of its work was asked/ended.
func cell(t *testing.T, set string, all []*trace, classes bool, without loop.Pieces) string {
	t.Helper()
	found, asked, ended := 0, 0, 0
	for _, read := range all {
		f := read.judgeWithout(t, classes, without)
		asked += min(f.asked, 1)
		ended += min(f.ended, 1)
		if f.asked != 0 && (set == "heldout-loops" || f.asked <= read.FoundBy) {
			found++
		}
	}
	if strings.HasSuffix(set, "loops") {
		return strconv.Itoa(found)
	}
	return fmt.Sprintf("%d/%d", asked, ended)
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./loop -run %s -update", t.Name())
}

// TestAblation says what each piece of the rules is for: a row without it.
func TestAblation(t *testing.T) {
	if !racing.Long {
		t.Skip("make long: it judges all histories twenty times; TestByRule judges them with all pieces")
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "without\t%s\n", strings.Join(sets, "\t"))
	rows := slices.Insert(slices.Clone(loop.Rows), 0, loop.Rows[0])
	rows[0].Name, rows[0].Piece = "(nothing)", 0
	read := map[string][]*trace{}
	for _, set := range sets {
		read[set] = traces(t, set)
	}
	for _, row := range rows {
		fmt.Fprint(table, row.Name)
		for _, set := range sets {
			with, without := cell(t, set, read[set], true, row.Piece), cell(t, set, read[set], false, row.Piece)
			fmt.Fprintf(table, "\t%s, %s", with, without)
		}
		fmt.Fprintln(table)
	}
	require.NoError(t, table.Flush())
	golden(t, "testdata/ablation.txt", "Loops: found, but for the held-out ones by the turn that is marked. "+
		"Work: asked/ended.\nEach with classes, and without.\n\n"+text.String())
}

// before is what the rules asked/ended in each set, with and without classes, when they were last changed at large.
var before = map[bool]map[loop.Rule]string{
	true: {
		loop.Tail: "30/15 1/0 32/32 2/2 2/2 7/6", loop.Pair: "6/2 0/0 9/8 0/0 0/0 1/0",
		loop.Futile: "8/0 0/0 6/0 1/0 0/0 0/0", loop.Poll: "0/0 1/0 0/0 0/0 0/0 0/0",
	},
	false: {
		loop.Tail: "29/15 1/0 29/28 1/0 2/2 7/6", loop.Pair: "6/2 0/0 13/9 1/0 0/0 1/0",
		loop.Futile: "8/0 0/0 6/0 1/0 0/0 0/0", loop.Poll: "0/0 1/0 0/0 2/0 0/0 0/0",
	},
}

// byRule returns what each rule asked and ended in each set, in the form of before.
func byRule(t *testing.T, classes bool) map[loop.Rule]string {
	t.Helper()
	rules := map[loop.Rule]string{}
	for rule := range before[classes] {
		rules[rule] = ""
	}
	counts := make([]map[loop.Rule][2]int, len(sets))
	for i, set := range sets {
		counts[i] = map[loop.Rule][2]int{}
		for _, read := range traces(t, set) {
			if f := read.judge(t, classes); f.asked+f.ended != 0 {
				n := counts[i][f.rule]
				counts[i][f.rule] = [2]int{n[0] + min(f.asked, 1), n[1] + min(f.ended, 1)}
				rules[f.rule] = ""
			}
		}
	}
	for rule := range rules {
		var cells []string
		for _, n := range counts {
			cells = append(cells, fmt.Sprintf("%d/%d", n[rule][0], n[rule][1]))
		}
		rules[rule] = strings.Join(cells, " ")
	}
	return rules
}

// TestByRule writes the last section of testdata/README.md: asked/ended by each rule, before and now.
func TestByRule(t *testing.T) {
	const file, heading = "testdata/README.md", "## By rule\n"
	readme, err := os.ReadFile(file)
	require.NoError(t, err)
	above, _, found := strings.Cut(string(readme), heading)
	require.True(t, found)
	var text strings.Builder
	for _, classes := range []bool{true, false} {
		name := map[bool]string{true: "with classes", false: "without classes"}[classes]
		fmt.Fprintf(&text, "\n| %s | %s |\n|---%s|\n", name, strings.Join(sets, " | "), strings.Repeat("|---", len(sets)))
		now := byRule(t, classes)
		for _, rule := range slices.Sorted(maps.Keys(now)) {
			fmt.Fprintf(&text, "| %s |", rule)
			was := strings.Fields(cmp.Or(before[classes][rule], strings.Repeat("0/0 ", len(sets))))
			for i, cell := range strings.Fields(now[rule]) {
				fmt.Fprintf(&text, " %s → %s |", was[i], cell)
			}
			fmt.Fprintln(&text)
		}
	}
	fmt.Fprintf(&text, "\nNot found with classes: %s.\n", strings.Join(missed(t), ", "))
	golden(t, file, above+heading+"\nAsked/ended, before the rules last changed at large → now.\n"+text.String())
}

// missed returns the names of the held-out loops that are not found with classes.
func missed(t *testing.T) (names []string) {
	t.Helper()
	for _, read := range traces(t, "heldout-loops") {
		if read.judge(t, true).asked == 0 {
			names = append(names, "`"+read.Name+"`")
		}
	}
	return names
}
