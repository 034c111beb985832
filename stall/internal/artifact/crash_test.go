package artifact_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// writeForever is a child that writes all files again and again, and prints a dot each time, until it is killed.
func writeForever() error {
	d, err := artifact.Open("root", "build")
	for i := 0; err == nil; i++ {
		probe := artifact.Probe{Same: i, Summary: strings.Repeat("y", 3000)}
		err = errors.Join(d.WriteEvent(numbered(i)), d.WriteTail(make([]byte, 1<<20)), d.AppendProbe(probe))
		fmt.Print(".")
	}
	return err
}

// TestCrash checks that a process that is killed at any moment leaves a whole event or none, and that the next Open
// removes its temporary files.
func TestCrash(t *testing.T) {
	f, leftovers := newFixture(t), 0
	for kills := 0; kills < 20 || leftovers == 0; kills++ {
		require.Less(t, kills, 1000, "no kill left a temporary file: this test shows nothing")
		killAtRandom(t, f)
		leftovers += countLeftovers(t, f)
		_, err := decode([]byte(f.read(artifact.EventFile))) // the child printed a dot after the first event
		require.NoError(t, err)
		if tail, err := os.ReadFile(f.path(artifact.TailFile)); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
			require.Len(t, tail, 1<<20)
		}
		d := f.open("build")
		require.Zero(t, countLeftovers(t, f))
		require.NoError(t, d.AppendProbe(artifact.Probe{}))
		probes(t, f)
		require.NoError(t, os.RemoveAll(f.root))
	}
	t.Logf("the kills left %d temporary files", leftovers)
}

// killAtRandom kills a writer at some moment in its first writes.
func killAtRandom(t *testing.T, f *fixture) {
	t.Helper()
	cmd := child(t, "writer", f.base)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReaderSize(out, 16).Discard(1 + rand.IntN(4))
	for range rand.IntN(50_000) { // a random time
		runtime.Gosched()
	}
	killed := cmd.Process.Kill()
	waited := cmd.Wait()
	require.NoError(t, errors.Join(err, killed), said.String())
	var exit *exec.ExitError
	require.ErrorAs(t, waited, &exit)
	require.False(t, exit.Exited() && exit.ExitCode() == 1, "it was killed and did not fail: %s", said.String())
}

func countLeftovers(t *testing.T, f *fixture) int {
	t.Helper()
	entries, err := os.ReadDir(f.path(""))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	n := 0
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			n++
		}
	}
	return n
}
