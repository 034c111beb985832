package sqlite

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// absolutePath says what is wrong with a path, where SQLite would only say "unable to open database file". It returns
// the absolute path, because the pool opens connections later, when the working directory may have changed.
func absolutePath(path string, check func(file string) error) (string, error) {
	switch {
	case strings.TrimSpace(path) == "":
		return "", errors.New("the path is empty: name a file, such as state/events.db")
	case path == ":memory:":
		return "", errors.New("a database in memory keeps nothing: use event.Memory, which needs no database")
	case strings.HasPrefix(path, "file:"):
		return "", fmt.Errorf("%s is a URI: use a plain path, "+
			"or open the URI with sql.Open and pass the database to New", path)
	case os.IsPathSeparator(path[len(path)-1]):
		return "", fmt.Errorf("%s names a directory: name a file in it", path)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("the path %q contains a NUL", path)
	}
	file, err := filepath.Abs(path)
	return file, cmp.Or(err, check(file))
}

// checkFile checks that the path is a file or can become one. It does not open the file: closing it again would drop
// the locks that SQLite holds on it elsewhere in this process. It refuses a file without write permission, for root as
// well, before SQLite creates files beside it.
func checkFile(file string) error {
	switch info, err := statFile(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case isReadOnly(info):
		return fmt.Errorf("%s is read-only (%v): make the file writable, name another, or use OpenReadOnly",
			file, info.Mode())
	}
	return checkFolder(file, filepath.Dir(file))
}

func statFile(file string) (fs.FileInfo, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
	case info.IsDir():
		err = fmt.Errorf("%s is a directory: name a file in it", file)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", file)
	}
	return info, err
}

func checkFolder(file, folder string) error {
	switch info, err := os.Stat(folder); {
	case err != nil:
		return fmt.Errorf("%s: its folder does not exist, create it first: %w", file, err)
	case !info.IsDir():
		return fmt.Errorf("%s: %s is not a directory", file, folder)
	case isReadOnly(info):
		return fmt.Errorf("%s: its folder is read-only (%v), and SQLite creates files beside the database: "+
			"make the folder writable", file, info.Mode())
	}
	return nil
}

// isReadOnly reports whether the mode lets nobody write. SQLite finds out whether this user may.
func isReadOnly(info fs.FileInfo) bool { return info.Mode().Perm()&0o222 == 0 }

// openFile opens a file with more parameters of SQLite's. Escaped, no character of the path starts one.
func openFile(file string, more ...string) (*sql.DB, error) {
	path := filepath.ToSlash(file)
	if runtime.GOOS == "windows" && !strings.HasPrefix(path, "/") {
		path = "/" + path // file:///C:/…
	}
	query := strings.Join(append([]string{"_pragma=busy_timeout(0)", "_pragma=synchronous(FULL)"}, more...), "&")
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query}
	db, err := sql.Open("sqlite", name.String())
	if err == nil {
		const connections = 8 // one writes, the others read
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	return db, err
}

// lookPause is the least time between two looks at the path of the database.
const lookPause = time.Second

// An identity knows the file that the path of a database led to when the store was opened. SQLite goes on writing to a
// file that was deleted or replaced, and its commits succeed: what they store is in no file that anybody finds.
//
// It never opens the file. To close any descriptor of it would drop the locks that SQLite has on it in this process.
//
// The committer alone uses it, and Close after that has ended.
type identity struct {
	path   string
	file   fs.FileInfo // nil for a database in memory, which is not looked for
	looked time.Time
	good   time.Time // when a look last found the file
	behind bool      // there are commits after that
	gone   error     // what is said from then on
}

// identify remembers the file at the path, which may be empty. It must be called after a transaction that can write: an
// overlay file system makes another file when SQLite opens it for that. The first append would be too late: a file that
// is replaced before it would not be noticed.
func identify(path string) (i identity) {
	info, err := os.Stat(path)
	if err != nil { // in memory; some have a name that looks like a path
		return i
	}
	os.SameFile(info, info) // Windows looks the file up when it is first compared
	now := time.Now()
	return identity{path: path, file: info, looked: now, good: now}
}

// look returns an error if the path is known to lead to another file or to none. It says nothing of a path that it
// cannot follow, for want of rights, for one.
func (i *identity) look(isDue bool) error {
	if i.file == nil || i.gone != nil || !isDue {
		return i.gone
	}
	i.looked = time.Now()
	what := "another file is there"
	switch found, err := os.Stat(i.path); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		what = "nothing is there"
	case err != nil:
		return i.gone
	case os.SameFile(i.file, found):
		i.good, i.behind = i.looked, false
		return nil
	}
	i.gone = fmt.Errorf("%w: %s; the last check was good at %s", ErrFileGone, what, i.good.UTC().Format(time.RFC3339))
	return i.gone
}

// answer returns the error of requests whose transaction ended with err. If the file is gone it says that, too, because
// SQLite's own error may name another cause, and no call is begun any more.
func (s *Store) answer(err error) error {
	s.identity.behind = s.identity.behind || err == nil
	gone := s.identity.look(time.Since(s.identity.looked) >= lookPause)
	if gone == nil {
		return err
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.ended = cmp.Or(s.queue.ended, gone)
	return errors.Join(gone, err)
}
