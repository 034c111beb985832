package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openAt(t, file)
		_, err := s.Read(t.Context(), watchdog.AggregateType, "run-1")
		if !errorHas(err, "malformed", file) {
			t.Errorf("Read returned %v", err)
		}
	})
	t.Run("that is empty is a new database", func(t *testing.T) {
		file := newFile(t)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := openAt(t, file).Append(t.Context(), numbered(1)); err != nil {
			t.Error(err)
		}
	})
}

// refusesDamaged checks that Open fails for a file with this content, and changes nothing.
func refusesDamaged(t *testing.T, content []byte, says string) {
	t.Helper()
	file := newFile(t)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), file)
	if err == nil {
		s.Close()
		t.Fatal("Open returned nil")
	}
	for _, want := range []string{says, file, "restore it from a backup"} {
		if !errorHas(err, want) {
			t.Errorf("Open returned %v, want %q in it", err, want)
		}
	}
	if after, _ := os.ReadFile(file); !bytes.Equal(after, content) {
		t.Error("the file was changed")
	}
	if found := files(t, file); !slices.Equal(found, []string{"events.db"}) {
		t.Errorf("the folder holds %q", found)
	}
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
				if !errorHas(err, "make the file and its folder writable", file) {
					t.Errorf("New returned %v", err)
				}
				if after := queryAll(t, db, "SELECT name FROM sqlite_master"); !slices.Equal(after, before) {
					t.Errorf("there are %q, there were %q", after, before)
				}
			})
		}
	}
}

func TestFullDatabase(t *testing.T) {
	t.Parallel()
	t.Run("is an error for New, and nothing is written", func(t *testing.T) {
		db := openPlain(t, newFile(t))
		db.SetMaxOpenConns(1)
		mustExec(t, db, "CREATE TABLE of_the_host (n)", "PRAGMA max_page_count = 2")
		_, err := sqlite.New(t.Context(), db)
		if !errorHas(err, "make room on the disk") {
			t.Errorf("New returned %v", err)
		}
		if got := queryAll(t, db, "SELECT name FROM sqlite_master"); !slices.Equal(got, []string{"of_the_host"}) {
			t.Errorf("the database holds %q", got)
		}
	})
	t.Run("is an error for the batch that does not fit, and a later one that fits is stored", func(t *testing.T) {
		db := openPlain(t, newFile(t))
		db.SetMaxOpenConns(1)
		s := newStore(t, db)
		mustExec(t, db, "PRAGMA max_page_count = 20")
		large := numbered(2)
		large.Payload = []byte(`{"large":"` + strings.Repeat("x", 200_000) + `"}`)
		err := s.Append(t.Context(), numbered(1), large)
		if !errorHas(err, "database or disk is full", "make room on the disk") {
			t.Errorf("Append returned %v", err)
		}
		if got := read(t, s); len(got) != 0 {
			t.Errorf("stored are %q", ids(got))
		}
		if err := s.Append(t.Context(), numbered(3)); err != nil {
			t.Errorf("an event that fits: %v", err)
		}
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
	if err := s.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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
