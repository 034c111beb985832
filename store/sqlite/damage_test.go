package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	whole := fileWithEvents(t, 1000)
	for name, test := range map[string]struct {
		content []byte
		says    string
	}{
		"of garbage":                       {bytes.Repeat([]byte("garbage!"), 1024), "file is not a database"},
		"that is another file":             {[]byte("#!/bin/sh\necho hello\n"), "file is not a database"},
		"that ends in its first page":      {whole[:1000], "it is damaged"},
		"that ends in its header":          {whole[:50], "it is damaged"},
		"that ends half way":               {whole[:len(whole)/8192*4096], "malformed"},
		"whose header says another format": {append([]byte("SQLite format 9\x00"), whole[16:]...), "file is not a database"},
	} {
		t.Run(name+" is an error that says what to do, and is left as it is", func(t *testing.T) {
			refusesDamaged(t, test.content, test.says)
		})
	}
	t.Run("that is damaged in the middle is an error when the damage is read", func(t *testing.T) {
		file := newFile(t)
		damaged := slices.Clone(whole)
		for page := len(damaged) / 8192 * 4096; page < len(damaged); page += 4096 {
			copy(damaged[page:], bytes.Repeat([]byte{0xff}, 512))
		}
		require.NoError(t, os.WriteFile(file, damaged, 0o600))
		s := openAt(t, file)
		_, err := s.Read(t.Context(), watchdog.AggregateType, "run-1")
		errorSays(t, err, "malformed", file)
	})
	t.Run("that is empty is a new database", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.NoError(t, openAt(t, file).Append(t.Context(), numbered(1)))
	})
}

// refusesDamaged checks that Open fails for a file with this content, and changes nothing.
func refusesDamaged(t *testing.T, content []byte, says string) {
	t.Helper()
	file := newFile(t)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	s, err := sqlite.Open(t.Context(), file)
	if err == nil {
		s.Close()
		t.Fatal("Open returned nil")
	}
	for _, want := range []string{says, file, "restore it from a backup"} {
		require.ErrorContains(t, err, want)
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(after, content) {
		t.Error("the file was changed")
	}
	require.Equal(t, []string{"events.db"}, files(t, file))
}

func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	for name, parameters := range map[string]string{
		"mode=ro":    "?mode=ro",
		"immutable":  "?immutable=1",
		"query_only": "?_pragma=query_only(1)",
	} {
		for what, prepare := range map[string]func(t *testing.T, file string){
			"that is new":  func(t *testing.T, file string) { mustExec(t, openPlain(t, file), "CREATE TABLE of_the_host (n)") },
			"that is ours": func(t *testing.T, file string) { openAt(t, file).Close() },
		} {
			t.Run(name+" "+what+" is an error that says so, and nothing is written", func(t *testing.T) {
				file := newFile(t)
				prepare(t, file)
				db := openPlain(t, file)
				before := queryAll(t, db, "SELECT name FROM sqlite_master")
				_, err := sqlite.New(t.Context(), openSource(t, "file:"+file+parameters))
				errorSays(t, err, "make the file and its folder writable", file)
				require.Equal(t, before, queryAll(t, db, "SELECT name FROM sqlite_master"))
			})
		}
	}
}

func TestFullDatabase(t *testing.T) {
	t.Parallel()
	t.Run("is an error for New, and nothing is written", func(t *testing.T) {
		db := openOne(t, newFile(t))
		mustExec(t, db, "CREATE TABLE of_the_host (n)", "PRAGMA max_page_count = 2")
		_, err := sqlite.New(t.Context(), db)
		require.ErrorContains(t, err, "make room on the disk")
		require.Equal(t, []string{"of_the_host"}, queryAll(t, db, "SELECT name FROM sqlite_master"))
	})
	t.Run("is an error for the batch that does not fit, and a later one that fits is stored", func(t *testing.T) {
		db := openOne(t, newFile(t))
		s := newStore(t, db)
		mustExec(t, db, "PRAGMA max_page_count = 20")
		large := numbered(2)
		large.Payload = []byte(`{"large":"` + strings.Repeat("x", 200_000) + `"}`)
		err := s.Append(t.Context(), numbered(1), large)
		errorSays(t, err, "database or disk is full", "make room on the disk")
		require.Empty(t, read(t, s))
		require.NoError(t, s.Append(t.Context(), numbered(3)))
	})
}

// fileWithEvents returns the content of a closed database.
func fileWithEvents(t *testing.T, n int64) []byte {
	t.Helper()
	file := newFile(t)
	s := openAt(t, file)
	var events []watchdog.Event
	for i := range n {
		events = append(events, numbered(i))
	}
	require.NoError(t, s.Append(t.Context(), events...))
	require.NoError(t, s.Close())
	content, err := os.ReadFile(file)
	if err != nil || len(content) < 8*4096 {
		t.Fatal(len(content), err)
	}
	return content
}

func TestInvalidPaths(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "plain")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
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
			errorSays(t, err, "open event database: ", test.says)
		})
	}
	require.Equal(t, []string{"plain"}, files(t, file))
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
			require.NoError(t, s.Append(t.Context(), numbered(1)))
			require.NoError(t, s.Close())
			require.Equal(t, []string{filepath.Base(file)}, files(t, file))
			require.Equal(t, []string{"event-1"}, ids(read(t, openAt(t, file))))
		})
	}
}

// files lists the folder that a file is in.
func files(t *testing.T, file string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
