package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxConnections limits the pool of Open: one connection writes, the others read.
const maxConnections = 8

// absolutePath says what is wrong with a path, where SQLite would only say "unable to open database file". It returns
// the absolute path, because the pool opens connections later, when the working directory may have changed.
func absolutePath(path string) (string, error) {
	switch {
	case strings.TrimSpace(path) == "":
		return "", errors.New("the path is empty: name a file, such as state/events.db")
	case path == ":memory:":
		return "", errors.New("a database in memory keeps nothing: use watchdog.Memory, which needs no database")
	case strings.HasPrefix(path, "file:"):
		return "", fmt.Errorf("%s is a URI: use a plain path, "+
			"or open the URI with sql.Open and pass the database to New", path)
	case os.IsPathSeparator(path[len(path)-1]):
		return "", fmt.Errorf("%s names a directory: name a file in it", path)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("the path %q contains a NUL", path)
	}
	file, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: find the absolute path: %w", path, err)
	}
	return file, nil
}

// checkFile checks that the path is a file or can become one. It does not open the file: closing it again would drop
// the locks that SQLite holds on it elsewhere in this process. It refuses a file without write permission, for root as
// well, before SQLite creates files beside it.
func checkFile(file string) error {
	switch info, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case checkKind(file, info) != nil:
		return checkKind(file, info)
	case isReadOnly(info):
		return fmt.Errorf("%s is read-only (%v): make the file writable, name another, or use OpenReadOnly",
			file, info.Mode())
	}
	return checkFolder(file, filepath.Dir(file))
}

func checkKind(file string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file in it", file)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", file)
	}
	return nil
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

// sourceName returns the driver's name for a path, with more parameters of SQLite's. It escapes the path, so that no
// character of it starts a parameter or a fragment.
func sourceName(file string, more ...string) string {
	path := filepath.ToSlash(file)
	if runtime.GOOS == "windows" && !strings.HasPrefix(path, "/") {
		path = "/" + path // file:///C:/…
	}
	parameters := append([]string{"_pragma=busy_timeout(0)", "_pragma=synchronous(FULL)"}, more...)
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: strings.Join(parameters, "&")}).String()
}
