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

// A link that comes and goes while files are written leads nowhere at any moment. One that leaves the folder it is in a Root refuses by itself; one to
// something beside it only the look at what was opened does.
func TestALinkThatComesAndGoesIsNotFollowed(t *testing.T) {
	for _, place := range []string{"build", "build/_stall", "build/_stall/probe.jsonl"} {
		for _, where := range []string{"outside", "beside it"} {
			t.Run(place+" to "+where, func(t *testing.T) {
				b := newBed(t)
				b.plant(b.path(""))
				path := filepath.Join(b.root, place)
				target := filepath.Join(b.outside, place)
				if where == "beside it" {
					target = path + ".other"
					require.NoError(t, os.CopyFS(target+".copy", os.DirFS(b.outside)))
					require.NoError(t, os.Rename(filepath.Join(target+".copy", place), target))
				}
				unchanged(t, b.outside)
				unchanged(t, target)
				relative, err := filepath.Rel(filepath.Dir(path), target)
				require.NoError(t, err)
				b.link(relative, path+".aside")
				writeWhile(b, path, path+".aside")
			})
		}
	}
}

// A pipe that comes between the look at a place and its opening has nobody at its other end to wait for.
func TestAPipeThatComesAndGoesDoesNotHang(t *testing.T) {
	for _, place := range []string{"build", "build/_stall", "build/_stall/probe.jsonl"} {
		t.Run(place, func(t *testing.T) {
			b := newBed(t)
			b.plant(b.path(""))
			aside := filepath.Join(b.root, place+".aside")
			require.NoError(t, syscall.Mkfifo(aside, 0o600))
			writeWhile(b, filepath.Join(b.root, place), aside)
		})
	}
}

func TestAPipeInTheWayDoesNotHang(t *testing.T) {
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			d := b.open("build")
			require.NoError(t, os.MkdirAll(b.path(""), 0o700))
			require.NoError(t, syscall.Mkfifo(b.path(name), 0o600))
			require.ErrorIs(t, writeAll(d)[name], artifact.ErrInTheWay)
		})
	}
}

// writeWhile writes while two names change places again and again. The writes may fail, and may go well.
func writeWhile(b *bed, place, aside string) {
	b.t.Helper()
	d := b.open("build")
	exchange(b.t, place, aside)
	exchange(b.t, place, aside)
	stop := make(chan struct{})
	var racer sync.WaitGroup
	racer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = renameExchange(place, aside)
			}
		}
	})
	met := 0
	for i := 0; i < 500 || met < 3 && i < 20_000; i++ {
		err := d.AppendProbe(artifact.Probe{})
		if i%100 == 0 {
			err = d.WriteTail([]byte("tail"))
		}
		if err != nil && !strings.Contains(err.Error(), "; remove it") { // not seen at the look, but after it
			met++
		}
	}
	b.t.Logf("they changed places %d times between a look and an opening", met)
	close(stop)
	racer.Wait()
}

// exchange lets two names change places, or skips the test where that cannot be done at once.
func exchange(t *testing.T, a, b string) {
	t.Helper()
	if err := renameExchange(a, b); err != nil {
		t.Skipf("names cannot change places here: %v", err)
	}
}

func renameExchange(a, b string) error {
	call, known := map[string]uintptr{"amd64": 316, "arm64": 276, "riscv64": 276, "loong64": 276}[runtime.GOARCH] // renameat2
	if !known {
		return syscall.ENOSYS
	}
	from, err := syscall.BytePtrFromString(a)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(b)
	if err != nil {
		return err
	}
	const here, swapped = -100, 2 // AT_FDCWD, RENAME_EXCHANGE
	cwd := here
	_, _, errno := syscall.Syscall6(call, uintptr(cwd), uintptr(unsafe.Pointer(from)), uintptr(cwd), uintptr(unsafe.Pointer(to)), swapped, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
