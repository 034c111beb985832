package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// The tests in this file run in synctest bubbles, whose clock begins at this time.
const bubbleBegan = "2000-01-01T00:00:0"

// goneBy are ways in which a path stops leading to the file of a store.
var goneBy = map[string]struct {
	says string
	does func(t *testing.T, file string)
}{
	"deleted":                          {"nothing is there", remove},
	"moved away":                       {"nothing is there", func(t *testing.T, file string) { rename(t, file, file+".old") }},
	"in a folder that is renamed":      {"nothing is there", renameFolder},
	"in a folder that is a file now":   {"nothing is there", func(t *testing.T, file string) { renameFolder(t, file); write(t, filepath.Dir(file)) }},
	"replaced by a copy":               {"another file is there", replace},
	"deleted and made anew":            {"another file is there", func(t *testing.T, file string) { remove(t, file); write(t, file) }},
	"a link that leads elsewhere":      {"another file is there", func(t *testing.T, file string) { rename(t, file, file+".old"); replaceByLink(t, file) }},
	"replaced by a folder of its name": {"another file is there", func(t *testing.T, file string) { remove(t, file); require.NoError(t, os.Mkdir(file, 0o700)) }},
}

// An append whose event is in no file of that name is an error, and so is each call from then on.
func TestFileIsGone(t *testing.T) {
	t.Parallel()
	for name, gone := range goneBy {
		t.Run(name, func(t *testing.T) {
			inFolder(t, func(t *testing.T, file string) {
				s, err := sqlite.Open(t.Context(), file)
				require.NoError(t, err)
				saysGone(t, s, file, gone.says, gone.does)
			})
		})
	}
	t.Run("from under a host's database", func(t *testing.T) {
		inFolder(t, func(t *testing.T, file string) {
			saysGone(t, newStore(t, hostDatabase(t, file)), file, "another file is there", replace)
		})
	})
}

func saysGone(t *testing.T, s *sqlite.Store, file, says string, goes func(t *testing.T, file string)) {
	t.Helper()
	time.Sleep(2 * time.Second)
	require.NoError(t, s.Append(t.Context(), numbered(1)), "the last one while the file is there")
	time.Sleep(time.Second)
	goes(t, file)
	isGone(t, s.Append(t.Context(), numbered(2)), file, says, bubbleBegan+"2Z")
	for name, call := range callsOf(t.Context(), s) {
		err := call()
		require.ErrorIs(t, err, sqlite.ErrFileGone, name)
		errorSays(t, err, file, says, bubbleBegan+"2Z", "open the store again")
	}
	isGone(t, s.Close(), "close event database", file, says)
	require.NoError(t, s.Close(), "closed again")
	require.ErrorIs(t, second(s.Read(t.Context(), event.AggregateType, "run-1")), sqlite.ErrClosed)
}

// inFolder runs a test in a bubble, with a file in a folder that the test may rename.
func inFolder(t *testing.T, test func(t *testing.T, file string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "state")
		require.NoError(t, os.Mkdir(folder, 0o700))
		test(t, filepath.Join(folder, "events.db"))
	})
}

func isGone(t *testing.T, err error, says ...string) {
	t.Helper()
	require.ErrorIs(t, err, sqlite.ErrFileGone)
	errorSays(t, err, says...)
}

// Appends that wait for a commit after which the file is gone are not written, and are told the same.
func TestFileIsGoneForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file, g := newFile(t), &gate{open: make(chan struct{})}
		db := hookedDatabase(t, file, g.before)
		mustExec(t, db, "PRAGMA journal_mode = WAL") // else SQLite's own look at the path fails what follows
		s, err := sqlite.New(t.Context(), db)
		require.NoError(t, err)
		time.Sleep(time.Second)
		g.commits.Store(0)
		g.shut.Store(true)
		var results []<-chan error
		for n := range int64(3) {
			results = append(results, appendLater(t.Context(), s, numbered(n)))
			synctest.Wait()
		}
		remove(t, file)
		g.release()
		for _, result := range results {
			require.ErrorIs(t, <-result, sqlite.ErrFileGone)
		}
		require.EqualValues(t, 1, g.commits.Load(), "commits")
		require.ErrorIs(t, s.Close(), sqlite.ErrFileGone)
	})
}

// Batches whose transaction failed are each told in the transaction of their own.
func TestFileIsGoneForEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file, commits, flaw := newFile(t), -100, errors.New("disk I/O error")
		db := hookedDatabase(t, file, func(statement string) error {
			if statement != "COMMIT" {
				return nil
			}
			switch commits++; commits {
			case 1:
				time.Sleep(time.Second) // others arrive
			case 2:
				remove(t, file)
				time.Sleep(time.Second)
				return flaw
			}
			return nil
		})
		mustExec(t, db, "PRAGMA journal_mode = WAL")
		s, err := sqlite.New(t.Context(), db)
		require.NoError(t, err)
		commits = 0
		first := appendLater(t.Context(), s, numbered(0))
		synctest.Wait()
		second, third := appendLater(t.Context(), s, numbered(1)), appendLater(t.Context(), s, numbered(2))
		require.NoError(t, <-first)
		require.ErrorIs(t, <-second, sqlite.ErrFileGone)
		require.ErrorIs(t, <-third, sqlite.ErrFileGone)
		require.ErrorIs(t, s.Close(), sqlite.ErrFileGone)
	})
}

// The path is looked at once a second at most. Commits after the last look are checked when the store is closed.
func TestFileIsLookedAtSeldom(t *testing.T) {
	t.Parallel()
	inFolder(t, func(t *testing.T, file string) {
		s, err := sqlite.Open(t.Context(), file)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		remove(t, file)
		time.Sleep(time.Second - 1)
		require.NoError(t, s.Append(t.Context(), numbered(2)), "less than a second after the last look")
		isGone(t, s.Close(), "close event database", file, "nothing is there", bubbleBegan+"2Z")
	})
	inFolder(t, func(t *testing.T, file string) {
		s, err := sqlite.Open(t.Context(), file)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		remove(t, file)
		require.NoError(t, s.Close(), "all that was stored was in the file")
	})
}

// A store that is opened on a file of the current schema writes nothing to it, and yet knows it from the opening on.
func TestFileIsGoneBeforeTheFirstAppend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		s, err := sqlite.Open(t.Context(), file)
		require.NoError(t, err)
		defer s.Close()
		replace(t, file)
		time.Sleep(time.Second)
		isGone(t, s.Append(t.Context(), numbered(1)), "another file is there", bubbleBegan+"0Z")
	})
}

// What else is done to the file ends nothing.
func TestFileIsThere(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(t *testing.T, file string){
		"is moved away and back": func(t *testing.T, file string) {
			rename(t, file, file+".old")
			rename(t, file+".old", file)
		},
		"is in a folder that becomes a link": func(t *testing.T, file string) {
			renameFolder(t, file)
			require.NoError(t, os.Symlink(filepath.Dir(file)+".old", filepath.Dir(file)))
		},
		"gets another name beside its own": func(t *testing.T, file string) {
			require.NoError(t, os.Link(file, file+".link"))
		},
		"is read-only":     func(t *testing.T, file string) { require.NoError(t, os.Chmod(file, 0o400)) },
		"has another time": func(t *testing.T, file string) { require.NoError(t, os.Chtimes(file, noon, noon)) },
		"is written by other": func(t *testing.T, file string) {
			require.NoError(t, openAt(t, file).Append(t.Context(), numbered(9)))
		},
		"is vacuumed": func(t *testing.T, file string) {
			mustExec(t, openPlain(t, file, "busy_timeout(10000)"), "VACUUM", "VACUUM INTO '"+file+".copy'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFolder(t, func(t *testing.T, file string) {
				s := openAt(t, file)
				require.NoError(t, s.Append(t.Context(), numbered(8)))
				does(t, file)
				for n := range int64(3) {
					time.Sleep(time.Second)
					require.NoError(t, s.Append(t.Context(), numbered(n)))
				}
				require.Subset(t, ids(read(t, s)), []string{"event-0", "event-1", "event-2"})
				require.NoError(t, s.Close())
			})
		})
	}
}

// A relative path is looked for where it was when the store was opened.
func TestFileIsLookedForWhereItWas(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *sqlite.Store{
		"opened":      func(t *testing.T) *sqlite.Store { return openAt(t, "events.db") },
		"of the host": func(t *testing.T) *sqlite.Store { return newStore(t, hostDatabase(t, "events.db")) },
	} {
		t.Run(name, func(t *testing.T) {
			first, second := t.TempDir(), t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				t.Chdir(first)
				s := open(t)
				t.Chdir(second)
				for n := range int64(2) {
					time.Sleep(time.Second)
					require.NoError(t, s.Append(t.Context(), numbered(n)))
				}
				require.NoError(t, s.Close())
			})
		})
	}
}

// A path that cannot be followed says nothing of the file.
func TestFileCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	inFolder(t, func(t *testing.T, file string) {
		s := openAt(t, file)
		require.NoError(t, s.Append(t.Context(), numbered(0)))
		folder := filepath.Dir(file)
		renameFolder(t, file)
		require.NoError(t, os.Symlink(folder, folder), "a link to itself")
		for n := range int64(3) {
			time.Sleep(time.Second)
			require.NoError(t, s.Append(t.Context(), numbered(1+n)))
		}
		require.NoError(t, os.Remove(folder))
		rename(t, folder+".old", folder)
		require.Len(t, read(t, s), 4)
		require.NoError(t, s.Close())
	})
}

// A database that is in no file has none that could go.
func TestMemoryIsNotLookedFor(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		":memory:", "file::memory:?cache=shared", "file:name?mode=memory&cache=shared", "file:/name?vfs=memdb", "",
	} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := openSource(t, source)
				db.SetMaxOpenConns(1)
				s := newStore(t, db)
				for n := range int64(3) {
					time.Sleep(time.Second)
					require.NoError(t, s.Append(t.Context(), numbered(n)))
				}
				require.Len(t, read(t, s), 3)
			})
		})
	}
}

// A store that was opened again has the file that is there.
func TestFileIsOpenedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s, err := sqlite.Open(t.Context(), file)
		require.NoError(t, err)
		remove(t, file)
		time.Sleep(time.Second)
		require.ErrorIs(t, s.Append(t.Context(), numbered(1)), sqlite.ErrFileGone)
		again := openAt(t, file)
		time.Sleep(time.Second)
		require.NoError(t, again.Append(t.Context(), numbered(2)))
		require.ErrorIs(t, s.Close(), sqlite.ErrFileGone)
		time.Sleep(time.Second)
		require.NoError(t, again.Append(t.Context(), numbered(3)))
		require.Equal(t, []string{"event-2", "event-3"}, ids(read(t, again)))
	})
}

func remove(t *testing.T, file string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.Rename(from, to))
}

func renameFolder(t *testing.T, file string) {
	t.Helper()
	rename(t, filepath.Dir(file), filepath.Dir(file)+".old")
}

func write(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte("of another program"), 0o600))
}

// replace puts a copy in the place of the file, as who restores a backup.
func replace(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file+".new", content, 0o600))
	rename(t, file+".new", file)
}

func replaceByLink(t *testing.T, file string) {
	t.Helper()
	write(t, file+".new")
	require.NoError(t, os.Symlink(file+".new", file))
}

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
		_, err := s.Read(t.Context(), event.AggregateType, "run-1")
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
	errorSays(t, err, says, file, "restore it from a backup")
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
		require.ErrorContains(t, second(sqlite.New(t.Context(), db)), "make room on the disk")
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
	var events []event.Event
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
		"in memory":                 {":memory:", "event.Memory"},
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
