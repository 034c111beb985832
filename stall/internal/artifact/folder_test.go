package artifact_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// link makes a symbolic link, or skips the test if that is not allowed.
func (f *fixture) link(target, path string) {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(filepath.Dir(path), 0o700))
	if err := os.Symlink(target, path); err != nil {
		f.t.Skipf("no symbolic links here: %v", err)
	}
}

// places are where a link can be, from the root, and what it could point to in the folders that a fixture populates.
var places = map[string]string{
	"build":                        "build",
	"build/_stall":                 "build/_stall",
	"build/_stall/event.json":      "build/_stall/event.json",
	"build/_stall/probe.jsonl":     "build/_stall/probe.jsonl",
	"build/_stall/stderr.tail.log": "build/_stall/stderr.tail.log",
	"build/_stall/decision.json":   "build/_stall/decision.json",
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
	for place, inside := range places {
		targets := map[string]func(f *fixture) string{
			"outside": func(f *fixture) string { return filepath.Join(f.outside, inside) },
			"elsewhere inside": func(f *fixture) string {
				f.populate(filepath.Join(f.root, "other/build/_stall"))
				return filepath.Join(f.root, "other", inside)
			},
			"inside, relative": func(f *fixture) string {
				f.populate(filepath.Join(f.root, "build"))
				f.populate(f.root)
				return "."
			},
			"nowhere":           func(f *fixture) string { return filepath.Join(f.outside, "missing") },
			"itself":            func(f *fixture) string { return filepath.Base(inside) },
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
	for place := range places {
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
