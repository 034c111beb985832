package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
)

// A retiredName is a line of retired.txt.
type retiredName struct{ line, kind, name, instead string }

// retiredLine is the form of a line: a kind, a name of that kind, and a phrase that could end a sentence.
var retiredLine = regexp.MustCompile(`^(?:(key) ([a-z_]+(?:\.[a-z_]+)+)|(variable) (WATCHDOG_[A-Z_]+)|` +
	`(flag) ([a-z]+ --[a-z-]+)|(command) ([a-z]+)): (\S.*[^\s.;])$`)

func retiredNames(t *testing.T) (all []retiredName) {
	t.Helper()
	text, err := os.ReadFile("retired.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		parts := retiredLine.FindStringSubmatch(line)
		require.NotNil(t, parts, "%q is not in the form of a line", line)
		all = append(all, retiredName{line, parts[1] + parts[3] + parts[5] + parts[7],
			parts[2] + parts[4] + parts[6] + parts[8], parts[9]})
	}
	require.NotEmpty(t, all)
	return all
}

// TestRetiredFile expects each line in its form, and no name twice, on its own or with the block that it was in.
func TestRetiredFile(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range retiredNames(t) {
		require.LessOrEqual(t, len(r.line), 200, r.line)
		require.False(t, seen[r.kind+" "+r.name], "a second line of %s", r.line)
		seen[r.kind+" "+r.name] = true
		instead, ok := config.Retired(r.kind, r.name)
		require.True(t, ok, r.line)
		require.Equal(t, r.instead, instead, r.line)
		if block := strings.LastIndex(r.name, "."); block > 0 {
			_, covered := config.Retired(r.kind, r.name[:block])
			require.False(t, covered, "a line of the block of %s covers it", r.name)
		}
	}
}

// TestRetired expects an error for each key and variable that is gone, with its place and what to do instead.
func TestRetired(t *testing.T) {
	for _, r := range retiredNames(t) {
		switch r.kind {
		case "key":
			var text strings.Builder
			path := strings.Split(r.name, ".")
			for depth, name := range path {
				text.WriteString("\n" + strings.Repeat("  ", depth) + name + ":")
			}
			_, err := config.Parse(file, []byte(text.String()+" canary\n"), config.NoEnvironment)
			require.Equal(t, config.Error{
				File: file, Line: 1 + len(path), Key: r.name, Value: "…", Problem: "is gone; " + r.instead,
			}, *only(t, err), r.line)
		case "variable":
			want := config.Error{Variable: r.name, Problem: "is gone; " + r.instead}
			_, err := config.Loader{Environment: []string{r.name + "=canary"}}.Load("")
			require.Equal(t, want, *only(t, err), r.line)
			_, err = config.Load("", environment(variables{r.name: "canary"}))
			require.Equal(t, want, *only(t, err), "%s, in variables that cannot be listed", r.line)
			want.Variable = "HOST_" + strings.TrimPrefix(r.name, "WATCHDOG_")
			_, err = config.Loader{Prefix: "HOST_", Environment: []string{want.Variable + "=canary"}}.Load("")
			require.Equal(t, want, *only(t, err), "%s, with a prefix of the host's", r.line)
		}
	}
}

// TestRetiredBelow expects a key with the block that it was in, and no other names.
func TestRetiredBelow(t *testing.T) {
	for _, name := range []string{"threshold", "threshold.of", "threshold.of.it"} {
		instead, ok := config.Retired("key", "sweep.keeper."+name)
		require.True(t, ok, name)
		require.Equal(t, "set sweep.stalled_threshold", instead, name)
	}
	for _, name := range []string{"", ".", "sweep", "sweep.keeper", "sweep.keeper.thresholds", "keeper.threshold"} {
		_, ok := config.Retired("key", name)
		require.False(t, ok, name)
	}
	_, ok := config.Retired("variable", "sweep.keeper.threshold")
	require.False(t, ok)
	_, ok = config.Retired("variable", "WATCHDOG_KEEPER_THRESHOLD_MS.of")
	require.False(t, ok)
}
