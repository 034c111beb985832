package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
)

// TestArgumentsHidden searches errors and the printed limits for an argument: it can hold a secret.
func TestArgumentsHidden(t *testing.T) {
	const canary = "canary-5f2c"
	for sentence, text := range map[string]string{
		"a command that is right":         "stall: {probe: {command: [curl, -H, " + canary + "]}}",
		"a command that is one text":      "stall: {probe: {command: curl " + canary + "}}",
		"a command in quotes":             "stall: {probe: {command: 'curl " + canary + "'}}",
		"a command that is a block":       "stall:\n  probe:\n    command: |\n      curl " + canary + "\n",
		"a command with a tag":            "stall: {probe: {command: !!str " + canary + "}}",
		"an argument with a tag":          "stall: {probe: {command: [curl, !!str " + canary + "]}}",
		"an argument that is a block":     "stall:\n  probe:\n    command:\n    - curl\n    - |\n      " + canary + "\n",
		"an argument with a NUL":          "stall: {probe: {command: [curl, \"" + canary + "\\0\"]}}",
		"an argument that is in a list":   "stall: {probe: {command: [curl, [" + canary + "]]}}",
		"a second command":                "stall:\n  probe:\n    command: [x]\n    command: " + canary + "\n",
		"a probe that is its command":     "stall: {probe: curl " + canary + "}",
		"a sentinel that is a command":    "stall: curl " + canary,
		"a probe that is a block of text": "stall:\n  probe: |\n    curl " + canary + "\n",
		"a mistyped command":              "stall: {probe: {commando: curl " + canary + "}}",
		"a command that is called run":    "stall: {probe: {run: curl " + canary + "}}",
		"a command beside the probe":      "stall: {command: curl " + canary + "}",
		"a mistyped probe":                "stall: {prob: curl " + canary + "}",
		"an argument that is no number":   "stall: {probe: {command: [curl, !!int " + canary + "]}}",
		"an argument that is an alias":    "a: &" + canary + " x\nstall: {probe: {command: [curl, *" + canary + "]}}",
		"an alias of nothing":             "stall: {probe: {command: [ls, *" + canary + "]}}",
		"a command that is an alias":      "a: &" + canary + " [x]\nstall: {probe: {command: *" + canary + "}}",
		"a probe that is an alias":        "a: &" + canary + " {}\nstall: {probe: *" + canary + "}",
		"a second command, an alias":      "a: &" + canary + " x\nstall: {probe: {command: [x], command: *" + canary + "}}",
		"an end elsewhere":                "stall: {no_output_timeout: 5m, also_end: {command: [curl, " + canary + "]}}",
		"an end elsewhere of one text":    "stall: {no_output_timeout: 5m, also_end: {command: curl " + canary + "}}",
		"an end elsewhere with a NUL":     "stall: {also_end: {command: [curl, \"" + canary + "\\0\"]}}",
		"an end elsewhere, mistyped":      "stall: {also_end: {commando: curl " + canary + "}}",
		"an end elsewhere is its command": "stall: {also_end: curl " + canary + "}",
		"a mistyped end elsewhere":        "stall: {also_ends: curl " + canary + "}",
		"settings that contradict it":     "stall: {probe: {command: [curl, " + canary + "], probe_error_threshold: 3}}",
	} {
		t.Run(sentence, func(t *testing.T) {
			c, err := config.Parse(file, []byte(text), config.NoEnvironment)
			if err != nil {
				require.NotContains(t, err.Error(), canary)
				require.NotContains(t, fmt.Sprintf("%+v", *only(t, err)), canary)
				return
			}
			require.NotContains(t, c.String(), canary)
		})
	}
}

// TestAliasBomb expects one short error, soon, for a command of aliases of aliases.
func TestAliasBomb(t *testing.T) {
	text := "a0: &a0 [canary-5f2c, canary-5f2c]\n"
	for i := range 40 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	_, err := config.Parse(file, []byte(text+"stall: {probe: {command: [curl, *a40]}}\n"), config.NoEnvironment)
	fault := only(t, err)
	require.Equal(t, "item 2", fault.Value)
	require.NotContains(t, err.Error(), "canary")
	require.NotContains(t, err.Error(), "a40")
}
