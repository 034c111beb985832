package config_test

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/stall"
)

// everyStall is a file in which no stall setting has its default, but for first_signal, which is not in it.
const everyStall = `stall:
  no_output_timeout: 1h30m
  activity_source: stderr
  probe:
    command: [kubectl, get, "-o", json, "5", "", " two words "]
    interval: 90s
    timeout: 1.5s
    require_zero_exit: false
    on_probe_error: terminal
    probe_error_threshold: 1
  stall_threshold: 2
  terminal_patterns:
  - '^fatal: '
  - out of memory
  on_stall: fail
  on_terminal: "ignore"
  interrupt_grace: 0
  terminate_grace: 250ms
  also_end:
    command: [docker, rm, "--force", "", " two words "]
    timeout: 1m
  keep_background: true
  fingerprint_prefix: ci/build_1.2:a@b=c+d-e
`

func everySentinel() stall.Config {
	return stall.Config{
		NoOutput: 90 * time.Minute, ActivitySource: stall.ActivityStderr,
		Probe: &stall.Probe{
			Command:  []string{"kubectl", "get", "-o", "json", "5", "", " two words "},
			Interval: 90 * time.Second, Timeout: 1500 * time.Millisecond, StallThreshold: 2,
			AnyExit: true, OnError: stall.ErrorTerminal, ErrorThreshold: 1,
		},
		Terminal: []*regexp.Regexp{regexp.MustCompile("^fatal: "), regexp.MustCompile("out of memory")},
		OnStall:  stall.ActionFail, OnTerminal: stall.ActionIgnore,
		Grace: graces(0, 250*time.Millisecond),
		AlsoEnd: &stall.AlsoEnd{
			Command: []string{"docker", "rm", "--force", "", " two words "}, Timeout: time.Minute,
		},
		KeepBackground: true, FingerprintPrefix: "ci/build_1.2:a@b=c+d-e",
	}
}

// TestStallFile reads a file in which no stall setting has its default.
func TestStallFile(t *testing.T) {
	c := parse(t, everyStall, nil)
	require.Equal(t, everySentinel(), c.Stall)
	golden(t, "stall_every.golden", sentinel(c))
}

// graces are the default steps with these times.
func graces(interrupt, terminate time.Duration) []stall.Step {
	return []stall.Step{{Signal: syscall.SIGINT, Grace: interrupt}, {Signal: syscall.SIGTERM, Grace: terminate}}
}

// TestStallFirstSignal chooses the first signal, with the file or a variable.
func TestStallFirstSignal(t *testing.T) {
	grace := func(text string, v variables) []stall.Step {
		c := parse(t, "stall: {no_output_timeout: 5m, "+text+"}\n", v)
		return c.Stall.Grace
	}
	terminate := stall.Step{Signal: syscall.SIGTERM, Grace: stall.DefaultTerminateGrace}
	require.Empty(t, grace("on_stall: interrupt", nil))
	require.Equal(t, []stall.Step{terminate}, grace("first_signal: SIGTERM", nil))
	require.Equal(t, []stall.Step{{Signal: syscall.SIGQUIT, Grace: time.Second}, terminate},
		grace("first_signal: quit, interrupt_grace: 1s", nil))
	require.Equal(t, []stall.Step{{Signal: syscall.SIGKILL}}, grace("first_signal: SIGKILL", nil))
	left := variables{"WATCHDOG_STALL_FIRST_SIGNAL": "TERM"}
	require.Equal(t, []stall.Step{terminate}, grace("interrupt_grace: 5s", left), "of the file, without effect")
}

func TestAcceptedLengths(t *testing.T) {
	for written, want := range map[string]time.Duration{
		"5m": 5 * time.Minute, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"0.5s":            time.Second / 2,
		"1h2m3s4ms5us6ns": time.Hour + 2*time.Minute + 3*time.Second + 4*time.Millisecond + 5*time.Microsecond + 6,
		"1h0m0s":          time.Hour,
		"1.000000001s":    time.Second + 1, "5µs": 5 * time.Microsecond, "90m": 90 * time.Minute, "05m": 5 * time.Minute,
		`"5m"`: 5 * time.Minute, `'90s'`: 90 * time.Second, "0": 0, "0s": 0, "0h0m": 0, "~": 0, "": 0,
		"2562047h47m16s854ms775us806ns": 1<<63 - 2,
	} {
		t.Run(written, func(t *testing.T) {
			c := parse(t, "stall:\n  no_output_timeout: "+written+"\n", nil)
			require.Equal(t, want, c.Stall.NoOutput)
		})
	}
}

func TestAcceptedCommands(t *testing.T) {
	for sentence, test := range map[string]struct {
		written string
		want    []string
	}{
		"a program by itself":          {"[probe]", []string{"probe"}},
		"a line for the shell":         {"kubectl get pods | wc -l", []string{"sh", "-c", "kubectl get pods | wc -l"}},
		"a line for the shell, quoted": {`"5"`, []string{"sh", "-c", "5"}},
		"a script":                     {"|\n      # a comment\n      exit 0", []string{"sh", "-c", "# a comment\nexit 0\n"}},
		"a folded script":              {">-\n      a\n      b", []string{"sh", "-c", "a b"}},
		"a program in a folder": {
			"[./probe, --all, -v, ../x, .hidden, a=b, /etc]",
			[]string{"./probe", "--all", "-v", "../x", ".hidden", "a=b", "/etc"},
		},
		"a line of the shell":                 {`[sh, -c, "a | b"]`, []string{"sh", "-c", "a | b"}},
		"a script of several lines in quotes": {`[sh, -c, "a\nb"]`, []string{"sh", "-c", "a\nb"}},
		"an argument in a line of its own":    {"\n    - probe\n    - two words\n", []string{"probe", "two words"}},
		"in quotes what some would take for a number": {
			`[probe, "5", '017', "on", "null", ".inf"]`, []string{"probe", "5", "017", "on", "null", ".inf"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, "stall:\n  probe:\n    command: "+test.written+"\n", nil)
			require.Equal(t, &stall.Probe{Command: test.want}, c.Stall.Probe)
		})
	}
}

func TestAcceptedPatterns(t *testing.T) {
	for sentence, test := range map[string]struct{ written, line string }{
		"a word":                     {"[panic]", "panic: x"},
		"a line that is empty":       {"['^$']", ""},
		"a number in quotes":         {"['404']", "error 404"},
		"letters of either case":     {`['(?i)fatal']`, "FATAL"},
		"white space around a word":  {`[" fatal "]`, "a fatal error"},
		"a pattern with a character": {`["a\tb"]`, "a\tb"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, "stall:\n  terminal_patterns: "+test.written+"\n", nil)
			require.Len(t, c.Stall.Terminal, 1)
			require.True(t, c.Stall.Terminal[0].MatchString(test.line))
			require.Len(t, strings.Split(strings.TrimSpace(sentinel(c)), "\n"), len(ofSentinel(c)), "a line each")
		})
	}
}

func TestProbeNeedsCommand(t *testing.T) {
	for sentence, test := range map[string]struct {
		text string
		want *stall.Probe
	}{
		"without a block":     {"stall: {no_output_timeout: 5m}", nil},
		"with an empty block": {"stall: {no_output_timeout: 5m, probe: {}}", nil},
		"with a command":      {"stall: {probe: {command: [x]}}", &stall.Probe{Command: []string{"x"}}},
		"with a threshold and no block": {
			"stall: {probe: {command: [x]}, stall_threshold: 4}", &stall.Probe{Command: []string{"x"}, StallThreshold: 4},
		},
		"with the default said": {
			"stall: {probe: {command: [x], require_zero_exit: true}}", &stall.Probe{Command: []string{"x"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, test.text, nil)
			require.Equal(t, test.want, c.Stall.Probe)
		})
	}
}

// TestChangedProbe expects the new values of a probe that the host changed.
func TestChangedProbe(t *testing.T) {
	c := parse(t, everyStall, nil)
	c.Stall.Probe.Interval = time.Second
	require.Contains(t, settings(c), [3]string{"stall.probe.interval", "1s", "limits.yaml:6"})
	c.Stall.Probe = nil
	require.Contains(t, settings(c), [3]string{"stall.probe.command", "none", "limits.yaml:5"})
	require.Contains(t, settings(c), [3]string{"stall.probe.interval", "30s", "limits.yaml:6"})
}

func ofSentinel(c *config.Config) []config.Setting {
	var own []config.Setting
	for _, s := range c.Limits() {
		if strings.HasPrefix(s.Key, "stall.") {
			own = append(own, s)
		}
	}
	return own
}

// sentinel returns the printed stall settings.
func sentinel(c *config.Config) string {
	_, own, _ := strings.Cut(c.String(), "stall.")
	own, _, _ = strings.Cut(own, "sweep.")
	return "stall." + own
}

// TestStallNeverFires expects an error for every setting of a stall block without a signal.
func TestStallNeverFires(t *testing.T) {
	text := "stall:\n  on_stall: fail\n  probe:\n    interval: 5s\n    timeout: 1s\n  keep_background: true\n"
	_, err := config.Parse(file, []byte(text), config.NoEnvironment)
	var lines []int
	for _, fault := range faults(t, err) {
		lines = append(lines, fault.Line)
	}
	require.Equal(t, []int{2, 4, 5, 6}, lines)
}

// tunedStall is a sentinel with one signal and all settings that need it.
const tunedStall = `stall:
  no_output_timeout: 5m
  activity_source: stderr
  on_stall: fail
  interrupt_grace: 1s
  terminate_grace: 0
  also_end: {command: [x]}
  keep_background: true
  fingerprint_prefix: ci
`

func TestVariableDisablesStall(t *testing.T) {
	t.Run("a signal that is off disables its settings, but not those with another use", func(t *testing.T) {
		c := parse(t, tunedStall, variables{noOutputVariable: "0"})
		grace := graces(time.Second, 0)
		alsoEnd := &stall.AlsoEnd{Command: []string{"x"}}
		require.Equal(t, stall.Config{KeepBackground: true, Grace: grace, AlsoEnd: alsoEnd}, c.Stall)
		golden(t, "disabled_stall.golden", sentinel(c))
	})
	t.Run("a probe is another signal", func(t *testing.T) {
		c := parse(t, everyStall, variables{noOutputVariable: "0"})
		golden(t, "disabled_stall_probe.golden", sentinel(c))
	})
	t.Run("ignored probe errors disable their threshold", func(t *testing.T) {
		const variable = "WATCHDOG_STALL_PROBE_ON_PROBE_ERROR"
		c := parse(t, everyStall, variables{variable: "ignore"})
		require.Zero(t, c.Stall.Probe.ErrorThreshold)
		require.Contains(t, settings(c), [3]string{"stall.probe.probe_error_threshold", "3", "environment " + variable})
	})
	t.Run("a variable may be the signal that the file's settings need", func(t *testing.T) {
		c := parse(t, "stall: {on_stall: fail}", variables{noOutputVariable: "5m"})
		require.Equal(t, stall.ActionFail, c.Stall.OnStall)
	})
}

// TestArgumentsHidden searches errors and the printed limits for an argument: it can hold a secret.
func TestArgumentsHidden(t *testing.T) {
	const canary = "canary-5f2c"
	for sentence, text := range map[string]string{
		"an argument that is a block":     "stall:\n  probe:\n    command:\n    - curl\n    - |\n      " + canary + "\n",
		"an argument with a NUL":          "stall: {probe: {command: [curl, \"" + canary + "\\0\"]}}",
		"a second command":                "stall:\n  probe:\n    command: [x]\n    command: " + canary + "\n",
		"a probe that is its command":     "stall: {probe: curl " + canary + "}",
		"a sentinel that is a command":    "stall: curl " + canary,
		"a probe that is a block of text": "stall:\n  probe: |\n    curl " + canary + "\n",
		"a command that is called run":    "stall: {probe: {run: curl " + canary + "}}",
		"a command beside the probe":      "stall: {command: curl " + canary + "}",
		"a mistyped probe":                "stall: {prob: curl " + canary + "}",
		"an argument that is no number":   "stall: {probe: {command: [curl, !!int " + canary + "]}}",
		"an argument that is an alias":    "a: &" + canary + " x\nstall: {probe: {command: [curl, *" + canary + "]}}",
		"a command that is an alias":      "a: &" + canary + " [x]\nstall: {probe: {command: *" + canary + "}}",
		"a probe that is an alias":        "a: &" + canary + " {}\nstall: {probe: *" + canary + "}",
		"a second command, an alias":      "a: &" + canary + " x\nstall: {probe: {command: [x], command: *" + canary + "}}",
		"an end elsewhere with a NUL":     "stall: {also_end: {command: [curl, \"" + canary + "\\0\"]}}",
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
