package sqlite_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestInvalidPaths(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "plain")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ path, says string }{
		"empty":                     {"", "empty"},
		"blank":                     {"  ", "empty"},
		"in memory":                 {":memory:", "watchdog.Memory"},
		"a URI":                     {"file:events.db?mode=ro", "New"},
		"a directory":               {folder, "is a directory"},
		"the name of a directory":   {filepath.Join(folder, "none") + "/", "names a directory"},
		"in a folder that is not":   {filepath.Join(folder, "none", "events.db"), "create it first"},
		"in a file":                 {filepath.Join(file, "events.db"), "not a directory"},
		"not a regular file":        {os.DevNull, "not a regular file"},
		"a text with a NUL in it":   {"events\x00.db", "NUL"},
		"longer than a name may be": {filepath.Join(folder, strings.Repeat("x", 300)), "too long"},
	} {
		t.Run(name+" is an error that says so", func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), test.path)
			if err == nil {
				s.Close()
				t.Fatal("Open returned nil")
			}
			if !errorHas(err, test.says) || !strings.HasPrefix(err.Error(), "open event database: ") {
				t.Errorf("Open returned %v, want %q in it", err, test.says)
			}
		})
	}
	if found := files(t, file); !slices.Equal(found, []string{"plain"}) {
		t.Errorf("the folder now holds %q", found)
	}
}

func TestUnusualPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a?b.db", "a#b.db", "100%.db", "%41.db", "%zz.db", "with space.db",
		" leading and trailing ", "日本語 🜁.db", "a&b=c;d+e.db", "it's \"quoted\".db",
		"a?_pragma=query_only(1)", "a?mode=memory", "a:b", "back\\slash", "line\nbreak", ":memory:", "file:x", "\xff.db",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name)
			s := openAt(t, file)
			if err := s.Append(t.Context(), numbered(1)); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if found := files(t, file); !slices.Equal(found, []string{filepath.Base(file)}) {
				t.Errorf("the folder holds %q", found)
			}
			if got := ids(read(t, openAt(t, file))); !slices.Equal(got, []string{"event-1"}) {
				t.Errorf("opened again it has %q", got)
			}
		})
	}
}

// A relative path stays valid when the working directory changes.
func TestRelativePath(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	t.Chdir(first)
	s := openAt(t, "events.db")
	t.Chdir(second)
	for n := range int64(20) {
		if err := s.Append(t.Context(), numbered(n)); err != nil {
			t.Fatal(err)
		}
		read(t, s)
	}
	if found := files(t, filepath.Join(second, "events.db")); len(found) != 0 {
		t.Errorf("the second folder holds %q", found)
	}
}

// files lists the folder that a file is in.
func files(t *testing.T, file string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
