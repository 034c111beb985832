//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/delay"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

const folderVariable = "PROCTREE_TEST_FOLDER"

// shapes are the scenarios that are quick to start.
func shapes() (all []escape.Scenario) {
	for _, s := range escape.Scenarios() {
		if s.Processes <= 100 {
			all = append(all, s)
		}
	}
	return all
}

// openFolder returns a folder that every user can write to.
func openFolder(t *testing.T) string {
	folder, err := os.MkdirTemp("", "hosts") //nolint:usetesting // only its owner can reach t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	require.NoError(t, os.Chmod(folder, 0o777))
	return folder
}

// beginIn starts a scenario whose registry is in the folder of folderVariable, and waits until all its processes run.
func beginIn(s escape.Scenario) (*proctree.Tree, escape.Scenario, error) {
	os.Unsetenv(roleVariable)
	s = s.In(os.Getenv(folderVariable))
	path, args, env := s.Command()
	tree, err := proctree.Start(proctree.Command{Path: path, Args: args, Env: env, Dir: "/"})
	if err == nil {
		err = s.Ready(late)
	}
	return tree, s, err
}

// A runningHost is a host that has started commands, and said so.
type runningHost struct {
	cmd    *exec.Cmd
	folder string   // of the registries
	tokens []string // of the commands
	guards []int
}

// startHost starts a host that prints the tokens of its commands when they run.
func startHost(t *testing.T, cmd *exec.Cmd) *runningHost {
	h := &runningHost{cmd: cmd, folder: openFolder(t)}
	cmd.Env = append(cmd.Env, folderVariable+"="+h.folder)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Scan()
	h.tokens = strings.Fields(lines.Text())
	require.NotEmpty(t, h.tokens, "the host has started its commands")
	h.guards = guardsOf(cmd.Process.Pid)
	t.Cleanup(func() {
		for _, p := range h.alive() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	})
	return h
}

// alive returns what is alive of the commands.
func (h *runningHost) alive() (all []escape.Process) {
	for _, token := range h.tokens {
		all = append(all, escape.Alive(filepath.Join(h.folder, "registry-"+token))...)
	}
	return append(all, escape.WithToken(h.tokens...)...)
}

// kill kills the host and checks that nothing of its commands survives, and that its guards end.
func (h *runningHost) kill(t *testing.T) {
	require.NotEmpty(t, h.alive(), "the commands run")
	require.NoError(t, h.cmd.Process.Kill())
	_ = h.cmd.Wait()
	assert.Eventually(t, func() bool { return len(h.alive()) == 0 }, late, 5*time.Millisecond)
	for _, guard := range h.guards {
		assert.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond, "the guard ends")
	}
	assert.Empty(t, h.alive(), "nothing came back")
}

// hostShapes is a host that starts all shapes, prints their tokens, and waits to be killed.
func hostShapes() int {
	tokens, err := beginShapes()
	if err != nil {
		return failed(err)
	}
	fmt.Println(strings.Join(tokens, " "))
	time.Sleep(5 * time.Minute)
	return 1
}

// beginShapes starts all shapes and returns their tokens.
func beginShapes() (tokens []string, err error) {
	for _, s := range shapes() {
		_, s, err := beginIn(s)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, s.Token())
	}
	return tokens, nil
}

// endShapes is a host that starts all shapes and kills each. It prints its real and its effective user ID.
func endShapes() int {
	if err := killShapes(); err != nil {
		return failed(err)
	}
	fmt.Println(os.Getuid(), os.Geteuid())
	return 0
}

// killShapes starts all shapes and kills each. It returns an error if anything survives.
func killShapes() error {
	for _, s := range shapes() {
		tree, s, err := beginIn(s)
		if err == nil {
			err = errors.Join(tree.Kill(), waitFor(tree.Gone()), tree.Err())
		}
		if left := s.Survivors(); err == nil && len(left) > 0 {
			err = fmt.Errorf("alive: %v", left)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// TestSetuid checks the commands of a set-user-ID host that another user runs.
func TestSetuid(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a set-user-ID program of another user")
	}
	t.Parallel()
	for _, owner := range []int{0, nobody - 1} {
		self := forEveryone(t, 0o755)
		require.NoError(t, os.Chown(self, owner, owner))
		require.NoError(t, os.Chmod(self, 0o755|os.ModeSetuid))
		host := func(role string) *exec.Cmd {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), roleVariable+"="+role, quickExit)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			return cmd
		}
		t.Run(fmt.Sprintf("of user %d, which kills them", owner), func(t *testing.T) {
			t.Parallel()
			cmd := host("end shapes")
			cmd.Env = append(cmd.Env, folderVariable+"="+openFolder(t))
			text, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", text)
			users := strings.TrimSpace(string(text))
			if users == fmt.Sprint(nobody, nobody) {
				t.Skip("the folder for temporary files is mounted with nosuid")
			}
			assert.Equal(t, fmt.Sprint(nobody, owner), users)
		})
		t.Run(fmt.Sprintf("of user %d, which is killed", owner), func(t *testing.T) {
			t.Parallel()
			startHost(t, host("all shapes")).kill(t)
		})
	}
}

// beTwoUsers starts all shapes from a thread that is root and from one that is not, prints their tokens, and waits to
// be killed.
func beTwoUsers() int {
	results := make(chan error)
	var tokens []string
	for _, drop := range []bool{false, true} {
		go func() {
			runtime.LockOSThread()
			if drop {
				if err := changes["drops root for a thread"](); err != nil {
					results <- err
					return
				}
			}
			begun, err := beginShapes()
			tokens = append(tokens, begun...)
			results <- err
			select {} // the parent of the guard is this thread, until it is the guard
		}()
		if err := <-results; err != nil {
			return failed(err)
		}
	}
	fmt.Println(strings.Join(tokens, " "))
	time.Sleep(5 * time.Minute)
	return 1
}

// TestTwoUsers checks that nothing survives of the commands of two guards with different privileges when their host is
// killed.
func TestTwoUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can have guards of two users")
	}
	t.Parallel()
	self := forEveryone(t, 0o755)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=two users", quickExit)
	host := startHost(t, cmd)
	users := map[uint32]bool{}
	for _, guard := range host.guards {
		info, err := os.Stat("/proc/" + strconv.Itoa(guard))
		require.NoError(t, err)
		users[info.Sys().(*syscall.Stat_t).Uid] = true
	}
	assert.Equal(t, map[uint32]bool{0: true, nobody: true}, users, "a guard for each")
	host.kill(t)
}

// TestHostKilledEarly checks that a guard that has not come to main when its host is killed ends, too.
func TestHostKilledEarly(t *testing.T) {
	t.Parallel()
	host := startHostOf(t, "slow guard", command(t, "true"), os.Stdout)
	guard := 0
	require.Eventually(t, func() bool { guard = startingGuardOf(host.Process.Pid); return guard != 0 },
		late, time.Millisecond)
	t.Cleanup(func() { _ = syscall.Kill(guard, syscall.SIGKILL) })
	require.NoError(t, host.Process.Kill())
	assert.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond)
}

// startSlowGuard is a host whose guard hangs in an initializer of the program.
func startSlowGuard() int {
	if err := os.Setenv(delay.Variable, "1h"); err != nil {
		return failed(err)
	}
	runHost()
	return 1
}

// startingGuardOf returns the PID of a child of the host that has executed the program to become the guard.
func startingGuardOf(host int) int {
	for _, child := range allChildrenOf(host) {
		args, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/cmdline")
		if strings.HasPrefix(string(args), "wdguard\x00") {
			return child
		}
	}
	return 0
}

// TestCapabilities checks that a host whose file has capabilities gets an error: its guard would get them again.
func TestCapabilities(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file capabilities")
	}
	t.Parallel()
	self := forEveryone(t, 0o755)
	// struct vfs_cap_data: version 2, effective; CAP_NET_BIND_SERVICE permitted, none inheritable
	text := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	for _, word := range []uint32{1 << 10, 0, 0, 0} {
		text = binary.LittleEndian.AppendUint32(text, word)
	}
	if err := syscall.Setxattr(self, "security.capability", text, 0); err != nil {
		t.Skipf("cannot give a file capabilities here: %v", err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"=changing", changeVariable+"=nothing", quickExit)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	require.Error(t, err)
	assert.Contains(t, string(out), "has the capabilities 400 of its file; clear them with setcap -r")
}
