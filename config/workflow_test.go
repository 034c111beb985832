package config_test

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/stall"
)

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

	provision := c.Step("provision")
	require.Equal(t, stall.Config{
		Step: "provision", NoOutput: 20 * time.Minute, ActivitySource: stall.ActivityAny,
		Probe: &stall.Probe{
			Command: []string{
				"sh", "-c", "# must print exactly one JSON object\nbash scripts/sentinel-probe.sh --mode provision\n",
			},
			Interval: 10 * time.Second, Timeout: 5 * time.Second, StallThreshold: 12,
			AnyExit: true, OnError: stall.ErrorStall, ErrorThreshold: 3,
		},
		Terminal: patterns("^panic: "), OnStall: stall.ActionInterrupt, OnTerminal: stall.ActionFail,
		Grace:             graces(10*time.Second, 20*time.Second),
		FingerprintPrefix: "phase/provision",
	}, provision.Stall)
	require.Equal(t, "RETRYABLE_TRANSIENT", provision.StallClass)
	require.Equal(t, "NON_RETRYABLE", provision.TerminalClass)

	implement := c.Step("implement")
	require.True(t, implement.Stall.Disabled)
	require.Empty(t, implement.DecisionFile, "it is of the check")
	check := implement.Check
	require.Equal(t, stall.Config{
		Step: "implement.completion_check", NoOutput: 5 * time.Minute, ActivitySource: stall.ActivityAny,
		Probe: &stall.Probe{
			Command:  []string{"bash", "scripts/sentinel-probe.sh", "--mode", "verify"},
			Interval: 10 * time.Second, StallThreshold: 6,
		},
		Terminal: patterns("^fatal: ", "no space left on device"),
		OnStall:  stall.ActionInterrupt, OnTerminal: stall.ActionInterrupt, AsIncomplete: true,
	}, check.Stall)
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
	golden(t, "workflow_steps.golden", all.String())
	_, set, _ := strings.Cut(c.String(), "sweep.keeper.host")
	golden(t, "workflow_set.golden", set)
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

// TestSecrets expects no argument of a command in an error or in what is printed.
func TestSecrets(t *testing.T) {
	const canary = "canary-4711"
	for _, command := range []string{canary, `"a ` + canary + `"`, "[a, " + canary + "]", "[[" + canary + "]]", "{a: " + canary + "}",
		"[!!str " + canary + "]", "!!str " + canary, "*" + canary, "|\n      " + canary + "\n"} {
		for _, key := range []string{"command", "comand", "cmd"} {
			for _, block := range []string{"probe", "also_end"} {
				settings := "    no_output_timeout: 5m\n    " + block + ":\n     " + key + ": " + command + "\n"
				for _, text := range []string{"stall:\n" + settings, "steps:\n  x:\n   stall:\n" + settings} {
					c, err := config.Parse(file, []byte(text), config.NoEnvironment)
					if err != nil {
						require.NotContains(t, err.Error(), canary, text)
						continue
					}
					require.NotContains(t, c.String()+c.Step("x").String(), canary, text)
				}
			}
		}
	}
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
