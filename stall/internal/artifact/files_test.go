package artifact_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
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

// numbered returns an event whose length depends on its number. The number is at its start and at its end.
func numbered(i int) artifact.Event {
	e := tripped()
	e.Iteration, e.Complete = i, true
	e.Reasons = []string{strings.Repeat("x", i%7*1500), fmt.Sprint(i)}
	return e
}

// decode reads a whole numbered event and returns its number.
func decode(text []byte) (int, error) {
	var e artifact.Event
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return 0, fmt.Errorf("%d bytes: %w", len(text), err)
	}
	want := numbered(e.Iteration)
	if !slices.Equal(e.Reasons, want.Reasons) || !bytes.HasSuffix(text, []byte("}\n")) {
		return 0, fmt.Errorf("%d bytes are not event %d", len(text), e.Iteration)
	}
	return e.Iteration, nil
}

// TestConcurrentReader checks that a reader sees an event or the next one, and nothing between.
func TestConcurrentReader(t *testing.T) {
	const last = 200
	f := newFixture(t)
	d := f.open("build")
	require.NoError(t, d.WriteEvent(numbered(0)))

	var reader sync.WaitGroup
	reader.Go(func() {
		for seen := 0; seen < last; {
			text, err := os.ReadFile(f.path(artifact.EventFile))
			if !assert.NoError(t, err) {
				return
			}
			i, err := decode(text)
			if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, i, seen) {
				return
			}
			seen = i
		}
	})
	for i := range last {
		assert.NoError(t, d.WriteEvent(numbered(i+1)))
	}
	reader.Wait()
	require.Equal(t, []string{artifact.EventFile}, f.names())
}

// TestLeftovers checks that Open removes the temporary files of a crashed process.
func TestLeftovers(t *testing.T) {
	f := newFixture(t)
	require.Empty(t, failures(writeAll(f.open("build"))))
	require.NoError(t, os.WriteFile(f.path(tempPrefix+"ABC"), []byte(`{"schema": "wat`), 0o600))
	require.NoError(t, os.WriteFile(f.path("notes.txt"), nil, 0o600))
	require.NoError(t, os.Mkdir(f.path(tempPrefix+"folder"), 0o700))
	f.open("build")
	want := append([]string{tempPrefix + "folder", "notes.txt"}, files...)
	require.ElementsMatch(t, want, f.names(), "only files with the prefix are ours")
}

// TestConcurrentOpen checks that Open does not remove a temporary file that another process is writing. Two sessions
// may run a step of the same name.
func TestConcurrentOpen(t *testing.T) {
	f := newFixture(t)
	d := f.open("build")
	stop := make(chan struct{})
	var opener sync.WaitGroup
	opener.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			other, err := artifact.Open(f.root, "build")
			if assert.NoError(t, err) {
				assert.NoError(t, other.Close())
			}
		}
	})
	for i := range 100 {
		assert.NoError(t, d.WriteEvent(numbered(i)))
	}
	close(stop)
	opener.Wait()
	_, err := decode([]byte(f.read(artifact.EventFile)))
	require.NoError(t, err)
}

// probes returns the lines of probe.jsonl. Each of them must be valid.
func probes(t *testing.T, f *fixture) []artifact.Probe {
	t.Helper()
	text := f.read(artifact.ProbeFile)
	require.True(t, strings.HasSuffix(text, "}\n"), "the last line is whole")
	read := []artifact.Probe{}
	for line := range strings.Lines(text) {
		var p artifact.Probe
		require.NoError(t, json.Unmarshal([]byte(line), &p), line)
		read = append(read, p)
	}
	return read
}

// TestTornLine checks that an incomplete last line is removed before the next line is appended.
func TestTornLine(t *testing.T) {
	whole := `{"same": 1}` + "\n"
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"nothing torn":                    {whole, 2},
		"an empty file":                   {"", 1},
		"half a line":                     {whole + `{"same": 2, "cla`, 2},
		"a line without its newline":      {whole + `{"same": 2}`, 2},
		"only half a line":                {`{"sa`, 1},
		"a half line longer than a block": {whole + strings.Repeat("z", 10_000), 2},
		"a newline at a block's edge":     {whole + strings.Repeat("z", 4096), 2},
		"a long line that is whole":       {`{"same": 1, "summary": "` + strings.Repeat("z", 10_000) + `"}` + "\n", 2},
		"zeros, as some file systems end": {whole + strings.Repeat("\x00", 512), 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			require.NoError(t, os.MkdirAll(f.path(""), 0o700))
			require.NoError(t, os.WriteFile(f.path(artifact.ProbeFile), []byte(c.text), 0o600))
			require.NoError(t, f.open("build").AppendProbe(artifact.Probe{Same: 7}))
			read := probes(t, f)
			require.Len(t, read, c.want)
			require.Equal(t, 7, read[len(read)-1].Same)
			require.True(t, c.want == 1 || read[0].Same == 1, "whole lines stay")
		})
	}
}

// TestHardLink checks that nothing is appended to a file that has another name.
func TestHardLink(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, os.MkdirAll(f.path(""), 0o700))
	if err := os.Link(filepath.Join(f.outside, artifact.ProbeFile), f.path(artifact.ProbeFile)); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	expectUnchanged(t, f.outside)
	err := f.open("build").AppendProbe(artifact.Probe{})
	require.ErrorIs(t, err, artifact.ErrInTheWay)
}

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

// link makes a symbolic link, or skips the test if that is not allowed.
func (f *fixture) link(target, path string) {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(filepath.Dir(path), 0o700))
	if err := os.Symlink(target, path); err != nil {
		f.t.Skipf("no symbolic links here: %v", err)
	}
}

// places are where a link can be, from the root; the folders that a fixture populates have them, too.
var places = []string{
	"build", "build/_stall", "build/_stall/event.json", "build/_stall/probe.jsonl", "build/_stall/stderr.tail.log",
	"build/_stall/decision.json",
}

// affected lists the files that cannot be written if a link is in a place.
func affected(place string) []string {
	if name := filepath.Base(place); filepath.Ext(name) != "" {
		return []string{name}
	}
	return files
}

// TestSymlink checks that links are refused wherever they point.
func TestSymlink(t *testing.T) {
	for _, place := range places {
		targets := map[string]func(f *fixture) string{
			"outside": func(f *fixture) string { return filepath.Join(f.outside, place) },
			"elsewhere inside": func(f *fixture) string {
				f.populate(filepath.Join(f.root, "other/build/_stall"))
				return filepath.Join(f.root, "other", place)
			},
			"inside, relative": func(f *fixture) string {
				f.populate(filepath.Join(f.root, "build"))
				f.populate(f.root)
				return "."
			},
			"nowhere":           func(f *fixture) string { return filepath.Join(f.outside, "missing") },
			"itself":            func(f *fixture) string { return filepath.Base(place) },
			"outside, relative": func(*fixture) string { return "../../../outside/canary" },
		}
		for where, target := range targets {
			if where == "inside, relative" && filepath.Ext(place) != "" {
				continue // "." is a folder
			}
			t.Run(place+" to "+where, func(t *testing.T) {
				f := newFixture(t)
				to := target(f)
				require.NoError(t, os.RemoveAll(filepath.Join(f.root, place)))

				t.Run("before it is opened", func(t *testing.T) {
					f.link(to, filepath.Join(f.root, place))
					expectUnchanged(t, f.base)
					_, err := artifact.Open(f.root, "build")
					require.ErrorIs(t, err, artifact.ErrSymlink)
				})
				t.Run("between two writes", func(t *testing.T) {
					require.NoError(t, os.Remove(filepath.Join(f.root, place)))
					d := f.open("build")
					require.Empty(t, failures(writeAll(d)))
					require.NoError(t, os.RemoveAll(filepath.Join(f.root, place)))
					f.link(to, filepath.Join(f.root, place))
					expectUnchanged(t, f.outside)
					before, errs := snapshot(t, f.root), writeAll(d)
					for _, name := range affected(place) {
						require.ErrorIs(t, errs[name], artifact.ErrSymlink)
						require.ErrorContains(t, errs[name], "write stall artifact "+f.path(name)+": a symbolic link is in the way: ")
					}
					if len(affected(place)) == len(files) {
						require.Equal(t, before, snapshot(t, f.root))
					}
				})
			})
		}
	}
}

// TestInTheWay checks that a file in the place of a folder is refused, and a folder in the place of a file.
func TestInTheWay(t *testing.T) {
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			f := newFixture(t)
			expectUnchanged(t, f.outside)
			path := filepath.Join(f.root, place)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			if filepath.Ext(place) == "" {
				require.NoError(t, os.WriteFile(path, []byte("a file"), 0o600))
			} else {
				require.NoError(t, os.Mkdir(path, 0o700))
			}
			before := snapshot(t, f.root)
			_, err := artifact.Open(f.root, "build")
			require.ErrorIs(t, err, artifact.ErrInTheWay)
			require.Equal(t, before, snapshot(t, f.root))

			aside := filepath.Join(f.base, "aside")
			require.NoError(t, os.Rename(path, aside))
			d := f.open("build")
			require.NoError(t, os.Rename(aside, path))
			errs := writeAll(d)
			for _, name := range affected(place) {
				require.ErrorIs(t, errs[name], artifact.ErrInTheWay)
			}
		})
	}
	t.Run("a file in the place of the root", func(t *testing.T) {
		f := newFixture(t)
		expectUnchanged(t, f.base)
		_, err := artifact.Open(filepath.Join(f.outside, artifact.EventFile), "build")
		require.ErrorContains(t, err, "open stall artifacts: make the root folder: ")
	})
}

// TestRemovedFolder checks that a folder that was removed is made again.
func TestRemovedFolder(t *testing.T) {
	f := newFixture(t)
	d := f.open("build")
	require.Empty(t, failures(writeAll(d)))
	for _, gone := range []string{"build", "build/_stall", "build/_stall/probe.jsonl"} {
		require.NoError(t, os.RemoveAll(filepath.Join(f.root, gone)))
		require.Empty(t, failures(writeAll(d)))
		require.ElementsMatch(t, files, f.names())
	}
}
