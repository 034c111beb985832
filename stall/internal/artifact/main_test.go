package artifact_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// childVariable names the child that this test binary is to be; its folder is the working directory.
const childVariable = "WATCHDOG_ARTIFACT_CHILD"

// children are what the test binary does when it is started again as a process of its own.
var children = map[string]func() error{"writer": writeForEver}

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		if err := children[name](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child prepares the test binary as a process in a folder. The test ends it.
func child(t *testing.T, name, folder string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), childVariable+"="+name)
	return cmd
}

// golden compares a text with a file that a person reads in the diff.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run the test with -update to write %s", path)
}

// A bed is a root folder for artifacts beside a folder that nothing may touch.
type bed struct {
	t                   *testing.T
	base, root, outside string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	base := t.TempDir()
	b := &bed{t: t, base: base, root: filepath.Join(base, "root"), outside: filepath.Join(base, "outside")}
	for _, folder := range []string{"", artifact.Folder, "build", "build/" + artifact.Folder} {
		b.plant(filepath.Join(b.outside, folder))
	}
	return b
}

// plant makes a folder that has every file an artifact could take the place of.
func (b *bed) plant(folder string) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(folder, 0o755))
	for _, name := range files {
		require.NoError(b.t, os.WriteFile(filepath.Join(folder, name), []byte("a canary without a newline"), 0o644))
	}
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, artifact.TempPrefix+"theirs"), []byte("a canary"), 0o644))
}

var files = []string{artifact.EventFile, artifact.ProbeFile, artifact.TailFile, artifact.DecisionFile}

func (b *bed) open(step string) *artifact.Dir {
	b.t.Helper()
	d, err := artifact.Open(b.root, step)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, d.Close()) })
	return d
}

// path is that of a file of the step build.
func (b *bed) path(name string) string {
	return filepath.Join(b.root, "build", artifact.Folder, name)
}

func (b *bed) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	require.NoError(b.t, err)
	return string(text)
}

// names are what is in the step's folder.
func (b *bed) names() []string {
	b.t.Helper()
	entries, err := os.ReadDir(b.path(""))
	require.NoError(b.t, err)
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// see is everything in a folder: names, modes, times, contents and where links go.
func see(t *testing.T, folder string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var text string
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(content)
		case info.Mode()&fs.ModeSymlink != 0:
			text, err = os.Readlink(path)
		}
		seen[path] = fmt.Sprintf("%v %v %s", info.Mode(), info.ModTime(), text)
		return err
	}))
	return seen
}

// unchanged runs a check at the end: that the folder is as it is now.
func unchanged(t *testing.T, folder string) {
	t.Helper()
	before := see(t, folder)
	t.Cleanup(func() { require.Equal(t, before, see(t, folder), "%s was touched", folder) })
}

// writeAll writes every file once and returns the errors by file.
func writeAll(d *artifact.Dir) map[string]error {
	return map[string]error{
		artifact.EventFile:    d.WriteEvent(artifact.Event{}),
		artifact.ProbeFile:    d.AppendProbe(artifact.Probe{}),
		artifact.TailFile:     d.WriteTail([]byte("tail\n")),
		artifact.DecisionFile: d.WriteDecision(artifact.Decision{}),
	}
}
