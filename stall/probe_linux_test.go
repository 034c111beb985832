package stall_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/script"
	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/stall"
)

// probe returns a probe that prints one of the words at each run: see the step count.
func (f *fixture) probe(words string) *stall.Probe {
	f.Helper()
	return &stall.Probe{
		Command:  childCommand(f, "count:"+filepath.Join(f.TempDir(), "count")+":"+words),
		Interval: 20 * time.Millisecond, Timeout: longTime,
	}
}

// A probeLine is a line of probe.jsonl.
type probeLine struct {
	Class, Digest, Blind, Summary string
	Same                          int
	Reasons, Fingerprints         []string
	ExitCode                      *int  `json:"exit_code"`
	AtUnixMS                      int64 `json:"at_unix_ms"`
}

func (f *fixture) probeLines() (all []probeLine) {
	f.Helper()
	for text := range strings.Lines(f.artifact("probe.jsonl")) {
		var l probeLine
		require.NoError(f, json.Unmarshal([]byte(text), &l))
		all = append(all, l)
	}
	return all
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, words string
		change      func(*stall.Probe)
		kind        stall.TripKind
		probes      int
		print       string
	}{
		{"equal results", "a", nil, stall.KindNoProgress, 3, "stall/no_progress:"},
		{"equal results of a probe whose status is 1", "", func(p *stall.Probe) {
			p.Command, p.AnyExit = childCommand(t, "print:{}", "exit:1"), true
		}, stall.KindNoProgress, 3, "stall/no_progress:"},
		{"a terminal state, which the first probe sees at once", "=terminal", func(p *stall.Probe) {
			p.Interval = longTime
		}, stall.KindTerminal, 1, "stall/terminal:probe"},
		{"a probe that fails, as a stall", "fail", func(p *stall.Probe) {
			p.OnError = stall.ErrorStall
		}, stall.KindNoProgress, 3, "stall/probe_blind:exit"},
		{"a probe that prints no object, as a terminal state", "text", func(p *stall.Probe) {
			p.OnError, p.ErrorThreshold = stall.ErrorTerminal, 2
		}, stall.KindTerminal, 2, "stall/probe_blind:output"},
		{"a probe that hangs", "hang", func(p *stall.Probe) {
			p.OnError, p.ErrorThreshold, p.Timeout = stall.ErrorStall, 2, time.Second
		}, stall.KindNoProgress, 2, "stall/probe_blind:timeout"},
		{"a probe that cannot be started", "", func(p *stall.Probe) {
			p.OnError, p.ErrorThreshold, p.Command = stall.ErrorTerminal, 2, []string{"/does/not/exist"}
		}, stall.KindTerminal, 2, "stall/probe_blind:start"},
	} {
		inFixture(t, c.name, func(t *testing.T, f *fixture) {
			f.cfg.Probe = f.probe(c.words)
			if c.change != nil {
				c.change(f.cfg.Probe)
			}
			result, _ := f.stalled(command(t, "every:20ms:x"))
			require.Equal(t, c.kind, result.Trip.Kind)
			require.Equal(t, c.probes, result.Probes.Count)
			prints := result.Trip.Fingerprints
			if c.kind == stall.KindNoProgress {
				require.Equal(t, "stall/no-progress", prints[0])
				prints = prints[1:]
			}
			require.Len(t, prints, 1)
			require.True(t, strings.HasPrefix(prints[0], c.print), prints)
			lines := f.probeLines()
			require.Len(t, lines, c.probes)
			if blind, ok := strings.CutPrefix(c.print, "stall/probe_blind:"); ok {
				require.Equal(t, blind, result.Probes.Why)
				require.Equal(t, c.probes, result.Probes.BlindFor)
				require.Equal(t, c.probes, result.Probes.Blind)
				require.Equal(t, blind, lines[0].Blind)
				require.Empty(t, lines[0].Digest)
				if blind == "exit" {
					require.Equal(t, 3, *lines[0].ExitCode)
				}
			}
		})
	}
}

// A calling is a log handler that only makes a call.
type calling struct {
	slog.Handler
	call func()
}

func (calling) Enabled(context.Context, slog.Level) bool { return true }

func (h calling) Handle(context.Context, slog.Record) error { h.call(); return nil }

// TestLogFails checks that a log handler that hangs does not end the watch of a command. In package bounded it panics
// and ends its goroutine, too.
func TestLogFails(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	f := newFixture(t)
	f.cfg.RecordTimeout = 500 * time.Millisecond
	f.cfg.Logger = slog.New(calling{slog.DiscardHandler, func() { <-released }})
	f.cfg.Probe = f.probe("fail")
	lines := filepath.Join(f.cfg.Artifacts, "step", "_stall", "probe.jsonl")
	result := f.succeeds(command(t, "await:"+lines))
	require.Positive(t, result.Probes.Blind)
}

// TestProbeTree checks that no process of a probe is left.
func TestProbeTree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"with the daemon that it left", []string{"daemon:ignore:INT,TERM;print:" + ready + ";stay", "print:{}"}},
		{"with its children when it hangs", []string{"child:ignore:INT,TERM;print:" + ready + ";stay", "stay"}},
	} {
		inFixture(t, c.name, func(t *testing.T, f *fixture) {
			f.cfg.Probe = &stall.Probe{
				Command:  childCommand(t, c.steps...),
				Interval: time.Millisecond, Timeout: time.Second, OnError: stall.ErrorStall, StallThreshold: 2, ErrorThreshold: 2,
			}
			f.stalled(command(t, "stay")) // the probe has the command's environment, and so the token
		})
	}
	inFixture(t, "when the command ends while it runs", func(t *testing.T, f *fixture) {
		began := filepath.Join(t.TempDir(), "began")
		f.cfg.Probe = &stall.Probe{Command: childCommand(t, "ignore:INT,TERM", "touch:"+began, "stay"), Timeout: longTime}
		at := time.Now()
		f.succeeds(command(t, "await:"+began))
		within(t, 2*slack, at)
	})
}

const nobody = 65534

// restrictions are what a host does to itself.
var restrictions = map[string]func() error{
	"nothing": func() error { return nil },
	"user-of-thread": func() error {
		return escape.ChangeThread(syscall.SYS_SETRESUID, nobody, nobody, nobody)
	},
	"user":                     func() error { return syscall.Setresuid(nobody, nobody, nobody) },
	"user-for-now":             func() error { return syscall.Setresuid(nobody, nobody, 0) },
	"back":                     func() error { return syscall.Setresuid(0, 0, 0) },
	"capability-of-thread":     func() error { return escape.ChangeThread(syscall.SYS_PRCTL, 24, 12, 0) }, // CAP_NET_ADMIN
	"new-privileges-of-thread": func() error { return escape.ChangeThread(syscall.SYS_PRCTL, 38, 1, 0) },
	"limit": func() error {
		return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 0, Max: 4096})
	},
}

// may is a shell script that prints, as a probe's result, what it may do.
const may = `echo "{\"class\": \"terminal\", \"fingerprints\": [\"user $(id -u)\", ` +
	`\"$(grep CapBnd /proc/self/status)\", \"$(grep NoNewPrivs /proc/self/status)\", \"core $(ulimit -Hc)\"]}" | tr '\t' ' '`

// A restrictedResult is what a restricted host prints.
type restrictedResult struct {
	Why, Failed, Err string
}

// restricted:BEFORE:AFTER:FOLDER is a host that restricts itself before and after the start of a command. The command,
// a probe and an AlsoEnd write to the folder what they may do.
func restricted(argument string) error {
	parts := strings.Split(argument, ":")
	before, after, folder := parts[0], parts[1], parts[2]
	writes := func(name string) []string {
		return []string{"sh", "-c", "cd " + folder + "; " + may + " | tee " + name + ".new; mv " + name + ".new " + name}
	}
	probe := writes("probe")
	// The first probe lasts until the host has changed.
	probe[2] = "cd " + folder + "; test -e first || { touch first; while ! test -e changed; do sleep 0.01; done; " +
		"echo '{\"class\": \"progressing\"}'; exit; }; " + probe[2]
	line := writes("command")
	line[2] += "; exec sleep 300"
	c, err := stall.NewCommand(exec.Command(line[0], line[1:]...), stall.Config{
		Step: "step", Store: &watchdog.Memory{}, Logger: discard,
		AlsoEnd: &stall.AlsoEnd{Command: writes("end"), Timeout: longTime},
		Probe: &stall.Probe{
			Command: probe, Timeout: longTime, Interval: 10 * time.Millisecond,
			OnError: stall.ErrorTerminal, ErrorThreshold: 1,
		},
	})
	if err := cmp.Or(err, restrictions[before]()); err != nil {
		return err
	}
	if err := c.Start(context.Background()); err != nil {
		return err
	}
	if !strings.HasSuffix(before, "-of-thread") {
		err = cmp.Or(script.Await(filepath.Join(folder, "command")), script.Await(filepath.Join(folder, "first")))
	}
	if err := cmp.Or(err, restrictions[after]()); err != nil {
		return err
	}
	_ = os.WriteFile(filepath.Join(folder, "changed"), nil, 0o600)
	result, _ := c.Wait()
	text, err := json.Marshal(restrictedResult{
		result.Probes.Why, result.AlsoEnded.Failed, fmt.Sprint(result.AlsoEnded.Err),
	})
	return cmp.Or(err, childSteps["print"](string(text)))
}

// TestPrivileges checks that a probe and an AlsoEnd may do what the command and its host may, and nothing more.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can drop anything")
	}
	for _, c := range []struct {
		name, before, after string
		refused             string
		lost                bool // the companions have less than the command
	}{
		{"a host that changes nothing", "nothing", "nothing", "", false},
		{"a host that dropped root", "user", "nothing", "", false},
		{"a host with a limit", "limit", "nothing", "", false},
		{"a host that drops root after the start", "nothing", "user", "", true},
		{"a host that lowers a limit after the start", "nothing", "limit", "", true},
		{"a host that dropped root and lowers a limit after the start", "user", "limit", "", true},
		{"a host that becomes root again after the start", "user-for-now", "back", "may do more now", false},
		{"a thread that dropped root", "user-of-thread", "nothing", "a thread with privileges of its own", false},
		{"a thread that dropped a capability", "capability-of-thread", "nothing", "a thread with privileges of its own", false},
		{"a thread without new privileges", "new-privileges-of-thread", "nothing", "a thread with privileges of its own", false},
	} {
		parallel(t, c.name, func(t *testing.T) {
			folder, err := os.MkdirTemp("", "privileges") //nolint:usetesting // only its owner can reach t.TempDir
			require.NoError(t, err)
			t.Cleanup(func() { os.RemoveAll(folder) })
			require.NoError(t, os.Chmod(folder, 0o777))
			line := childCommand(t, "restricted:"+c.before+":"+c.after+":"+folder)
			out, err := exec.Command(line[0], line[1:]...).Output()
			require.NoError(t, err, "%s", out)
			var r restrictedResult
			require.NoError(t, json.Unmarshal(out, &r), "%s", out)
			if c.refused != "" {
				require.Equal(t, restrictedResult{"start", "start", r.Err}, r)
				require.Contains(t, r.Err, c.refused)
				require.NoFileExists(t, filepath.Join(folder, "probe"))
				require.NoFileExists(t, filepath.Join(folder, "end"))
				return
			}
			require.Equal(t, restrictedResult{"", "", "<nil>"}, r)
			command, probe, end := mayOf(t, folder, "command"), mayOf(t, folder, "probe"), mayOf(t, folder, "end")
			require.Equal(t, probe, end)
			require.Equal(t, c.lost, command != probe, "%s, but the probe %s", command, probe)
		})
	}
}

func mayOf(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	return string(text)
}

// variable matches what differs from run to run.
var variable = regexp.MustCompile(
	`("(?:observed_at_unix|sent_at_unix_ms|at_unix_ms|duration_ms|decided_at_unix)": ?)\d+|("event_id": ")[0-9a-f-]+`)

func normal(text string) string { return variable.ReplaceAllString(text, "${1}${2}0") }

// terminalProbe is the output of a probe that trips at once.
const terminalProbe = `{"class": "terminal", "fingerprints": ["k8s/crd/missing:widgets"], "reasons": ["waits"]}`

// TestArtifacts compares the artifacts of a trip with golden files.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.CheckID, f.cfg.Workflow, f.cfg.Iteration, f.cfg.AsIncomplete = "tests-pass", "release", 3, true
	f.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: func(p []byte) []byte {
		return bytes.ReplaceAll(p, []byte("hunter2"), []byte("***"))
	}}
	f.cfg.StepLog = "context/step/_logs/worker.log"
	printed := filepath.Join(t.TempDir(), "printed")
	f.cfg.Probe = &stall.Probe{
		Command: childCommand(t, "await:"+printed, "print:"+terminalProbe), Publish: true, Timeout: longTime,
	}
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "exit:0"), Timeout: longTime}
	result, err := f.run(command(t, "obey:INT:7", "warn:password hunter2", "touch:"+printed, "stay"))
	require.NoError(t, err, "an incomplete check is no error")
	require.True(t, result.Incomplete)
	require.Equal(t, filepath.Join(f.cfg.Artifacts, "step", "_stall"), result.Artifacts)
	require.NoError(t, result.ArtifactErr)
	require.ElementsMatch(t, words("event.json decision.json probe.jsonl stderr.tail.log"), f.artifacts())
	require.Equal(t, "password ***\n", f.artifact("stderr.tail.log"))
	for _, name := range words("event.json decision.json probe.jsonl") {
		golden.Compare(t, "testdata/"+name, strings.ReplaceAll(normal(f.artifact(name)), f.cfg.Artifacts, "context"))
	}
}

// TestEventBeforeSignal checks that event.json is there before the first signal.
func TestEventBeforeSignal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	copied := filepath.Join(t.TempDir(), "copied")
	e := filepath.Join(f.cfg.Artifacts, "step", "_stall", "event.json")
	result, _ := f.stalled(f.terminal("copy:" + e + ":" + copied))
	require.Zero(t, result.ExitCode, "its signal handler found the file")
	text, err := os.ReadFile(copied)
	require.NoError(t, err)
	var before record
	require.NoError(t, json.Unmarshal(text, &before))
	require.False(t, before.Complete)
	require.Equal(t, words("SIGINT SIGTERM SIGKILL"), before.Action.Requested)
	require.Empty(t, before.Action.Sent)
	require.NotEmpty(t, before.EventID)
	after := f.record()
	require.True(t, after.Complete)
	require.Equal(t, before.EventID, after.EventID)
	require.Len(t, after.Action.Sent, 1)
}

// TestArtifactFails checks that an artifact that cannot be written, as on a full disk, does not keep a command alive.
func TestArtifactFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	result, _ := f.stalled(f.terminal("touch:" + filepath.Join(f.cfg.Artifacts, "step")))
	require.Equal(t, syscall.SIGINT, result.EndedBy)
	require.ErrorContains(t, result.ArtifactErr, "step is not a folder")
	require.Empty(t, result.Artifacts)
}

func TestTail(t *testing.T) {
	t.Parallel()
	for want, one := range map[string]bool{"oops\n": false, "oops\nready\n": true} {
		name := fmt.Sprint("is the end of standard error, and of both outputs if they are one writer: ", one)
		inFixture(t, name, func(t *testing.T, f *fixture) {
			f.cfg.Tail = &stall.Tail{Bytes: 100, Redact: func(p []byte) []byte { return p }}
			cmd := f.terminal("warn:oops")
			if one {
				cmd.Stdout = new(strings.Builder)
				cmd.Stderr = cmd.Stdout
			}
			f.stalled(cmd)
			require.Equal(t, want, f.artifact("stderr.tail.log"))
			require.Equal(t, map[string]string{"stderr_tail": "stderr.tail.log"}, f.record().Pointers)
		})
	}
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for says, c := range map[string]struct {
		timeout time.Duration // of the disk as well
		redact  func([]byte) []byte
	}{
		"Tail.Redact panicked":              {longTime, func(p []byte) []byte { panic(string(p)) }},
		"Tail.Redact ended its goroutine":   {longTime, func([]byte) []byte { runtime.Goexit(); return nil }},
		"Tail.Redact did not return in 10s": {10 * time.Second, func(p []byte) []byte { <-hang; return p }},
	} {
		inFixture(t, "is not written if "+says, func(t *testing.T, f *fixture) {
			f.cfg.RecordTimeout, f.cfg.Tail = c.timeout, &stall.Tail{Bytes: 100, Redact: c.redact}
			result, _ := f.stalled(f.terminal("warn:oops"))
			require.ErrorContains(t, result.ArtifactErr, says+"; the tail was not written")
			require.NotContains(t, result.ArtifactErr.Error(), "oops")
			require.True(t, f.record().Complete, "and nothing else is missing")
			require.Equal(t, []string{"event.json"}, f.artifacts())
		})
	}
}

// TestEarlierAttempt checks that the files of an earlier attempt never pass for those of this one.
func TestEarlierAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.Probe, f.cfg.AsIncomplete = f.probe("=terminal"), true
	f.succeeds(command(t, "stay"))
	all := words("decision.json event.json probe.jsonl")
	require.ElementsMatch(t, all, f.artifacts())
	earlier := map[string]string{}
	for _, name := range all {
		earlier[name] = f.artifact(name)
	}
	f.cfg.Probe = nil
	folder := filepath.Join(f.cfg.Artifacts, f.cfg.Step, "_stall")
	cmd := command(t, "exit:0")
	result := f.succeeds(cmd)
	require.Empty(t, result.Artifacts)
	for _, name := range all {
		require.False(t, exists(filepath.Join(folder, name)))
		require.Equal(t, earlier[name], f.artifact("previous."+name))
	}
	f.succeeds(command(t, "exit:0"))
	require.Empty(t, f.artifacts(), "they are of no use any more")
}

// TestIgnored checks that each silence that is ignored is recorded.
func TestIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.NoOutput, f.cfg.OnStall = 200*time.Millisecond, stall.ActionIgnore
	trips := filepath.Join(t.TempDir(), "trips")
	f.cfg.Store = &endingStore{f.store, func() { appendLine(t, trips) }}
	result, err := f.run(command(t,
		"lines:"+trips+":1", "print:a", "lines:"+trips+":2", "print:b", "lines:"+trips+":3"))
	require.NoError(t, err)
	require.Len(t, result.Trips, 3)
	require.Len(t, f.events(event.Warning), 3)
	require.Equal(t, *result.Trip, result.Trips[0])
	require.Empty(t, result.Fingerprints(), "the command has finished")
}

// appendLine tells a child of one more event.
func appendLine(t *testing.T, path string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if assert.NoError(t, err) {
		_, err = file.WriteString("\n")
		assert.NoError(t, errors.Join(err, file.Close()))
	}
}

// TestVolatile checks that a probe which always differs in the same field is noticed.
func TestVolatile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var log bytes.Buffer
	f.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f.cfg.Probe = f.probe("1,2,3,4,5,6,7,8")
	lines := filepath.Join(f.cfg.Artifacts, "step", "_stall", "probe.jsonl")
	result, err := stall.Run(context.Background(), command(t, "lines:"+lines+":8"), f.cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"state.at"}, result.Probes.Volatile)
	require.Equal(t, 1, strings.Count(log.String(), "state.at"), log.String())
}

// canary is a text that stands for a secret of a command or a probe.
const canary = "canary-7c1e9f"

// A secretsFixture collects every text that is written about a command, by the name of its place.
type secretsFixture struct {
	*fixture
	logs  locked.Buffer
	texts map[string]string
}

func newSecretsFixture(t *testing.T) *secretsFixture {
	c := &secretsFixture{fixture: newFixture(t), texts: map[string]string{}}
	c.cfg.Logger = slog.New(slog.NewTextHandler(&c.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c.cfg.WallClock = longTime
	c.cfg.NoOutput = longTime
	c.cfg.Terminal = readyLine
	c.cfg.AsIncomplete = true
	return c
}

// runWithSecrets runs a command with canaries in its arguments, environment, input and outputs.
func (c *secretsFixture) runWithSecrets(steps ...string) {
	c.Helper()
	all := []string{"print:" + canary, "warn:" + canary, "touch:" + filepath.Join(c.TempDir(), canary)}
	cmd := command(c, append(all, steps...)...)
	cmd.Env = append([]string{"PASSWORD=" + canary}, cmd.Env...)
	cmd.Stdin = strings.NewReader(canary)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, failing{}
	if c.cfg.Tail != nil {
		cmd.Stderr = &strings.Builder{}
	}
	c.collect(stall.Run(c.Context(), cmd, c.cfg))
}

func (c *secretsFixture) collect(result *stall.Result, err error) {
	c.Helper()
	c.texts["the error"] = fmt.Sprintf("%v %+v", err, err)
	c.texts["the log"] = c.logs.String()
	if result != nil {
		c.texts["the result"] = fmt.Sprintf("%+v %+v %v %v", result, result.Trip, result.ArtifactErr, result.OutputErr) +
			fmt.Sprintf("%+v", result.AlsoEnded)
	}
	for _, id := range []string{"run", "run/step"} {
		events, readErr := c.store.Read(context.Background(), event.AggregateType, id)
		require.NoError(c, readErr)
		for i, e := range events {
			c.texts[fmt.Sprintf("event %d of %s", i, id)] = fmt.Sprintf("%+v %s", e, e.Payload)
		}
	}
	_ = filepath.WalkDir(c.cfg.Artifacts, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			text, _ := os.ReadFile(path)
			c.texts[entry.Name()] = path + string(text)
		}
		return nil
	})
}

// leaks returns the names of the texts that contain the canary.
func (c *secretsFixture) leaks() (names []string) {
	for name, text := range c.texts {
		if strings.Contains(text, canary) {
			names = append(names, name)
		}
	}
	return names
}

// secretProbe prints canaries in every field but its fingerprints.
var secretProbe = "print:" + strings.ReplaceAll(
	`{"class": "stalled", "digest": "SECRET", "summary": "SECRET", "reasons": ["SECRET"], "SECRET": "SECRET"}`,
	"SECRET", canary)

// TestSecrets checks that no place holds a secret.
func TestSecrets(t *testing.T) {
	t.Parallel()
	probe := func(t *testing.T, steps ...string) *stall.Probe {
		return &stall.Probe{Command: childCommand(t, steps...), Interval: time.Millisecond, Timeout: longTime}
	}
	for _, c := range []struct {
		name  string
		run   func(*secretsFixture)
		finds string // in one of the places, to show that there is something to search
	}{
		{"after a terminal line", func(c *secretsFixture) { c.runWithSecrets("print:"+ready, "stay") }, "terminal pattern 1"},
		{"after a probe's trip", func(c *secretsFixture) {
			c.cfg.Probe = probe(t, secretProbe)
			c.runWithSecrets("stay")
		}, "3 probes in a row saw the same"},
		{"after probes that fail and print no object", func(c *secretsFixture) {
			c.cfg.Probe = probe(t, "print:"+canary, "warn:"+canary)
			c.cfg.Probe.OnError = stall.ErrorStall
			c.runWithSecrets("stay")
		}, "probe_blind:output"},
		{"after a probe that cannot be started", func(c *secretsFixture) {
			c.cfg.Probe = &stall.Probe{
				Command: []string{"/no/such/" + canary, canary}, Interval: time.Millisecond, OnError: stall.ErrorTerminal,
			}
			c.runWithSecrets("stay")
		}, "probe_blind:start"},
		{"after an AlsoEnd that fails", func(c *secretsFixture) {
			c.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "print:"+canary, "warn:"+canary, "env:PASSWORD", "exit:3")}
			c.runWithSecrets("print:"+ready, "stay")
		}, "its exit status is 3"},
		{"after an AlsoEnd that cannot be started", func(c *secretsFixture) {
			c.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"/no/such/" + canary, canary}}
			c.runWithSecrets("print:"+ready, "stay")
		}, "it cannot be started"},
		{"before an AlsoEnd that is not there", func(c *secretsFixture) {
			c.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{canary, canary}}
			c.runWithSecrets("stay")
		}, "AlsoEnd.Command"},
		{"after a failure", func(c *secretsFixture) { c.runWithSecrets("exit:3") }, "exit status 3"},
		{"after a failed start", func(c *secretsFixture) {
			cmd := command(c, canary)
			cmd.Path, cmd.Dir = "/no/such/"+canary, "/no/such/"+canary
			c.collect(stall.Run(c.Context(), cmd, c.cfg))
		}, "no such file"},
	} {
		parallel(t, c.name, func(t *testing.T) {
			f := newSecretsFixture(t)
			c.run(f)
			require.Empty(t, f.leaks())
			require.Contains(t, fmt.Sprint(f.texts), c.finds)
		})
	}
}

// TestSecretsOptIn checks that a secret is only in places for which that was turned on.
func TestSecretsOptIn(t *testing.T) {
	t.Parallel()
	keep := func(p []byte) []byte { return p }
	clean := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte(canary), []byte("***")) }
	t.Run("the tail, if the redaction leaves it there", func(t *testing.T) {
		c := newSecretsFixture(t)
		c.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: keep}
		c.runWithSecrets("print:"+ready, "stay")
		require.Equal(t, []string{"stderr.tail.log"}, c.leaks())
	})
	t.Run("not even the tail, if the redaction removes it", func(t *testing.T) {
		c := newSecretsFixture(t)
		c.cfg.Tail = &stall.Tail{Bytes: 1000, Redact: clean}
		c.runWithSecrets("print:"+ready, "stay")
		require.Empty(t, c.leaks())
		require.Contains(t, c.texts["stderr.tail.log"], "***")
	})
	t.Run("what a probe publishes", func(t *testing.T) {
		c := newSecretsFixture(t)
		c.cfg.Probe = &stall.Probe{
			Command: childCommand(t, secretProbe), Interval: time.Millisecond, Timeout: longTime, Publish: true,
		}
		c.runWithSecrets("stay")
		require.ElementsMatch(t, []string{"probe.jsonl", "event.json", "decision.json", "the result"}, c.leaks())
	})
}
