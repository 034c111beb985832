package config_test

import (
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
	c, err := config.Parse(file, []byte(everyStall), config.NoEnvironment)
	require.NoError(t, err)
	require.Equal(t, everySentinel(), c.Stall)
	golden(t, "stall_every.golden", sentinel(c))
}

// TestStallVariables sets every stall setting that has a variable.
func TestStallVariables(t *testing.T) {
	const text = "stall:\n  probe: {command: [kubectl, get, '-o', json, '5', '', ' two words ']}\n" +
		"  also_end: {command: [docker, rm, --force, '', ' two words ']}\n" +
		"  terminal_patterns: ['^fatal: ', out of memory]\n"
	c, err := config.Parse(file, []byte(text), environment(variables{
		"WATCHDOG_STALL_NO_OUTPUT_TIMEOUT": "1h30m", "WATCHDOG_STALL_ACTIVITY_SOURCE": "stderr",
		"WATCHDOG_STALL_PROBE_INTERVAL": "90s", "WATCHDOG_STALL_PROBE_TIMEOUT": "1500ms",
		"WATCHDOG_STALL_PROBE_REQUIRE_ZERO_EXIT": "false",
		"WATCHDOG_STALL_PROBE_ON_PROBE_ERROR":    "terminal", "WATCHDOG_STALL_PROBE_PROBE_ERROR_THRESHOLD": "1",
		"WATCHDOG_STALL_STALL_THRESHOLD": "2", "WATCHDOG_STALL_ON_STALL": "fail", "WATCHDOG_STALL_ON_TERMINAL": "ignore",
		"WATCHDOG_STALL_INTERRUPT_GRACE": "0", "WATCHDOG_STALL_TERMINATE_GRACE": "0.25s",
		"WATCHDOG_STALL_ALSO_END_TIMEOUT":   "60s",
		"WATCHDOG_STALL_FIRST_SIGNAL":       "INT", // SIGTERM and a grace after it contradict each other
		"WATCHDOG_STALL_KEEP_BACKGROUND":    "true",
		"WATCHDOG_STALL_FINGERPRINT_PREFIX": "ci/build_1.2:a@b=c+d-e",
	}))
	require.NoError(t, err)
	require.Equal(t, everySentinel(), c.Stall)
	for _, s := range ofSentinel(c) {
		if s.Variable != "" {
			require.Equal(t, "environment "+s.Variable, s.Source, s.Key)
		}
	}
}

// TestStallVariableNames derives the name of each stall variable from its key.
func TestStallVariableNames(t *testing.T) {
	var c config.Config
	for _, s := range ofSentinel(&c) {
		if s.Variable != "" {
			require.Equal(t, "WATCHDOG_"+strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_")), s.Variable)
		}
	}
}

func TestStallOverrides(t *testing.T) {
	for variable, want := range map[string]struct{ value, key, shown string }{
		"WATCHDOG_STALL_NO_OUTPUT_TIMEOUT":           {"0", "no_output_timeout", "off"},
		"WATCHDOG_STALL_ACTIVITY_SOURCE":             {"output", "activity_source", "output"},
		"WATCHDOG_STALL_PROBE_INTERVAL":              {"1m", "probe.interval", "1m0s"},
		"WATCHDOG_STALL_PROBE_TIMEOUT":               {"1ns", "probe.timeout", "1ns"},
		"WATCHDOG_STALL_PROBE_REQUIRE_ZERO_EXIT":     {"true", "probe.require_zero_exit", "true"},
		"WATCHDOG_STALL_PROBE_ON_PROBE_ERROR":        {"stall", "probe.on_probe_error", "stall"},
		"WATCHDOG_STALL_PROBE_PROBE_ERROR_THRESHOLD": {"1000000", "probe.probe_error_threshold", "1000000"},
		"WATCHDOG_STALL_STALL_THRESHOLD":             {"5", "stall_threshold", "5"},
		"WATCHDOG_STALL_ON_STALL":                    {"interrupt", "on_stall", "interrupt"},
		"WATCHDOG_STALL_ON_TERMINAL":                 {"fail", "on_terminal", "fail"},
		"WATCHDOG_STALL_INTERRUPT_GRACE":             {"1m", "interrupt_grace", "1m0s"},
		"WATCHDOG_STALL_TERMINATE_GRACE":             {"0", "terminate_grace", "none"},
		"WATCHDOG_STALL_ALSO_END_TIMEOUT":            {"2s", "also_end.timeout", "2s"},
		"WATCHDOG_STALL_FIRST_SIGNAL":                {"3", "first_signal", "SIGQUIT"},
		"WATCHDOG_STALL_KEEP_BACKGROUND":             {"false", "keep_background", "false"},
		"WATCHDOG_STALL_FINGERPRINT_PREFIX":          {"404", "fingerprint_prefix", "404"},
	} {
		t.Run(variable, func(t *testing.T) {
			c, err := config.Parse(file, []byte(everyStall), environment(variables{variable: want.value}))
			require.NoError(t, err)
			require.Contains(t, settings(c), [3]string{"stall." + want.key, want.shown, "environment " + variable})
		})
	}
}

// graces are the default steps with these times.
func graces(interrupt, terminate time.Duration) []stall.Step {
	return []stall.Step{{Signal: syscall.SIGINT, Grace: interrupt}, {Signal: syscall.SIGTERM, Grace: terminate}}
}

// TestStallFirstSignal chooses the first signal, with the file or a variable.
func TestStallFirstSignal(t *testing.T) {
	grace := func(text string, v variables) []stall.Step {
		c, err := config.Parse(file, []byte("stall: {no_output_timeout: 5m, "+text+"}\n"), environment(v))
		require.NoError(t, err)
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
			c, err := config.Parse(file, []byte("stall:\n  no_output_timeout: "+written+"\n"), config.NoEnvironment)
			require.NoError(t, err)
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
			c, err := config.Parse(file, []byte("stall:\n  probe:\n    command: "+test.written+"\n"), config.NoEnvironment)
			require.NoError(t, err)
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
			c, err := config.Parse(file, []byte("stall:\n  terminal_patterns: "+test.written+"\n"), config.NoEnvironment)
			require.NoError(t, err)
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
			c, err := config.Parse(file, []byte(test.text), config.NoEnvironment)
			require.NoError(t, err)
			require.Equal(t, test.want, c.Stall.Probe)
		})
	}
}

// TestChangedProbe expects the new values of a probe that the host changed.
func TestChangedProbe(t *testing.T) {
	c, err := config.Parse(file, []byte(everyStall), config.NoEnvironment)
	require.NoError(t, err)
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
