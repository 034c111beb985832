package artifact_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

func init() {
	children["limited"] = writeAtALimit
	children["small disk"] = writeOnASmallDisk
	children["nobody"] = writeAsNobody
}

// TestFileSizeLimit checks that a file that does not fit is whole or absent. The child may not write files of more
// than 600 bytes. This tears a write as a full disk does, and the limit needs no privileges.
func TestFileSizeLimit(t *testing.T) {
	f := newFixture(t)
	run(t, child(t, "limited", f.base))
	_, err := decode([]byte(f.read(artifact.EventFile)))
	require.NoError(t, err)
	require.Len(t, probes(t, f), 2)
	require.ElementsMatch(t, []string{artifact.EventFile, artifact.ProbeFile}, f.names(), "nothing is left beside them")
}

func writeAtALimit() error {
	d, err := artifact.Open("root", "build")
	if err != nil {
		return err
	}
	probe := artifact.Probe{}
	if err := errors.Join(d.WriteEvent(numbered(0)), d.AppendProbe(probe), d.AppendProbe(probe)); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 600, Max: 600}); err != nil {
		return err
	}
	return errors.Join(
		mustFail(d.WriteEvent(numbered(1)), syscall.EFBIG, artifact.EventFile),
		mustFail(d.WriteTail(make([]byte, 1000)), syscall.EFBIG, artifact.TailFile),
		mustFail(d.AppendProbe(artifact.Probe{Summary: strings.Repeat("y", 1000)}), syscall.EFBIG, artifact.ProbeFile),
	)
}

func TestFullDisk(t *testing.T) {
	f := newFixture(t)
	cmd := child(t, "small disk", f.base)
	cmd.SysProcAttr = &syscall.SysProcAttr{ // so that only the child sees its mount, which ends with it
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	run(t, cmd)
}

func writeOnASmallDisk() error {
	if err := os.Mkdir("root", 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", "root", "tmpfs", 0, "size=64k"); err != nil {
		return skipError(err)
	}
	d, err := artifact.Open("root", "build")
	if err != nil {
		return err
	}
	if err := errors.Join(d.WriteEvent(numbered(0)), d.AppendProbe(artifact.Probe{})); err != nil {
		return err
	}
	fill(filepath.Join("root", "ballast"))
	folder := filepath.Join("root", "build", artifact.Folder)
	err = errors.Join(
		mustFail(d.WriteEvent(numbered(1)), syscall.ENOSPC, artifact.EventFile),
		mustFail(d.WriteTail(make([]byte, 10_000)), syscall.ENOSPC, artifact.TailFile),
		mustFail(d.AppendProbe(artifact.Probe{Summary: strings.Repeat("y", 10_000)}), syscall.ENOSPC, artifact.ProbeFile),
	)
	text, readErr := os.ReadFile(filepath.Join(folder, artifact.EventFile))
	_, decodeErr := decode(text)
	lines, linesErr := os.ReadFile(filepath.Join(folder, artifact.ProbeFile))
	if !strings.HasSuffix(string(lines), "}\n") || strings.Count(string(lines), "\n") != 1 {
		linesErr = fmt.Errorf("probe.jsonl is %d bytes and not one line", len(lines))
	}
	left, leftErr := os.ReadDir(folder)
	if len(left) != 2 {
		leftErr = fmt.Errorf("there are %v, not two files", left)
	}
	removeErr := os.Remove(filepath.Join("root", "ballast"))
	if err := errors.Join(err, readErr, decodeErr, linesErr, leftErr, removeErr); err != nil {
		return err
	}
	return d.WriteEvent(numbered(2)) // there is room again
}

// fill fills the disk.
func fill(name string) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	_ = f.Close()
}

func TestReadOnlyFolder(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, os.MkdirAll(f.path(""), 0o755))
	for _, folder := range []string{filepath.Dir(f.base), f.base, f.root, filepath.Join(f.root, "build")} {
		require.NoError(t, os.Chmod(folder, 0o755))
	}
	require.NoError(t, os.Chmod(f.path(""), 0o555))
	t.Cleanup(func() { require.NoError(t, os.Chmod(f.path(""), 0o700)) }) // so that it can be removed
	before := snapshot(t, f.base)
	run(t, child(t, "nobody", f.base))
	require.Equal(t, before, snapshot(t, f.base))
}

// writeAsNobody gives up the privileges of root, who may write everywhere.
func writeAsNobody() error {
	if os.Getuid() == 0 {
		if err := syscall.Setuid(65534); err != nil {
			return skipError(err)
		}
	}
	d, err := artifact.Open("root", "build")
	if err != nil {
		return err
	}
	for name, err := range writeAll(d) {
		if err := mustFail(err, syscall.EACCES, name); err != nil {
			return err
		}
	}
	return d.Close()
}

// mustFail checks that a write failed with the system's error, and that the error names the file.
func mustFail(err error, with syscall.Errno, name string) error {
	if errors.Is(err, with) {
		if text := err.Error(); strings.Contains(text, "write stall artifact ") && strings.Contains(text, name) {
			return nil
		}
	}
	return fmt.Errorf("write %s: want an error that names it and wraps %q, got: %w", name, with.Error(), err)
}

const skip = "skipped: "

// skipError is the error of a child that may not do what the test needs.
func skipError(err error) error { return fmt.Errorf(skip+"%w", err) }

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	said, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(said), skip) {
		t.Skipf("not allowed here: %v %s", err, said)
	}
	require.NoError(t, err, string(said))
}
