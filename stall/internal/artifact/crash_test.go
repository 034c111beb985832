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

// writeForEver is a child that writes and says so after each time, until it is killed.
func writeForEver() error {
	d, err := artifact.Open("root", "build")
	for i := 0; err == nil; i++ {
		err = errors.Join(d.WriteEvent(numbered(i)), d.WriteTail(make([]byte, 1<<20)), d.AppendProbe(artifact.Probe{Same: i, Summary: strings.Repeat("y", 3000)}))
		fmt.Print(".")
	}
	return err
}

// A process that is killed at any moment leaves a whole event or none, and what it had under way is gone once somebody opens the folder again.
func TestAProcessThatIsKilledLeavesNothingHalf(t *testing.T) {
	b, leftovers := newBed(t), 0
	for kills := 0; kills < 50 || leftovers == 0; kills++ {
		require.Less(t, kills, 1000, "no kill came between a file and its name: this test shows nothing")
		killAtRandom(t, b)
		leftovers += countLeftovers(t, b)
		_, err := decode([]byte(b.read(artifact.EventFile))) // the first was written before the child said so
		require.NoError(t, err)
		if tail, err := os.ReadFile(b.path(artifact.TailFile)); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
			require.Len(t, tail, 1<<20)
		}
		d := b.open("build")
		require.Zero(t, countLeftovers(t, b))
		require.NoError(t, d.AppendProbe(artifact.Probe{}))
		probes(t, b)
		require.NoError(t, os.RemoveAll(b.root))
	}
	t.Logf("%d kills came between a file and its name", leftovers)
}

// killAtRandom kills a writer somewhere in its first writes.
func killAtRandom(t *testing.T, b *bed) {
	t.Helper()
	cmd := child(t, "writer", b.base)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReaderSize(out, 16).Discard(1 + rand.IntN(4))
	for range rand.IntN(50_000) { // the phase in which it dies
		runtime.Gosched()
	}
	killed := cmd.Process.Kill()
	waited := cmd.Wait()
	require.NoError(t, errors.Join(err, killed), said.String())
	var exit *exec.ExitError
	require.ErrorAs(t, waited, &exit)
	require.False(t, exit.Exited() && exit.ExitCode() == 1, "it was killed and did not fail: %s", said.String())
}

func countLeftovers(t *testing.T, b *bed) int {
	t.Helper()
	entries, err := os.ReadDir(b.path(""))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	n := 0
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), artifact.TempPrefix) {
			n++
		}
	}
	return n
}
