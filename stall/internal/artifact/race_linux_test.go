package artifact_test

import (
	"os"
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

// TestPipe checks that a pipe in the place of a file does not block a write.
func TestPipe(t *testing.T) {
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			d := f.open("build")
			require.NoError(t, os.MkdirAll(f.path(""), 0o700))
			require.NoError(t, syscall.Mkfifo(f.path(name), 0o600))
			require.ErrorIs(t, writeAll(d)[name], artifact.ErrInTheWay)
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
