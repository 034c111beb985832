//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree_test

import (
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/proctree"
)

// A processInfo is what a process in the print role prints about itself.
type processInfo struct {
	Dir        string
	Umask      int
	Args       []byte // joined by NUL; bytes, because JSON would change invalid UTF-8
	Env        []byte
	Open       []bool // whether descriptors 0 to 19 are open; the program opens some itself
	Group, SID int
	PPID, UID  int
	Fourth     string // what could be read from descriptor 4
}

// printProcess writes what this process is to descriptor 3.
func printProcess() error {
	var s processInfo
	for fd := range 20 {
		var st syscall.Stat_t
		s.Open = append(s.Open, fd < 3 || syscall.Fstat(fd, &st) == nil)
	}
	s.Dir, _ = os.Readlink("/proc/self/cwd")
	s.Umask = syscall.Umask(0)
	s.Args, s.Env = []byte(strings.Join(os.Args, "\x00")), []byte(strings.Join(os.Environ(), "\x00"))
	s.Group, s.PPID, s.UID = syscall.Getpgrp(), os.Getppid(), os.Getuid()
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	s.SID = int(sid)
	if s.Open[4] && len(os.Args) > 1 && os.Args[1] == "read" {
		text, _ := io.ReadAll(os.NewFile(4, ""))
		s.Fourth = string(text)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = os.NewFile(3, "answer").Write(text)
	return err
}

// runPrint starts this program in the print role and returns what it prints, and its PID.
func runPrint(t *testing.T, change func(*proctree.Command)) (processInfo, int) {
	answer, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer answer.Close()
	c := proctree.Command{
		Path: self, Args: []string{"print"}, Env: append(os.Environ(), roleVariable+"=print"),
		Files: []*os.File{nil, nil, nil, theirs},
	}
	change(&c)
	tree := startCommand(t, c)
	theirs.Close()
	text, err := io.ReadAll(answer)
	require.NoError(t, err)
	gone(t, tree)
	require.Equal(t, 0, tree.Status().ExitCode)
	var s processInfo
	require.NoError(t, json.Unmarshal(text, &s))
	return s, tree.PID()
}

func TestDir(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	other, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(other, "below"), 0o700))
	workingDir := func(dir string) string {
		s, _ := runPrint(t, func(c *proctree.Command) { c.Dir = dir })
		withAttr, _ := runPrint(t, func(c *proctree.Command) { c.Dir, c.Attr = dir, &syscall.SysProcAttr{Setsid: true} })
		assert.Equal(t, s.Dir, withAttr.Dir)
		guards, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", s.PPID))
		require.NoError(t, err)
		assert.Equal(t, "/", guards, "it keeps no folder busy")
		return s.Dir
	}
	assert.Equal(t, here, workingDir(""), "the host's if none is given")
	assert.Equal(t, other, workingDir(other))
	t.Chdir(other)
	assert.Equal(t, other, workingDir(""), "the host's at the start of the command, not of the guard")
	assert.Equal(t, filepath.Join(other, "below"), workingDir("below"), "a relative one starts at the host's")

	removed := filepath.Join(other, "removed")
	require.NoError(t, os.Mkdir(removed, 0o700))
	t.Chdir(removed)
	require.NoError(t, os.Remove(removed))
	assert.Equal(t, removed+" (deleted)", workingDir(""), "the host's directory even if it was removed")

	_, err = proctree.Start(proctree.Command{Path: "/bin/true", Args: []string{"true"}, Dir: "/no/such"})
	var path *os.PathError
	require.ErrorAs(t, err, &path)
	assert.Equal(t, os.PathError{Op: "chdir", Path: "/no/such", Err: syscall.ENOENT}, *path,
		"the error names the directory")
}

func TestInheritance(t *testing.T) {
	t.Run("the umask that the host has at the start", func(t *testing.T) {
		start(t, "true")
		before := syscall.Umask(0o027)
		defer syscall.Umask(before)
		s, _ := runPrint(t, func(*proctree.Command) {})
		assert.Equal(t, 0o027, s.Umask)
	})
	t.Run("arguments and environment with any byte but NUL", func(t *testing.T) {
		odd := "\xff\xfe<&>\"\n\u2028 \x01"
		s, _ := runPrint(t, func(c *proctree.Command) {
			c.Args = []string{odd, "", odd}
			c.Env = []string{roleVariable + "=print", "ODD=" + odd, "EMPTY="}
		})
		assert.Equal(t, odd+"\x00\x00"+odd, string(s.Args))
		assert.Equal(t, roleVariable+"=print\x00ODD="+odd+"\x00EMPTY=", string(s.Env))
	})
	t.Run("an environment of 1 MiB", func(t *testing.T) {
		var env []string
		for i := range 16 {
			env = append(env, fmt.Sprintf("LONG%d=%s", i, strings.Repeat("x", 64<<10)))
		}
		env = append(env, roleVariable+"=print")
		s, _ := runPrint(t, func(c *proctree.Command) { c.Env = env })
		assert.Equal(t, strings.Join(env, "\x00"), string(s.Env))
	})
	t.Run("the descriptors that are given and no others", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "fourth")
		require.NoError(t, os.WriteFile(file, []byte("what is in it"), 0o600))
		fourth, err := os.Open(file)
		require.NoError(t, err)
		defer fourth.Close()
		closed, err := os.Open(file)
		require.NoError(t, err)
		closed.Close()
		given := make([]*os.File, 16) // from 4
		given[0], given[14], given[15] = fourth, fourth, closed
		s, _ := runPrint(t, func(c *proctree.Command) {
			c.Files = append(c.Files, given...)
			c.Args = []string{"print", "read"}
		})
		assert.Equal(t, "what is in it", s.Fourth)
		assert.Equal(t, []bool{false, true, false}, s.Open[17:], "a nil file and a closed file are closed descriptors")
	})
	t.Run("a group of its own", func(t *testing.T) {
		s, pid := runPrint(t, func(*proctree.Command) {})
		assert.Equal(t, pid, s.Group)
		assert.Equal(t, guardOf(t, os.Getpid()), s.PPID)
	})
	t.Run("the host's group", func(t *testing.T) {
		s, _ := runPrint(t, func(c *proctree.Command) { c.SameGroup = true })
		assert.Equal(t, syscall.Getpgrp(), s.Group)
	})
	t.Run("a session of its own", func(t *testing.T) {
		s, pid := runPrint(t, func(c *proctree.Command) { c.Attr = &syscall.SysProcAttr{Setsid: true} })
		assert.Equal(t, []int{pid, pid}, []int{s.SID, s.Group})
	})
	t.Run("another user", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can become another user")
		}
		tree := startCommand(t, proctree.Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Dir: "/",
			Attr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}})
		info, err := os.Stat(fmt.Sprintf("/proc/%d", tree.PID()))
		require.NoError(t, err)
		assert.EqualValues(t, 65534, info.Sys().(*syscall.Stat_t).Uid)
		endNow(t, tree)
	})
}

func TestStatus(t *testing.T) {
	t.Run("an exit status", func(t *testing.T) {
		tree := start(t, "sh", "-c", "exit 7")
		gone(t, tree)
		assert.Equal(t, 7, tree.Status().ExitCode)
		assert.Zero(t, tree.Status().Signal)
		assert.Equal(t, "exit status 7", tree.Status().State.String())
		assert.Equal(t, tree.PID(), tree.Status().State.Pid())
	})
	t.Run("a signal", func(t *testing.T) {
		tree := start(t, "sleep", "1000")
		assert.Equal(t, -1, tree.Status().ExitCode)
		assert.Nil(t, tree.Status().State, "it has not ended")
		reaches(t, tree, syscall.SIGUSR1, 1)
		gone(t, tree)
		assert.Equal(t, -1, tree.Status().ExitCode)
		assert.Equal(t, syscall.SIGUSR1, tree.Status().Signal)
		_, err := tree.Signal(syscall.SIGTERM)
		assert.ErrorIs(t, err, proctree.ErrEnded)
		assert.NoError(t, tree.Kill())
	})
	t.Run("the used time and memory", func(t *testing.T) {
		tree := start(t, "sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done")
		gone(t, tree)
		assert.Positive(t, tree.Status().User+tree.Status().System)
		assert.Greater(t, tree.Status().MaxRSS, int64(100<<10), "in bytes")
	})
}

// TestRefusals compares the errors with those of package os.
func TestRefusals(t *testing.T) {
	folder := t.TempDir()
	plain, empty := filepath.Join(folder, "plain"), filepath.Join(folder, "empty")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/true\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, []byte("\x00\x00"), 0o700))
	long := []string{"LONG=" + strings.Repeat("x", 3<<20)}
	for name, c := range map[string]struct {
		path string
		env  []string
		want syscall.Errno
	}{
		"no such program":    {"/no/such", nil, syscall.ENOENT},
		"not executable":     {plain, nil, syscall.EACCES},
		"not a program":      {empty, nil, syscall.ENOEXEC},
		"too long":           {"/bin/true", long, syscall.E2BIG},
		"a NUL in it":        {"/bin/true", []string{"A=\x00"}, syscall.EINVAL},
		"a folder":           {folder, nil, syscall.EACCES},
		"below a plain file": {plain + "/x", nil, syscall.ENOTDIR},
	} {
		t.Run(name, func(t *testing.T) {
			_, theirs := os.StartProcess(c.path, []string{"x"}, &os.ProcAttr{Env: c.env})
			tree, ours := proctree.Start(proctree.Command{Path: c.path, Args: []string{"x"}, Env: c.env})
			assert.Nil(t, tree)
			assert.Equal(t, &os.PathError{Op: "fork/exec", Path: c.path, Err: c.want}, ours)
			assert.Equal(t, theirs, ours)
			assert.NotErrorIs(t, ours, proctree.ErrGuard)
		})
	}
}

func TestUnsupported(t *testing.T) {
	fd := 0
	for name, attr := range map[string]*syscall.SysProcAttr{
		"Pgid": {Pgid: 1}, "Foreground": {Foreground: true}, "Ptrace": {Ptrace: true}, "PidFD": {PidFD: &fd},
		"UseCgroupFD": {UseCgroupFD: true}, "Chroot": {Chroot: "/"},
	} {
		_, err := proctree.Start(proctree.Command{Path: "/bin/true", Args: []string{"true"}, Attr: attr})
		require.ErrorIs(t, err, proctree.ErrUnsupported)
		assert.ErrorContains(t, err, "SysProcAttr."+name)
	}
	_, err := proctree.Start(proctree.Command{Path: "/bin/true", Args: []string{"true"}, Files: make([]*os.File, 251)})
	assert.ErrorIs(t, err, proctree.ErrUnsupported)
}

func TestChroot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change its root")
	}
	path, err := exec.LookPath("true")
	require.NoError(t, err)
	_, err = proctree.Start(proctree.Command{
		Path: path, Args: []string{"true"}, Dir: "/", Attr: &syscall.SysProcAttr{Chroot: t.TempDir()},
	})
	assert.ErrorIs(t, err, syscall.ENOENT, "the path is below the new root")
}

// BenchmarkKill measures the time from the kill until all processes are gone. It compares with killing a process group
// and waiting for its leader, which does not prove that the others are gone.
func BenchmarkKill(b *testing.B) {
	for _, size := range []int{1, 200} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.Run("group", func(b *testing.B) { measure(b, size, startGroup) })
			b.Run("group until gone", func(b *testing.B) { measure(b, size, startGroupProven) })
			b.Run("tree", func(b *testing.B) { measure(b, size, startTree) })
		})
	}
}

func measure(b *testing.B, size int, start func(*testing.B, escape.Scenario) func()) {
	b.Helper()
	folder := b.TempDir()
	var took time.Duration
	for range b.N {
		s := escape.Crowd(size - 1).In(folder)
		end := start(b, s)
		require.NoError(b, s.Ready(late))
		time.Sleep(5 * time.Millisecond) // let the new processes settle
		began := time.Now()
		end()
		took += time.Since(began)
		s.End()
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/kill")
}

func startGroup(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	path, args, env := s.Command()
	cmd := &exec.Cmd{Path: path, Args: args, Env: env, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	require.NoError(b, cmd.Start())
	return func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
}

// startGroupProven also polls, at short intervals, until the others are gone.
func startGroupProven(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	end := startGroup(b, s)
	return func() {
		end()
		for len(escape.Alive(s.Registry())) > 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

func startTree(b *testing.B, s escape.Scenario) func() {
	b.Helper()
	path, args, env := s.Command()
	tree := startCommand(b, proctree.Command{Path: path, Args: args, Env: env})
	return func() {
		_ = tree.Kill()
		<-tree.Gone()
	}
}
