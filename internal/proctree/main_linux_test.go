//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// What this program is when it was executed again for a test.
const (
	roleVariable    = "PROCTREE_TEST_ROLE"
	commandVariable = "PROCTREE_TEST_COMMAND"
)

func TestMain(m *testing.M) {
	escape.Main()
	switch os.Getenv(roleVariable) {
	case "host":
		beHost()
	case "namespace":
		os.Exit(beNamespace())
	case "counter":
		os.Exit(countSignals())
	case "show":
		show()
	}
	goleak.VerifyTestMain(m)
}

// beHost starts a command and waits to be killed.
func beHost() {
	var c proctree.Command
	if err := json.Unmarshal([]byte(os.Getenv(commandVariable)), &c); err != nil {
		panic(err)
	}
	if _, err := proctree.Start(c); err != nil {
		panic(err)
	}
	time.Sleep(5 * time.Minute)
	os.Exit(1)
}

// again is this program executed again in a role.
func again(t testing.TB, role string, extra ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), extra...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// command is one without descriptors.
func command(t testing.TB, args ...string) proctree.Command {
	path, err := exec.LookPath(args[0])
	require.NoError(t, err)
	return proctree.Command{Path: path, Args: args, Env: os.Environ(), Files: []*os.File{nil, nil, nil}}
}

func start(t testing.TB, args ...string) *proctree.Tree {
	tree, err := proctree.Start(command(t, args...))
	require.NoError(t, err)
	return tree
}

// begin starts a scenario and waits until all of it is there. What a failed test leaves is ended.
func begin(t testing.TB, s escape.Scenario) (*proctree.Tree, escape.Scenario) {
	s = s.In(t.TempDir())
	path, args, env := s.Command()
	tree, err := proctree.Start(proctree.Command{Path: path, Args: args, Env: env, Files: []*os.File{nil, nil, os.Stderr}})
	require.NoError(t, err)
	t.Cleanup(s.End)
	require.NoError(t, s.Ready(20*time.Second))
	return tree, s
}

func within(t testing.TB, most time.Duration, done <-chan struct{}, what string) {
	select {
	case <-done:
	case <-time.After(most):
		require.FailNow(t, "too late", "%s after %v", what, most)
	}
}

func gone(t testing.TB, tree *proctree.Tree) {
	within(t, 10*time.Second, tree.Gone(), "not gone")
}

func scenario(t testing.TB, name string) escape.Scenario {
	for _, s := range escape.Scenarios() {
		if s.Name == name {
			return s
		}
	}
	require.FailNow(t, "no scenario "+name)
	return escape.Scenario{}
}

// guardOf returns the number of the guard of a host.
func guardOf(t testing.TB, host int) int {
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(host) + "/task/*/children")
	require.NoError(t, err)
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		for _, child := range strings.Fields(string(text)) {
			name, _ := os.ReadFile("/proc/" + child + "/comm")
			if string(bytes.TrimSpace(name)) == "watchdog-guard" && running(atoi(t, child)) {
				return atoi(t, child)
			}
		}
	}
	require.FailNow(t, "the host has no guard")
	return 0
}

func atoi(t testing.TB, text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	return n
}

// running reports that there is such a process, and no zombie.
func running(pid int) bool { return state(pid) != 0 && state(pid) != 'Z' }

func state(pid int) byte {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	return text[bytes.LastIndexByte(text, ')')+2]
}

func endNow(t testing.TB, tree *proctree.Tree) {
	assert.NoError(t, tree.Kill())
	gone(t, tree)
}

func signalAll(t testing.TB, tree *proctree.Tree, sig syscall.Signal) {
	if _, err := tree.Signal(sig); err != nil {
		assert.ErrorIs(t, err, proctree.ErrEnded)
	}
}
