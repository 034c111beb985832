package config_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/stall"
)

func TestAcceptedFiles(t *testing.T) {
	const wallClock = "runtime_controls:\n  session_wall_clock_seconds: "
	var none watchdog.Budget
	for sentence, test := range map[string]struct {
		text string
		want watchdog.Budget
	}{
		"an empty file is absent":                {"", none},
		"a file of comments is absent":           {"# nothing\n", none},
		"a file that is null is absent":          {"null\n", none},
		"a file of one empty document is absent": {"---\n...\n", none},
		"a block without anything is absent":     {"runtime_controls:\n", none},
		"a block that is null is absent":         {"runtime_controls: ~\n", none},
		"a block of no keys is absent":           {"runtime_controls: {}\n", none},
		"a key without a value is absent":        {wallClock + "\n", none},
		"a key that is null is absent":           {wallClock + "null\n", none},
		"other blocks of the host's file are left alone": {
			"agents: {model: x, model: y}\nretries: \"3\"\n" + wallClock + "60\n", wall(time.Minute),
		},
		"a file of only the host's blocks is absent": {"agents:\n- a\n- b\n", none},
		"zero is no limit":                           {wallClock + "0\n", wall(watchdog.NoLimit)},
		"an anchor for the host's use is left alone": {wallClock + "&limit 60\nagents: *limit\n", wall(time.Minute)},
		"JSON is YAML": {
			`{"runtime_controls": {"session_wall_clock_seconds": 60}}`, wall(time.Minute),
		},
		"carriage returns and a byte order mark are fine": {
			"\ufeffruntime_controls:\r\n  session_wall_clock_seconds: 60\r\n", wall(time.Minute),
		},
		"warnings come at fractions": {
			"runtime_controls: {warn_at: [0.9, 0.5]}\n", watchdog.Budget{WarnAt: []float64{0.9, 0.5}},
		},
		"an empty list is no warnings": {
			"runtime_controls: {warn_at: []}\n", watchdog.Budget{WarnAt: []float64{}},
		},
		"zero is no warnings": {
			"runtime_controls: {warn_at: 0}\n", watchdog.Budget{WarnAt: []float64{}},
		},
		"a reserve is seconds": {
			"runtime_controls: {reserve_seconds: 30}\n", watchdog.Budget{Reserve: 30 * time.Second},
		},
		"a reserve of zero is none": {"runtime_controls: {reserve_seconds: 0}\n", none},
		"warnings switched off suit a limit switched off": {
			wallClock + "0\n  warn_at: []\n", watchdog.Budget{WallClock: watchdog.NoLimit, WarnAt: []float64{}},
		},
		"a host may have events and ladders of its own": {"events: {created: 5}\nladders: [high]\n", none},
		"a host may have scopes of its own":             {"scopes: [read, write]\n", none},
		"a host may have loops of its own":              {"loop: {mode: 5, classes: [a], volatile: x, polls: 3}\nafter: 5\n", none},
		"a host may have scopes with names":             {"scopes: [{scope: repo, spend: 5}]\n", none},
		"a host may have money of its own":              {"spend: {limit: 5}\ncost: 5\ntools: [bash]\ntokens: 5\n", none},
		"a cost is exact to the micro-unit": {
			"runtime_controls: {spend: {cost: 9223372036854.775806 USDC}}\n",
			watchdog.Budget{Spend: watchdog.Spend{Cost: watchdog.Money{Micros: watchdog.NoLimit - 1, Currency: "USDC"}}},
		},
		"a host may have a probe of its own": {"probe: {command: [id], interval: 5, timeout: 1}\n", none},
		"a host may have words close to stall": {
			"install: {on_error: fail}\nstate: off\nshell: [sh]\nstale: {probe: {interval: 5}}\n", none,
		},
		"an empty block says that near keys are the host's": {
			"runtime_controls:\nstall:\nruntime_control: {a: 1}\nwarn_at: noon\nstalls: {on_stall: x}\non_stall: x\n", none,
		},
		"the host may merge what has none of our blocks": {"base: &base {model: x}\n<<: [*base]\n", none},
		"a block overrides one that a merge brings": {
			"base: &base {runtime_controls: {warn_at: []}}\n<<: *base\n" + wallClock + "60\n", wall(time.Minute),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := parse(t, test.text, nil)
			require.Equal(t, test.want, c.Budget)
		})
	}
}

func wall(limit time.Duration) watchdog.Budget { return watchdog.Budget{WallClock: limit} }

// accepted are texts without an error, each with the blocks that only the host reads.
var accepted = []row{
	{"a host may have blocks with our other names", "watchdog: {usb: /dev/watchdog}\nsentinel: 5\n", "watchdog",
		"sentinel"},
	{"a host may read the stall blocks of steps", "steps: {build: {stall: {after: 5m}}}\ndefaults: {stall: 5m}\n", "steps",
		"defaults"},
	{"a host may have a block near ours", "runtime_control: {a: 1}\nwarn_at: 5\n", "runtime_control", "warn_at"},
	{"a host may nest what is named as ours", "app: {runtime_controls: {warn_at: 5}}\n", "app"},
	{"a host may have words of ours beside our blocks",
		"runtime_controls: {warn_at: [0.5]}\nstall: {no_output_timeout: 5m}\nevents: {created: 5}\nladders: [high]\nloop: " +
			"{every: 5}\nprobe: {command: [id], path: /}\ntimeout: 5\nhost: x\nscopes: [read]\nspend: {limit: 5}\n"},
	{"a host may have a block as ours beside ours", "runtime_controls: {warn_at: [0.5]}\nloop: {mode: strict}\ncost: 5\n",
		"loop"},
	{"a host may have a key with a space before it", "\" a\": 5\nstall:\nother: 5\ninterval: 5\n"},
	{"a host may have a key with a mark before it", "\u200fa: 5\n", "\u200fa"},
	{"a block of no keys says that what follows is the host's", "stall: {}\nno_output_timeout: 5m\n"},
	{"words in other blocks are not ours", "metrics: {stall: 5, sweep: true, watchdog: x}\nsleep: 5\nsmall: 5\n"},
	{"steps without a stall block are left alone", "steps: {build: {run: x, stall: }}\n"},
	{"a step may be called stall", "steps: {stall: {run: x}}\n"},
	{"a step may have words of ours", "steps: {a: {timeout: 5m, enabled: x, probe: {interval: 5}}}\n"},
	{"steps that are not steps are left alone", "steps: 5\ndefaults: [a]\ncompletion_check: x\n"},
	{"words of the sweep block, but not in one",
		"enabled: true\ninterval: 5m\nmin_age: 1\nstartup_delay: 5s\ngrace: 5s\nstop_timeout: 1\nsleep: {interval: 5}\n" +
			"sweet: {enabled: true}\ndry_run: true\nalert_count: 5\nkeeper: {pace: 5, host: x}\n"},
}

// effective are settings of runtime_controls that can take effect, though they look as if they could not.
var effective = []row{
	{"idle may equal no progress with another first directive",
		"no_progress_timeout_seconds: 60\n  idle_timeout_seconds: 60\n  ladders: {no_progress: [retry]}"},
	{"safety may exceed the wall clock, which can be extended",
		"session_wall_clock_seconds: 60\n  safety_timeout_seconds: 120"},
	{"safety may equal the wall clock, which survives a restart",
		"session_wall_clock_seconds: 60\n  safety_timeout_seconds: 60"},
	{"a ladder of holds needs no cap, because a hold may bring its own", "ladders: {hold: [retry]}"},
	{"a ladder of idle needs no limit, because a hold may bring its own", "ladders: {idle: [retry]}"},
	{"a ladder may end in a wait, or in a cancel after it", "ladders: {idle: [retry, wait], hold: [wait, cancel]}"},
	{"a ladder of idle may be one of the first sign",
		"no_progress_timeout_seconds: 60\n  from_first_sign: true\n  first_sign_timeout_seconds: 30\n  ladders: {idle: " +
			"[retry]}"},
	{"a first sign may take longer than idle allows afterwards",
		"idle_timeout_seconds: 60\n  from_first_sign: true\n  first_sign_timeout_seconds: 300"},
	{"events need no limit, because a layer may have one", "events: {material: [commit], unknown: activity}"},
	{"a kind may be said to be what unknown kinds are", "events: {ignored: [token], unknown: ignored}"},
	{"a tick may be longer than a session: it need not be in one",
		"session_wall_clock_seconds: 60\n  max_tick_duration_minutes: 30"},
	{"a grace may be as long as its tick", "max_tick_duration_minutes: 1\n  tick_grace_seconds: 60"},
	{"without a wall clock idle may have any length", "session_wall_clock_seconds: 0\n  idle_timeout_seconds: 9223372036"},
	{"a ladder of a count needs no limit, because the host may set one",
		"ladders: {tokens: [wait], cost: [wait], requests: [wait], turns: [wait], tool_calls: [wait]}"},
	{"a reserve may be one less than its limit", "spend: {turns: 5, reserve: {turns: 4}}"},
	{"warnings of counts may be of one tool only", "spend: {tools: {bash: 5}, warn_at: [0.5]}"},
	{"a ladder of errors may be one of retries", "spend: {retries: 5}\n  ladders: {errors: [unstuck]}"},
	{"settings that are switched off need nothing",
		"from_first_sign: false\n  first_sign_timeout_seconds: 0\n  ladders: {idle: [], no_progress: []}"},
}

// effectiveStalls are the same for a stall block.
var effectiveStalls = []row{
	{"one signal is enough: silence",
		"no_output_timeout: 5m\n  on_stall: fail\n  interrupt_grace: 1s\n  keep_background: true\n  fingerprint_prefix: ci"},
	{"one signal is enough: a probe",
		"probe: {command: [x]}\n  on_stall: fail\n  on_terminal: fail\n  stall_threshold: 2\n  terminate_grace: 0\n  " +
			"keep_background: true\n  fingerprint_prefix: ci"},
	{"one signal is enough: a pattern",
		"terminal_patterns: [x]\n  on_terminal: ignore\n  keep_background: true\n  fingerprint_prefix: ci"},
	{"a grace may be there where nothing is asked", "no_output_timeout: 5m\n  on_stall: fail\n  interrupt_grace: 1s"},
	{"a probe may be one that takes its whole time", "probe: {command: [x], interval: 5s, timeout: 5s}"},
	{"settings that are switched off need nothing",
		"no_output_timeout: 0\n  keep_background: false\n  terminal_patterns: []"},
	{"errors that mean nothing need no probe", "no_output_timeout: 5m\n  probe: {on_probe_error: ignore}"},
	{"a stall of a probe needs no limit of its output",
		"no_output_timeout: 0\n  probe: {command: [x]}\n  on_stall: ignore"},
}

// rows are texts that need no sentence.
func rows(texts ...string) (all []row) {
	for _, text := range texts {
		all = append(all, row{text, text})
	}
	return all
}

// effectiveSweeps are the same for a sweep block: settings that just go together.
var effectiveSweeps = rows(
	"", "stalled_threshold: 2m, keeper: {pace: 30s}", "keeper: {pace: 2m30s}", "stalled_threshold: 4s",
	"stalled_threshold: 1h, keeper: {pace: 15m}", "keeper: {host: 'worker 7'}", "keeper: {promise: 1s}",
	"keeper: {promise: 5m}", "max_cancellations_per_minute: 1", "stalled_threshold: 1m, keeper: {pace: 15s}",
)

// TestAccepted expects no error, and settings that a watchdog, a sentinel, a keeper and a sweeper accept.
func TestAccepted(t *testing.T) {
	for form, all := range map[string][]row{
		"%s": accepted, "runtime_controls:\n  %s\n": effective, "stall:\n  %s\n": effectiveStalls,
		"sweep: {%s}\n": effectiveSweeps,
	} {
		for _, test := range all {
			loader := config.Loader{Environment: []string{}, HostBlocks: test[2:]}
			c, err := loader.Parse(file, fmt.Appendf(nil, form, test[1]))
			require.NoError(t, err, test[0])
			requireUsable(t, c)
		}
	}
}

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
	compare(t, "stall_every.golden", sentinel(c))
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

// TestProbeBesideItsBlock has settings of a probe that are not in its block, or that say the default.
func TestProbeBesideItsBlock(t *testing.T) {
	c := parse(t, "stall: {probe: {command: [x], require_zero_exit: true}, stall_threshold: 4}", nil)
	require.Equal(t, &stall.Probe{Command: []string{"x"}, StallThreshold: 4}, c.Stall.Probe)
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
		compare(t, "disabled_stall.golden", sentinel(c))
	})
	t.Run("a probe is another signal", func(t *testing.T) {
		c := parse(t, everyStall, variables{noOutputVariable: "0"})
		compare(t, "disabled_stall_probe.golden", sentinel(c))
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

const canary = "canary-5f2c"

// faultsWithoutCanary returns what is wrong with a text, and expects the canary neither in that, also not in the causes,
// nor in what is printed of a text that is right.
func faultsWithoutCanary(t *testing.T, text string) []*config.Error {
	t.Helper()
	c, err := config.Parse(file, []byte(text), config.NoEnvironment)
	if err == nil {
		require.NotContains(t, c.String()+c.Step("x").String(), canary, text)
		return nil
	}
	all := faults(t, err)
	for _, fault := range all {
		require.NotContains(t, fmt.Sprintf("%v %+v %#v %v", fault, *fault, fault, fault.Err), canary, text)
	}
	return all
}

// TestArgumentsHidden searches errors and the printed limits for an argument: it can hold a secret.
func TestArgumentsHidden(t *testing.T) {
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
		t.Run(sentence, func(t *testing.T) { require.LessOrEqual(t, len(faultsWithoutCanary(t, text)), 1) })
	}
	for _, command := range []string{
		canary, `"a ` + canary + `"`, "[a, " + canary + "]", "[[" + canary + "]]", "{a: " + canary + "}",
		"[!!str " + canary + "]", "!!str " + canary, "*" + canary, "|\n      " + canary + "\n",
	} {
		for _, key := range []string{"command", "comand", "cmd"} {
			for _, block := range []string{"probe", "also_end"} {
				settings := "    no_output_timeout: 5m\n    " + block + ":\n     " + key + ": " + command + "\n"
				faultsWithoutCanary(t, "stall:\n"+settings)
				faultsWithoutCanary(t, "steps:\n  x:\n   stall:\n"+settings)
			}
		}
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

func patterns(texts ...string) []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, text := range texts {
		all = append(all, regexp.MustCompile(text))
	}
	return all
}

// TestWorkflow reads a whole workflow and expects what is in force for each step, and where it came from.
func TestWorkflow(t *testing.T) {
	c, err := config.Load("testdata/workflow.yaml", config.NoEnvironment)
	require.NoError(t, err)
	require.Equal(t, []string{"provision", "implement", "report"}, c.Steps())

	require.Equal(t, stall.ActivityAny, c.Step("provision").Stall.ActivitySource)
	implement := c.Step("implement")
	require.True(t, implement.Stall.Disabled)
	require.Empty(t, implement.DecisionFile, "it is of the check")
	check := implement.Check
	require.Equal(t, "implement.completion_check", check.Stall.Step)
	require.Equal(t, patterns("^fatal: ", "no space left on device"), check.Stall.Terminal)
	require.True(t, check.Stall.AsIncomplete)
	require.True(t, check.CaptureStderr)
	require.Equal(t, ".loop/review.verdict", check.DecisionFile)
	require.Nil(t, check.Check)

	for _, name := range []string{"report", "of the host alone"} {
		s := c.Step(name)
		require.Equal(t, 15*time.Minute, s.Stall.NoOutput)
		require.Equal(t, name, s.Stall.Step)
		require.Equal(t, 5*time.Minute, s.Check.Stall.NoOutput, "a check of the top level is that of every step")
	}
	var all strings.Builder
	for _, name := range c.Steps() {
		all.WriteString(c.Step(name).String() + "\n")
	}
	compare(t, "workflow_steps.golden", all.String())
	_, set, _ := strings.Cut(c.String(), "sweep.keeper.host")
	compare(t, "workflow_set.golden", set)
}

// TestStepMerge reads what a step adds to the defaults, field by field.
func TestStepMerge(t *testing.T) {
	const defaults = "defaults: {stall: {no_output_timeout: 5m, probe: {command: [a], interval: 10s, timeout: 2s}, " +
		"also_end: {command: [e], timeout: 4s}, " +
		"stall_threshold: 4, terminal_patterns: [a, b], error_class: FATAL, as_incomplete: true, grace_int: 1s}}\n"
	for sentence, test := range map[string]struct {
		own  string
		want func(s *config.StepSettings)
	}{
		"nothing":            {"", func(*config.StepSettings) {}},
		"an empty block":     {"{}", func(*config.StepSettings) {}},
		"null":               {"{no_output_timeout: ~}", func(*config.StepSettings) {}},
		"a limit":            {"{no_output_timeout: 1m}", func(s *config.StepSettings) { s.Stall.NoOutput = time.Minute }},
		"no limit":           {"{no_output_timeout: 0}", func(s *config.StepSettings) { s.Stall.NoOutput = 0 }},
		"a field of a probe": {"{probe: {timeout: 3s}}", func(s *config.StepSettings) { s.Stall.Probe.Timeout = 3 * time.Second }},
		"a command that is a list": {
			"{probe: {command: [x, z]}}", func(s *config.StepSettings) { s.Stall.Probe.Command = []string{"x", "z"} },
		},
		"a field of an end elsewhere": {
			"{also_end: {timeout: 3s}}", func(s *config.StepSettings) { s.Stall.AlsoEnd.Timeout = 3 * time.Second },
		},
		"an end elsewhere as one text": {
			"{also_end: {command: docker rm x}}", func(s *config.StepSettings) {
				s.Stall.AlsoEnd.Command = []string{"sh", "-c", "docker rm x"}
			},
		},
		"a list as a whole": {"{terminal_patterns: [c]}", func(s *config.StepSettings) { s.Stall.Terminal = patterns("c") }},
		"no patterns":       {"{terminal_patterns: []}", func(s *config.StepSettings) { s.Stall.Terminal = nil }},
		"a threshold":       {"{stall_threshold: 9}", func(s *config.StepSettings) { s.Stall.Probe.StallThreshold = 9 }},
		"no grace":          {"{interrupt_grace: 0}", func(s *config.StepSettings) { s.Stall.Grace = graces(0, stall.DefaultTerminateGrace) }},
		"a first signal":    {"{first_signal: QUIT}", func(s *config.StepSettings) { s.Stall.Grace[0].Signal = syscall.SIGQUIT }},
		"SIGTERM first":     {"{first_signal: SIGTERM, interrupt_grace: null}", func(s *config.StepSettings) { s.Stall.Grace = s.Stall.Grace[1:] }},
		"a class of one action": {
			"{on_stall: {error_class: RETRY}}", func(s *config.StepSettings) { s.StallClass = "RETRY" },
		},
		"a class of one action and one of both": {
			"{on_stall: {error_class: RETRY}, error_class: X}", func(s *config.StepSettings) { s.StallClass, s.TerminalClass = "RETRY", "X" },
		},
		"a class of both and one of an action": {
			"{error_class: X, on_stall: {error_class: RETRY}}", func(s *config.StepSettings) { s.StallClass, s.TerminalClass = "RETRY", "X" },
		},
		"an action in a word": {"{on_stall: fail}", func(s *config.StepSettings) { s.Stall.OnStall = stall.ActionFail }},
		"an action in a block": {
			"{on_terminal: {action: ignore}}", func(s *config.StepSettings) { s.Stall.OnTerminal = stall.ActionIgnore },
		},
		"an output": {
			"{activity_source: stderr}", func(s *config.StepSettings) { s.Stall.ActivitySource = stall.ActivityStderr },
		},
		"the probe only": {"{activity_source: probe_only}", func(s *config.StepSettings) { s.Stall.NoOutput = 0 }},
		"off":            {"{enabled: false}", func(s *config.StepSettings) { s.Stall.Disabled = true }},
		"off, with a setting that has no effect": {
			"{enabled: false, no_output_timeout: 0, activity_source: stdout}", func(s *config.StepSettings) {
				s.Stall.Disabled, s.Stall.NoOutput, s.Stall.ActivitySource = true, 0, stall.ActivityStdout
			},
		},
		"a prefix in parts": {
			"{fingerprint_prefix: [a, b]}", func(s *config.StepSettings) { s.Stall.FingerprintPrefix = "a/b" },
		},
		"the tail": {"{capture_stderr: true}", func(s *config.StepSettings) { s.CaptureStderr = true }},
	} {
		t.Run(sentence, func(t *testing.T) {
			want := config.StepSettings{StallClass: "FATAL", TerminalClass: "FATAL", Stall: stall.Config{
				Step: "x", NoOutput: 5 * time.Minute,
				Probe:    &stall.Probe{Command: []string{"a"}, Interval: 10 * time.Second, Timeout: 2 * time.Second, StallThreshold: 4},
				AlsoEnd:  &stall.AlsoEnd{Command: []string{"e"}, Timeout: 4 * time.Second},
				Terminal: patterns("a", "b"), Grace: graces(time.Second, stall.DefaultTerminateGrace),
			}}
			test.want(&want)
			c := parse(t, defaults+"steps: {x: {stall: "+test.own+"}}\n", nil)
			requireStep(t, want, c.Step("x"))

			want.Stall.AsIncomplete, want.Stall.Step = true, "x.completion_check"
			text := defaults + "steps: {x: {completion_check: {stall: " + test.own + "}}}\n"
			c = parse(t, text, nil)
			requireStep(t, want, *c.Step("x").Check)
		})
	}
}

func requireStep(t *testing.T, want, got config.StepSettings) {
	t.Helper()
	require.Equal(t, want.Stall, got.Stall)
	require.Equal(t, want.StallClass, got.StallClass)
	require.Equal(t, want.TerminalClass, got.TerminalClass)
	require.Equal(t, want.CaptureStderr, got.CaptureStderr)
}

// TestStepOwn expects that a host that changes a step changes no other.
func TestStepOwn(t *testing.T) {
	c := parse(t, "defaults: {stall: {probe: {command: [a]}}}\nsteps: {x: {}}\n", nil)
	first := c.Step("x")
	first.Stall.Probe.Command[0], first.Stall.Probe.Interval = "b", time.Second
	require.Equal(t, &stall.Probe{Command: []string{"a"}}, c.Step("x").Stall.Probe)
	require.Nil(t, c.Stall.Probe, "the stall block at the top level is for a command of no workflow")
}

// TestStepDisabled expects the one switch to switch off each step and each check.
func TestStepDisabled(t *testing.T) {
	text, err := os.ReadFile("testdata/workflow.yaml")
	require.NoError(t, err)
	c, err := config.Parse(file, text, environment(map[string]string{"WATCHDOG_DISABLED": "true"}))
	require.NoError(t, err)
	s := c.Step("provision")
	require.True(t, s.Stall.Disabled)
	require.True(t, s.Check.Stall.Disabled)
	require.Contains(t, s.String(), "environment WATCHDOG_DISABLED")
}

// TestProbeOutputOfErrors expects a key that nothing uses to be said.
func TestProbeOutputOfErrors(t *testing.T) {
	const text = "steps: {x: {stall: {probe: {command: [a], capture_stderr: true}}}}\n"
	c := parse(t, text, nil)
	require.Contains(t, settings(c), [3]string{"steps.x.stall.probe.capture_stderr", "not used", "limits.yaml:1"})
	require.False(t, c.Step("x").CaptureStderr, "it is of the probe, not of the command")
}

// TestStepsOfAList reads steps that are a list.
func TestStepsOfAList(t *testing.T) {
	const text = "steps:\n- {run: make}\n- {id: a, name: the first, stall: {no_output_timeout: 5m}}\n- {name: b}\n"
	c := parse(t, text, nil)
	require.Equal(t, []string{"a", "b"}, c.Steps())
	require.Equal(t, 5*time.Minute, c.Step("a").Stall.NoOutput)
	require.Zero(t, c.Step("b").Stall.NoOutput)
	require.Contains(t, settings(c), [3]string{"steps.a.stall.no_output_timeout", "5m0s", "limits.yaml:3"})
}
