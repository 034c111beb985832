package artifact_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// link makes a symbolic link, or skips the test where that is not allowed.
func (b *bed) link(target, path string) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o700))
	if err := os.Symlink(target, path); err != nil {
		b.t.Skipf("no symbolic links here: %v", err)
	}
}

// places are where a link can stand, from the root, and what it could stand for in the folders that a bed plants.
var places = map[string]string{
	"build":                        "build",
	"build/_stall":                 "build/_stall",
	"build/_stall/event.json":      "build/_stall/event.json",
	"build/_stall/probe.jsonl":     "build/_stall/probe.jsonl",
	"build/_stall/stderr.tail.log": "build/_stall/stderr.tail.log",
	"build/_stall/decision.json":   "build/_stall/decision.json",
}

// reach lists the files that a link in a place keeps from being written.
func reach(place string) []string {
	if name := filepath.Base(place); filepath.Ext(name) != "" {
		return []string{name}
	}
	return files
}

func TestLinksAreRefusedWhereverTheyPoint(t *testing.T) {
	for place, inside := range places {
		targets := map[string]func(b *bed) string{
			"outside": func(b *bed) string { return filepath.Join(b.outside, inside) },
			"elsewhere inside": func(b *bed) string {
				b.plant(filepath.Join(b.root, "other/build/_stall"))
				return filepath.Join(b.root, "other", inside)
			},
			"inside, relative":  func(b *bed) string { b.plant(filepath.Join(b.root, "build")); b.plant(b.root); return "." },
			"nowhere":           func(b *bed) string { return filepath.Join(b.outside, "missing") },
			"itself":            func(b *bed) string { return filepath.Base(inside) },
			"outside, relative": func(*bed) string { return "../../../outside/canary" },
		}
		for where, target := range targets {
			if where == "inside, relative" && filepath.Ext(place) != "" {
				continue // "." is a folder
			}
			t.Run(place+" to "+where, func(t *testing.T) {
				b := newBed(t)
				to := target(b)
				require.NoError(t, os.RemoveAll(filepath.Join(b.root, place)))

				t.Run("before it is opened", func(t *testing.T) {
					b.link(to, filepath.Join(b.root, place))
					unchanged(t, b.base)
					_, err := artifact.Open(b.root, "build")
					require.ErrorIs(t, err, artifact.ErrSymlink)
				})
				t.Run("between two writes", func(t *testing.T) {
					require.NoError(t, os.Remove(filepath.Join(b.root, place)))
					d := b.open("build")
					require.Empty(t, failures(writeAll(d)))
					require.NoError(t, os.RemoveAll(filepath.Join(b.root, place)))
					b.link(to, filepath.Join(b.root, place))
					unchanged(t, b.outside)
					before, errs := see(t, b.root), writeAll(d)
					for _, name := range reach(place) {
						require.ErrorIs(t, errs[name], artifact.ErrSymlink)
						require.ErrorContains(t, errs[name], "write stall artifact "+b.path(name)+": a symbolic link is in the way: ")
					}
					if len(reach(place)) == len(files) {
						require.Equal(t, before, see(t, b.root))
					}
				})
			})
		}
	}
}

func TestWhatElseIsInTheWayIsRefused(t *testing.T) {
	for place := range places {
		t.Run(place, func(t *testing.T) {
			b := newBed(t)
			unchanged(t, b.outside)
			path := filepath.Join(b.root, place)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			if filepath.Ext(place) == "" {
				require.NoError(t, os.WriteFile(path, []byte("a file"), 0o600))
			} else {
				require.NoError(t, os.Mkdir(path, 0o700))
			}
			before := see(t, b.root)
			_, err := artifact.Open(b.root, "build")
			require.ErrorIs(t, err, artifact.ErrInTheWay)
			require.Equal(t, before, see(t, b.root))

			aside := filepath.Join(b.base, "aside")
			require.NoError(t, os.Rename(path, aside))
			d := b.open("build")
			require.NoError(t, os.Rename(aside, path))
			errs := writeAll(d)
			for _, name := range reach(place) {
				require.ErrorIs(t, errs[name], artifact.ErrInTheWay)
			}
		})
	}
	t.Run("a file for the root", func(t *testing.T) {
		b := newBed(t)
		unchanged(t, b.base)
		_, err := artifact.Open(filepath.Join(b.outside, artifact.EventFile), "build")
		require.ErrorContains(t, err, "open stall artifacts: make the root folder: ")
	})
}

func TestAFolderThatWasRemovedIsMadeAgain(t *testing.T) {
	b := newBed(t)
	d := b.open("build")
	require.Empty(t, failures(writeAll(d)))
	for _, gone := range []string{"build", "build/_stall", "build/_stall/probe.jsonl"} {
		require.NoError(t, os.RemoveAll(filepath.Join(b.root, gone)))
		require.Empty(t, failures(writeAll(d)))
		require.ElementsMatch(t, files, b.names())
	}
}
