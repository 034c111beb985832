package stall_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/script"
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
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
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
	result, err := f.run(command(t, "await:"+lines))
	require.NoError(t, err)
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
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.Probe = &stall.Probe{
				Command:  childCommand(t, c.steps...),
				Interval: time.Millisecond, Timeout: time.Second, OnError: stall.ErrorStall, StallThreshold: 2, ErrorThreshold: 2,
			}
			f.stalled(command(t, "stay")) // the probe has the command's environment, and so the token
		})
	}
	t.Run("when the command ends while it runs", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		began := filepath.Join(t.TempDir(), "began")
		f.cfg.Probe = &stall.Probe{Command: childCommand(t, "ignore:INT,TERM", "touch:"+began, "stay"), Timeout: longTime}
		at := time.Now()
		_, err := f.run(command(t, "await:"+began))
		require.NoError(t, err)
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
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
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
