package artifact_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// TestSymlinkRace checks that a link that comes and goes while files are written is never followed. An os.Root
// refuses a link that leaves its folder. Only the check of what was opened refuses a link that stays inside.
func TestSymlinkRace(t *testing.T) {
	for _, place := range []string{"build", "build/_stall", "build/_stall/probe.jsonl"} {
		for _, where := range []string{"outside", "beside it"} {
			t.Run(place+" to "+where, func(t *testing.T) {
				f := newFixture(t)
				f.populate(f.path(""))
				path := filepath.Join(f.root, place)
				target := filepath.Join(f.outside, place)
				if where == "beside it" {
					target = path + ".other"
					require.NoError(t, os.CopyFS(target+".copy", os.DirFS(f.outside)))
					require.NoError(t, os.Rename(filepath.Join(target+".copy", place), target))
				}
				expectUnchanged(t, f.outside)
				expectUnchanged(t, target)
				relative, err := filepath.Rel(filepath.Dir(path), target)
				require.NoError(t, err)
				f.link(relative, path+".aside")
				writeWhileSwapping(f, path, path+".aside")
			})
		}
	}
}

// TestPipeRace checks that a pipe that comes between the check of a place and its opening does not block a write.
func TestPipeRace(t *testing.T) {
	for _, place := range []string{"build", "build/_stall", "build/_stall/probe.jsonl"} {
		t.Run(place, func(t *testing.T) {
			f := newFixture(t)
			f.populate(f.path(""))
			aside := filepath.Join(f.root, place+".aside")
			require.NoError(t, syscall.Mkfifo(aside, 0o600))
			writeWhileSwapping(f, filepath.Join(f.root, place), aside)
		})
	}
}

// writeWhileSwapping writes while two names are swapped again and again. The writes may succeed or fail.
func writeWhileSwapping(f *fixture, place, aside string) {
	f.t.Helper()
	d := f.open("build")
	swap(f.t, place, aside)
	swap(f.t, place, aside)
	stop := make(chan struct{})
	var racer sync.WaitGroup
	racer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = renameSwap(place, aside)
			}
		}
	})
	met := 0
	for i := 0; i < 500 || met < 3 && i < 20_000; i++ {
		err := d.AppendProbe(artifact.Probe{})
		if i%100 == 0 {
			err = d.WriteTail([]byte("tail"))
		}
		if err != nil && !strings.Contains(err.Error(), "; remove it") { // noticed after the check of the place, not at it
			met++
		}
	}
	f.t.Logf("they were swapped %d times between a check and an opening", met)
	close(stop)
	racer.Wait()
}

// swap swaps two names in one step, or skips the test if that is not possible.
func swap(t *testing.T, from, to string) {
	t.Helper()
	if err := renameSwap(from, to); err != nil {
		t.Skipf("names cannot be swapped here: %v", err)
	}
}

func renameSwap(oldName, newName string) error {
	renameat2 := map[string]uintptr{"amd64": 316, "arm64": 276, "riscv64": 276, "loong64": 276}
	call, known := renameat2[runtime.GOARCH]
	if !known {
		return syscall.ENOSYS
	}
	from, err := syscall.BytePtrFromString(oldName)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(newName)
	if err != nil {
		return err
	}
	const here, swapped = -100, 2 // AT_FDCWD, RENAME_EXCHANGE
	cwd := here
	_, _, errno := syscall.Syscall6(call,
		uintptr(cwd), uintptr(unsafe.Pointer(from)), uintptr(cwd), uintptr(unsafe.Pointer(to)), swapped, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func init() { children["limited"] = writeAtALimit }

// TestFileSizeLimit checks that a file that does not fit is whole or absent. The child may not write files of more
// than 600 bytes. This tears a write as a full disk does, and the limit needs no privileges.
func TestFileSizeLimit(t *testing.T) {
	f := newFixture(t)
	said, err := child(t, "limited", f.base).CombinedOutput()
	require.NoError(t, err, string(said))
	_, err = decode([]byte(f.read(artifact.EventFile)))
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

// mustFail checks that a write failed with the system's error, and that the error names the file.
func mustFail(err error, with syscall.Errno, name string) error {
	if errors.Is(err, with) {
		if text := err.Error(); strings.Contains(text, "write stall artifact ") && strings.Contains(text, name) {
			return nil
		}
	}
	return fmt.Errorf("write %s: want an error that names it and wraps %q, got: %w", name, with.Error(), err)
}
