package artifact_test

import (
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

// childVariable is the name of the child that this process of the test binary is. The child works in its working
// directory.
const childVariable = "WATCHDOG_ARTIFACT_CHILD"

// children are what the test binary does if it is started as a child.
var children = map[string]func() error{"writer": writeForever}

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

// child returns the test binary as a child in a folder. The end of the test ends it.
func child(t *testing.T, name, folder string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), childVariable+"="+name)
	return cmd
}

// tempPrefix is the prefix of temporary files.
const tempPrefix = ".watchdog-"

// A fixture is a root folder for artifacts, beside a folder that must not change.
type fixture struct {
	t                   *testing.T
	base, root, outside string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	base := t.TempDir()
	f := &fixture{t: t, base: base, root: filepath.Join(base, "root"), outside: filepath.Join(base, "outside")}
	for _, folder := range []string{"", artifact.Folder, "build", "build/" + artifact.Folder} {
		f.populate(filepath.Join(f.outside, folder))
	}
	return f
}

// populate makes a folder with every file that an artifact could replace.
func (f *fixture) populate(folder string) {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(folder, 0o755))
	for _, name := range files {
		require.NoError(f.t, os.WriteFile(filepath.Join(folder, name), []byte("a canary without a newline"), 0o644))
	}
	require.NoError(f.t, os.WriteFile(filepath.Join(folder, tempPrefix+"theirs"), []byte("a canary"), 0o644))
}

var files = []string{artifact.EventFile, artifact.ProbeFile, artifact.TailFile, artifact.DecisionFile}

func (f *fixture) open(step string) *artifact.Dir {
	f.t.Helper()
	d, err := artifact.Open(f.root, step)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, d.Close()) })
	return d
}

// path returns the path of a file of the step build.
func (f *fixture) path(name string) string {
	return filepath.Join(f.root, "build", artifact.Folder, name)
}

func (f *fixture) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.path(name))
	require.NoError(f.t, err)
	return string(text)
}

// names returns the names in the step's folder.
func (f *fixture) names() []string {
	f.t.Helper()
	entries, err := os.ReadDir(f.path(""))
	require.NoError(f.t, err)
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// snapshot returns everything in a folder: names, modes, times, contents and the targets of links.
func snapshot(t *testing.T, folder string) map[string]string {
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

// expectUnchanged checks at the end of the test that the folder has not changed.
func expectUnchanged(t *testing.T, folder string) {
	t.Helper()
	before := snapshot(t, folder)
	t.Cleanup(func() { require.Equal(t, before, snapshot(t, folder), "%s has changed", folder) })
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
