package sqlite_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func openReadOnly(tb testing.TB, file string) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.OpenReadOnly(tb.Context(), file)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// written makes a database with an event and a session, and returns the store that is open on it.
func written(tb testing.TB, file string) *sqlite.Store {
	tb.Helper()
	s := openAt(tb, file)
	require.NoError(tb, s.Append(tb.Context(), numbered(1)))
	_, _, err := s.Attach(tb.Context(), session.Session{RunID: "run-1", Parent: "parent", Host: "host"})
	require.NoError(tb, err)
	return s
}

// digests returns the digest of each file in the folder.
func digests(tb testing.TB, file string) (all []string) {
	tb.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(tb, err)
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(filepath.Dir(file), entry.Name()))
		require.NoError(tb, err)
		all = append(all, fmt.Sprintf("%s %x", entry.Name(), sha256.Sum256(content)))
	}
	return all
}

// withoutIndex leaves out the index of the log, which has no data of its own.
func withoutIndex(digests []string) []string {
	return slices.DeleteFunc(slices.Clone(digests), func(d string) bool { return strings.Contains(d, "-shm ") })
}

// copyOfFiles copies the database and the files beside it, as a killed writer would leave them.
func copyOfFiles(tb testing.TB, file string, without ...string) (copied string) {
	tb.Helper()
	copied = newFile(tb)
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		content, err := os.ReadFile(file + suffix)
		if err == nil && !strings.Contains(strings.Join(without, " ")+" ", suffix+" ") || suffix == "" {
			require.NoError(tb, os.WriteFile(copied+suffix, content, 0o600))
		}
	}
	return copied
}

func TestOpenReadOnly(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, file string) string{
		"that nobody has open": func(t *testing.T, file string) string {
			t.Helper()
			require.NoError(t, written(t, file).Close())
			return file
		},
		"that somebody writes to": func(t *testing.T, file string) string {
			t.Helper()
			written(t, file)
			return file
		},
		"whose writer was killed": func(t *testing.T, file string) string {
			t.Helper()
			written(t, file)
			return copyOfFiles(t, file)
		},
		"with a rollback journal, of a host": func(t *testing.T, file string) string {
			t.Helper()
			s := newStore(t, openPlain(t, file, "journal_mode(DELETE)"))
			require.NoError(t, s.Append(t.Context(), numbered(1)))
			_, _, err := s.Attach(t.Context(), session.Session{RunID: "run-1"})
			require.NoError(t, err)
			return file
		},
	} {
		t.Run("a file "+name+" is read, and not a byte changes", func(t *testing.T) {
			file := prepare(t, newFile(t))
			before := digests(t, file)
			if name == "that somebody writes to" { // in this process: they share the index of the log
				before = withoutIndex(before)
			}
			s := openReadOnly(t, file)
			for range 2 {
				readsOnly(t, s, func(name string, err error) { require.ErrorIs(t, err, sqlite.ErrReadOnly, name) })
				require.Len(t, read(t, s), 1)
				require.Equal(t, 1, rowOf(t, s, "run-1").Attempt)
			}
			require.NoError(t, s.Close())
			require.Subset(t, digests(t, file), before)
			require.Equal(t, withoutIndex(before), withoutIndex(digests(t, file)))
			_, err := s.Read(t.Context(), "", "")
			require.ErrorIs(t, err, sqlite.ErrClosed)
		})
	}
	t.Run("what writers commit is read, whenever they come and go", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		reader := openReadOnly(t, file)
		for n := int64(1); n <= 6; n += 2 {
			writer := child(t, "open and append", file, fmt.Sprint(n))
			output, err := writer.CombinedOutput()
			require.NoError(t, err, string(output))
			require.Len(t, read(t, reader), int(n))
			live := openAt(t, file)
			require.NoError(t, live.Append(t.Context(), numbered(n+1)))
			require.Len(t, read(t, reader), int(n)+1)
			require.NoError(t, live.Close())
		}
	})
	t.Run("a writer that begins while it is open is seen by a reader that has read", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		reader := openReadOnly(t, file)
		require.Empty(t, read(t, reader))
		writer := openAt(t, file)
		for n := range int64(50) {
			require.NoError(t, writer.Append(t.Context(), numbered(n)))
			require.Len(t, read(t, reader), int(n)+1)
		}
	})
	t.Run("a closed store can be closed again", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		s := openReadOnly(t, file)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
	})
}

// SQLite says so where it finds the index of the log half written while others have the file open.
var errTorn = errors.New("attempt to write a readonly database (264)")

func TestTornIndex(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	written(t, file)
	reader := openReadOnly(t, copyOfFiles(t, file))
	for name, times := range map[string]int{"is read again while its writer goes on": 3, "is an error in the end": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			torn := 0
			err := sqlite.ReadCommitted(t.Context(), reader, func() error {
				if torn == times {
					return nil
				}
				torn++
				return errTorn
			})
			if times == 3 {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errTorn)
			require.Equal(t, 100, torn)
		})
	}
}

func TestOpenReadOnlyRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(t *testing.T, file string) string
		says    []string
	}{
		"a file that is not there": {
			func(_ *testing.T, file string) string { return file },
			[]string{"there is no file", "none is created"},
		},
		"a folder": {
			func(_ *testing.T, file string) string { return filepath.Dir(file) },
			[]string{"is a directory"},
		},
		"a URI": {
			func(*testing.T, string) string { return "file:events.db" },
			[]string{"use a plain path"},
		},
		"an empty file": {
			func(t *testing.T, file string) string {
				t.Helper()
				require.NoError(t, os.WriteFile(file, nil, 0o600))
				return file
			},
			[]string{"has no table of events", "none is created"},
		},
		"what is no database": {
			func(t *testing.T, file string) string {
				t.Helper()
				require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("no database ", 100)), 0o600))
				return file
			},
			[]string{"file is not a database"},
		},
		"a log without its index": {
			func(t *testing.T, file string) string {
				t.Helper()
				written(t, file)
				return copyOfFiles(t, file, "-shm ")
			},
			[]string{"the log (-wal) has no index (-shm)", "open it once with a program that writes"},
		},
	} {
		t.Run(name+", and creates nothing", func(t *testing.T) {
			file := test.prepare(t, newFile(t))
			before := []string(nil)
			if !strings.HasPrefix(file, "file:") {
				before = digests(t, filepath.Join(file, "..", "any"))
			}
			_, err := sqlite.OpenReadOnly(t.Context(), file)
			errorSays(t, err, test.says...)
			if before != nil {
				require.Equal(t, before, digests(t, filepath.Join(file, "..", "any")))
			}
		})
	}
	t.Run("a newer schema, as Open does", func(t *testing.T) {
		file := newFile(t)
		mustExec(t, openPlain(t, file), "CREATE TABLE watchdog_schema (version INTEGER PRIMARY KEY, oldest_reader INTEGER)",
			"INSERT INTO watchdog_schema VALUES (99, 99)")
		_, err := sqlite.OpenReadOnly(t.Context(), file)
		require.ErrorIs(t, err, sqlite.ErrNewerSchema)
	})
	t.Run("a foreign table, as Open does", func(t *testing.T) {
		file := newFile(t)
		mustExec(t, openPlain(t, file), "CREATE TABLE events (n)")
		_, err := sqlite.OpenReadOnly(t.Context(), file)
		require.ErrorIs(t, err, sqlite.ErrForeignTable)
	})
	t.Run("of an older schema only what is not there", func(t *testing.T) {
		file := newFile(t)
		db := openPlain(t, file)
		mustExec(t, db, tableWith())
		s := openReadOnly(t, file)
		require.Empty(t, read(t, s))
		layers, err := s.Layers(t.Context(), "run-1")
		require.NoError(t, err)
		require.Empty(t, layers)
		_, err = s.List(t.Context(), session.ListQuery{Limit: 1})
		require.ErrorContains(t, err, "the schema is older than this program: open the database once with a program that writes")
		require.Equal(t, []string{"1"}, queryAll(t, db, "SELECT count(*) FROM sqlite_master WHERE type = 'table'"))
	})
}
