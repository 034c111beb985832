package watchdog_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/doccheck"
)

// TestZero holds the table of what zero means against the comments of the fields, and wants each field that is a
// length, a time, a count or an amount to say it, or its type. Write the table with -update.
func TestZero(t *testing.T) {
	table, problems, err := doccheck.Zero(os.DirFS("."), []doccheck.Settings{
		{Package: ".", Types: []string{"Budget", "Config", "HoldLimit", "Run", "Spend", "Cancellation", "Amount"}},
		{Package: "idle", Types: []string{"Config"}},
		{Package: "bound", Types: []string{"Call"}},
		{Package: "loop", Types: []string{"Config", "Step"}},
		{Package: "stall", Types: []string{"Config", "Step", "Probe", "AlsoEnd", "Tail"}},
		{Package: "watchdoghttp", Types: []string{"Transport", "Meter", "Maximum"}},
		{Package: "sweep", Types: []string{"Config", "Alert", "ResumePolicy"}},
		{Package: "session", Types: []string{"KeeperConfig"}},
		{Package: "notify", Types: []string{"Config"}},
		{Package: "page", Types: []string{"Config"}},
		{Package: "converge", Types: []string{"Config", "Stage"}},
		{Package: "config", Types: []string{"Config", "Tick"}},
	})
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
	const page, begin, end = "docs/zero.md", "<!-- fields -->\n", "<!-- end -->\n"
	before, rest, begun := strings.Cut(readText(t, page), begin)
	_, after, ended := strings.Cut(rest, end)
	require.True(t, begun && ended, "the page has the marks between which the table is written")
	want := before + begin + "| field | what it says of zero |\n|---|---|\n" + table + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	}
	require.Equal(t, want, readText(t, page), "run go test . -run TestZero -update, and read what it says now")
}
