package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestString(t *testing.T) {
	const path = "testdata/limits.yaml"
	var all strings.Builder
	for _, test := range []struct {
		sentence, path string
		variables      variables
	}{
		{"limits of a file name their lines", path, nil},
		{
			"a variable that overrides a file is named", path,
			variables{"WATCHDOG_WARN_AT": "0.9", "WATCHDOG_RESERVE_SECONDS": "0"},
		},
		{"a limit that is switched off says so", "", variables{wallClockVariable: "0", "WATCHDOG_WARN_AT": "0"}},
		{"a variable may repeat the default in its way", "", variables{wallClockVariable: "14400"}},
	} {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Load(test.path, environment(test.variables))
			require.NoError(t, err)
			fmt.Fprintf(&all, "%s:\n%s", test.sentence, set(c))
		})
	}
	golden(t, "limits_set.golden", all.String())
}

// TestZeroConfig expects the defaults of a Config that nobody read.
func TestZeroConfig(t *testing.T) {
	var c config.Config
	loaded := parse(t, "", nil)
	require.Equal(t, loaded.Limits(), c.Limits())
	require.Equal(t, loaded.String(), c.String())
	golden(t, "limits_default.golden", c.String())
}

// document returns pages of the documentation, one after the other.
func document(t *testing.T, names ...string) string {
	t.Helper()
	var pages strings.Builder
	for _, name := range names {
		text, err := os.ReadFile("../docs/" + name)
		require.NoError(t, err)
		pages.Write(text)
	}
	return pages.String()
}

// TestReference compares the one generated page with the table of settings. Write it with -update.
func TestReference(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Configuration: all settings\n\nGenerated from the table of settings in the code. " +
		"[Configuration](configuration.md) says how a file is read,\nand links the pages that explain these. `watchdog check --schema` prints the same as a JSON schema for editors.\n")
	var c config.Config
	last := ""
	for _, s := range c.Limits() {
		if block, _, _ := strings.Cut(s.Key, "."); block != last {
			last = block
			page.WriteString("\n## " + block + "\n\n| key | variable | default | allowed | what it is |\n|---|---|---|---|---|\n")
		}
		variable := "none"
		if s.Variable != "" {
			variable = "`" + s.Variable + "`"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", s.Key, variable, s.Value, s.Allowed, s.Help)
	}
	page.WriteString("\n## steps\n\nA stall block of a step, of `defaults` or of a `completion_check` has the keys of " +
		"`stall`, without variables, and these:\n\n| key | default | allowed | what it is |\n|---|---|---|---|\n")
	check := parse(t, "completion_check: {}\n", nil)
	for _, s := range check.Step("x").Check.Limits() {
		key := strings.TrimPrefix(s.Key, "steps.x.completion_check.")
		if !strings.Contains(page.String(), "`"+key+"`") {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", key, s.Value, s.Allowed, s.Help)
		}
	}
	golden(t, "../../docs/configuration-reference.md", page.String())
}

func TestDocumentedExamples(t *testing.T) {
	documentation := document(t, "configuration.md")

	t.Run("the file is read", func(t *testing.T) {
		_, example, found := strings.Cut(documentation, "```yaml\n")
		require.True(t, found)
		example, _, _ = strings.Cut(example, "```")
		c, err := config.Parse("configuration.md", []byte(example), config.NoEnvironment)
		require.NoError(t, err)
		require.Equal(t, watchdog.DefaultWallClock, c.Budget.WallClock)
		require.NotNil(t, c.Stall.Probe)
		require.Equal(t, sweep.DefaultInterval, c.Sweep.Interval)
	})
	t.Run("Parse returns the errors", func(t *testing.T) {
		text := "runtime_controls:\n  session_wall_clock_seconds: \"14400\"\n  reserve_second: 60\n"
		_, err := config.Parse("limits.yaml", []byte(text), environment(map[string]string{"WATCHDOG_WARN_AT": "0.5,80"}))
		brief := longList.ReplaceAllString(err.Error(), "$1 $2 …")
		require.Contains(t, documentation, "```\n"+brief+"\n```")
	})
	t.Run("the limits are printed", func(t *testing.T) {
		text := "agents:\n  model: local\n\nruntime_controls:\n  session_wall_clock_seconds: 5400\n"
		c := parse(t, text, map[string]string{"WATCHDOG_WARN_AT": "0.9"})
		require.Contains(t, documentation, "```\n"+set(c)+"```")
	})
}
