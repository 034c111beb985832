//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/delay"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/racing"
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
func hostShapes() error {
	tokens, err := beginShapes()
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(tokens, " "))
	time.Sleep(5 * time.Minute)
	return nil
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
func endShapes() error {
	if err := killShapes(); err != nil {
		return err
	}
	fmt.Println(os.Getuid(), os.Geteuid())
	return nil
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
		program := forEveryone(t, 0o755)
		require.NoError(t, os.Chown(program, owner, owner))
		require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))
		host := func(role string) *exec.Cmd {
			cmd := again(program, role)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			return cmd
		}
		t.Run(fmt.Sprintf("of user %d, which kills them", owner), func(t *testing.T) {
			t.Parallel()
			cmd := host("end shapes")
			cmd.Env = append(cmd.Env, folderVariable+"="+openFolder(t))
			users := outputOf(t, cmd)
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

// beTwoUsers starts a crowd from a thread that is root and from one that is not, prints their tokens, and waits to
// be killed.
func beTwoUsers() error {
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
			_, s, err := beginIn(escape.Crowd(3))
			tokens = append(tokens, s.Token())
			results <- err
			select {} // the parent of the guard is this thread, until it is the guard
		}()
		if err := <-results; err != nil {
			return err
		}
	}
	fmt.Println(strings.Join(tokens, " "))
	time.Sleep(5 * time.Minute)
	return nil
}

// TestTwoUsers checks that nothing survives of the commands of two guards with different privileges when their host is
// killed.
func TestTwoUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can have guards of two users")
	}
	t.Parallel()
	host := startHost(t, again(forEveryone(t, 0o755), "two users"))
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
	require.Eventually(t, func() bool { guard = startingGuardOf(host.Pid); return guard != 0 },
		late, time.Millisecond)
	t.Cleanup(func() { _ = syscall.Kill(guard, syscall.SIGKILL) })
	require.NoError(t, host.Kill())
	assert.Eventually(t, func() bool { return !running(guard) }, late, time.Millisecond)
}

// startSlowGuard is a host whose guard hangs in an initializer of the program.
func startSlowGuard() error {
	if err := os.Setenv(delay.Variable, "1h"); err != nil {
		return err
	}
	return runHost()
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
	program := forEveryone(t, 0o755)
	// struct vfs_cap_data: version 2, effective; CAP_NET_BIND_SERVICE permitted, none inheritable
	text := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	for _, word := range []uint32{1 << 10, 0, 0, 0} {
		text = binary.LittleEndian.AppendUint32(text, word)
	}
	if err := syscall.Setxattr(program, "security.capability", text, 0); err != nil {
		t.Skipf("cannot give a file capabilities here: %v", err)
	}
	cmd := again(program, "changing", changeVariable+"=nothing")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	require.Error(t, err)
	assert.Contains(t, string(out), "has the capabilities 400 of its file; clear them with setcap -r")
}

const placeVariable = "PROCTREE_TEST_PLACE"

// TestProc checks that commands start only where /proc shows their processes.
func TestProc(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make the places")
	}
	t.Parallel()
	const (
		newPID = syscall.CLONE_NEWPID
		newNS  = syscall.CLONE_NEWNS
	)
	for _, test := range []struct {
		place string
		flags uintptr
		want  string // part of the error; empty if the command starts
	}{
		{"as it is", 0, ""},
		{"as it is", newPID, "/proc belongs to another PID namespace"},
		{"proc", newPID | newNS, ""},
		{"proc", newNS, ""},
		{"no proc", newNS, "mount -t proc none /proc"},
		{"chroot", 0, "after a chroot inside of the new root"},
		{"unshare", 0, "the host has called unshare"},
		{"proc of a namespace that ended", newNS, "/proc"},
		{"hidepid=1 root", newNS, ""},
		{"hidepid=2 root", newNS, ""},
		{"hidepid=1", newNS, "hidepid"},
		{"hidepid=2", newNS, "remount it with mount -o remount,hidepid=0 /proc"},
		{"hidepid=2,gid=65534", newNS, ""},
		{"hidepid=4", newNS, "hidepid"},
		{"hidepid=0", newNS, ""},
		{"hidepid=2", newPID | newNS, "hidepid"}, // what the host sees there it owns
	} {
		t.Run(fmt.Sprintf("%s, flags %x", test.place, test.flags), func(t *testing.T) {
			t.Parallel()
			cmd := again(self, "place", placeVariable+"="+test.place, folderVariable+"="+t.TempDir())
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: test.flags}
			var out bytes.Buffer
			cmd.Stdout = &out
			err := cmd.Run()
			skipIfCannot(t, err)
			require.NoError(t, err, "%s", &out)
			if test.want == "" {
				assert.Empty(t, out.String())
				return
			}
			assert.Contains(t, out.String(), test.want)
			assert.Contains(t, out.String(), proctree.ErrGuard.Error())
		})
	}
}

// startInPlace goes to a place, runs a command there, and prints the error of its start.
func startInPlace() error {
	runtime.LockOSThread()
	if err := goTo(os.Getenv(placeVariable)); err != nil {
		return fmt.Errorf("%w: %w", errCannotHere, err)
	}
	tree, err := proctree.Start(proctree.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}})
	if err != nil {
		fmt.Println(err)
		return nil
	}
	err = errors.Join(tree.Kill(), waitFor(tree.Gone()))
	if os.Getuid() == 0 { // or it cannot write to the folder; it may be the first process of its namespace
		err = errors.Join(err, killShapes())
	}
	return err
}

func goTo(place string) error {
	mountProc := func(options string) error {
		return errors.Join(
			syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("proc", "/proc", "proc", 0, options),
		)
	}
	switch {
	case place == "as it is":
		return nil
	case place == "proc":
		return mountProc("")
	case place == "no proc":
		return errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("none", "/proc", "tmpfs", 0, ""))
	case place == "chroot":
		return syscall.Chroot(os.Getenv(folderVariable))
	case place == "unshare":
		return syscall.Unshare(syscall.CLONE_NEWPID)
	case place == "proc of a namespace that ended":
		sh := exec.Command("mount", "-t", "proc", "proc", "/proc")
		sh.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		return errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), sh.Run())
	case strings.HasSuffix(place, " root"):
		return mountProc(strings.TrimSuffix(place, " root"))
	default:
		return errors.Join(mountProc(place), syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
	}
}

const callVariable = "PROCTREE_TEST_CALL"

// startWithRefusedCall is a host that the system refuses a call. It prints the error of its second command: the guard of
// the first was started before.
func startWithRefusedCall() error {
	runtime.LockOSThread()
	number, err := strconv.ParseUint(os.Getenv(callVariable), 10, 32)
	if err = cmp.Or(err, startTrue(), changes["takes no new privileges"](), refuseCall(uint32(number))); err != nil {
		return err
	}
	fmt.Println(startTrue())
	return nil
}

// TestRefusedCall checks that a command starts only where the system allows what ends it.
func TestRefusedCall(t *testing.T) {
	t.Parallel()
	for name, number := range map[string]int{
		"pidfd_open": 434, "pidfd_send_signal": 424, "waitid": syscall.SYS_WAITID,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := runRole(t, self, "refused", callVariable+"="+strconv.Itoa(number))
			assert.Contains(t, text, proctree.ErrGuard.Error()+": the system refuses "+name+", without which")
			assert.Contains(t, text, syscall.EPERM.Error())
		})
	}
	t.Run("a call that is not needed", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "<nil>", runRole(t, self, "refused", callVariable+"="+strconv.Itoa(syscall.SYS_SYSLOG)))
	})
}

// TestLongFile checks that a file of /proc is read to its end, of which a read returns a page at most.
func TestLongFile(t *testing.T) {
	const name = "/proc/kallsyms"
	want, err := os.ReadFile(name)
	if err != nil || len(want) < 64<<10 {
		t.Skipf("no long file of /proc here: %v", err)
	}
	got, err := proctree.ReadFileAt(0, name)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "%d of %d bytes", len(got), len(want))
}

// TestReusedPIDs checks that no signal leaves its tree. It runs in a PID namespace with a few hundred PIDs, which are
// reused again and again while trees get signals.
func TestReusedPIDs(t *testing.T) {
	t.Parallel()
	cmd := again(self, "namespace", folderVariable+"="+t.TempDir())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err := cmd.Run()
	skipIfCannot(t, err)
	require.NoError(t, err)
}

// runNamespace is the first process of a namespace.
func runNamespace() error {
	if err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, ""),
		os.WriteFile("/proc/sys/kernel/pid_max", []byte("400"), 0), // per namespace since Linux 6.14
	); err != nil {
		return fmt.Errorf("%w: %w", errCannotHere, err)
	}
	return reuse()
}

// reuse signals trees whose processes come and go, while canaries, processes outside of them, come and go too.
func reuse() error {
	length, enough := racing.Rounds(500*time.Millisecond, 30*time.Second), racing.Rounds[int64](15, 1000)
	os.Unsetenv(roleVariable)
	var canaries, signals, wraps atomic.Int64
	began := time.Now()
	more := func() bool { // on a busy machine the PIDs take longer to be reused
		took := time.Since(began)
		return took < length || wraps.Load() < enough && took < late
	}
	done := make(chan error)
	const runners, trees = 4, 3
	for range runners {
		go func() { done <- runCanaries(more, &canaries, &wraps) }()
	}
	for range trees {
		go func() { done <- signalTrees(more, &signals) }()
	}
	var err error
	for range runners + trees {
		err = errors.Join(err, <-done)
	}
	fmt.Printf("%d canaries and %d signals; the PIDs wrapped around %d times\n",
		canaries.Load(), signals.Load(), wraps.Load())
	if wraps.Load() < enough {
		err = errors.Join(err, errors.New("the PIDs were not reused"))
	}
	return err
}

// runCanaries runs one canary after the other and returns an error if a signal ended one.
func runCanaries(more func() bool, canaries, wraps *atomic.Int64) error {
	last := 0
	for more() {
		canary := exec.Command("sleep", "0.01")
		if err := canary.Run(); err != nil {
			return fmt.Errorf("a process outside of all trees: %w", err)
		}
		if canary.Process.Pid < last {
			wraps.Add(1)
		}
		last = canary.Process.Pid
		canaries.Add(1)
	}
	return nil
}

func signalTrees(more func() bool, signals *atomic.Int64) error {
	for more() {
		tree, _, err := beginIn(escape.Churn())
		if err != nil {
			return err
		}
		for range 300 {
			if _, err := tree.Signal(syscall.SIGTERM); err != nil {
				return err
			}
			signals.Add(1)
		}
		if err := tree.Kill(); err != nil {
			return err
		}
		<-tree.Gone()
	}
	return nil
}
