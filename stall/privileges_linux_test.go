package stall_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

const nobody = 65534

// restrictions are what a host does to itself.
var restrictions = map[string]func() error{
	"nothing": func() error { return nil },
	"user-of-thread": func() error {
		runtime.LockOSThread() // never unlocked
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody)
		return asError(errno)
	},
	"user":                     func() error { return syscall.Setresuid(nobody, nobody, nobody) },
	"user-for-now":             func() error { return syscall.Setresuid(nobody, nobody, 0) },
	"back":                     func() error { return syscall.Setresuid(0, 0, 0) },
	"capability-of-thread":     func() error { return prctlOfThread(24, 12) }, // CAP_NET_ADMIN, from the bounding set
	"new-privileges-of-thread": func() error { return prctlOfThread(38, 1) },
	"limit": func() error {
		return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 0, Max: 4096})
	},
}

func prctlOfThread(option, value uintptr) error {
	runtime.LockOSThread()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0)
	return asError(errno)
}

func asError(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// may is a shell script that prints, as a probe's result, what it may do.
const may = `echo "{\"class\": \"terminal\", \"fingerprints\": [\"user $(id -u)\", ` +
	`\"$(grep CapBnd /proc/self/status)\", \"$(grep NoNewPrivs /proc/self/status)\", \"core $(ulimit -Hc)\"]}" | tr '\t' ' '`

// A restrictedResult is what a restricted host prints.
type restrictedResult struct {
	Why, Failed, Err string
}

// restricted:BEFORE:AFTER:FOLDER is a host that restricts itself before and after the start of a command. The command, a
// probe and an AlsoEnd write to the folder what they may do.
func restricted(argument string) error {
	parts := strings.Split(argument, ":")
	before, after, folder := parts[0], parts[1], parts[2]
	script := func(name string) []string {
		return []string{"sh", "-c", "cd " + folder + "; " + may + " | tee " + name + ".new; mv " + name + ".new " + name}
	}
	probe := script("probe")
	// The first probe lasts until the host has changed.
	probe[2] = "cd " + folder + "; test -e first || { touch first; while ! test -e changed; do sleep 0.01; done; " +
		"echo '{\"class\": \"progressing\"}'; exit; }; " + probe[2]
	line := script("command")
	line[2] += "; exec sleep 300"
	c, err := stall.NewCommand(exec.Command(line[0], line[1:]...), stall.Config{
		Step: "step", Store: &watchdog.Memory{}, Logger: discard,
		AlsoEnd: &stall.AlsoEnd{Command: script("end"), Timeout: longTime},
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
		err = cmp.Or(awaitFile(filepath.Join(folder, "command")), awaitFile(filepath.Join(folder, "first")))
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
