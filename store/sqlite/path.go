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

// maxConnections bounds the pool of Open: one writes, the others read.
const maxConnections = 8

// checkPath says what is wrong with a path before SQLite, whose error would be "unable to open database file", sees
// it. It returns the absolute path, because a pool opens connections later, when the working directory may be another.
func checkPath(path string) (string, error) {
	switch {
	case strings.TrimSpace(path) == "":
		return "", errors.New("the path is empty: name a file, such as state/events.db")
	case path == ":memory:":
		return "", errors.New("a database in memory keeps nothing: use watchdog.Memory, which needs no database")
	case strings.HasPrefix(path, "file:"):
		return "", fmt.Errorf("%s is a URI: give a plain path, or open the URI with sql.Open and pass the database to New", path)
	case os.IsPathSeparator(path[len(path)-1]):
		return "", fmt.Errorf("%s names a directory: name a file in it", path)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("the path %q has a NUL in it", path)
	}
	file, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: find the absolute path: %w", path, err)
	}
	return file, checkFile(file)
}

// checkFile checks that the path is a file or can become one. It does not open the file: closing it again would drop
// the locks that SQLite holds on it elsewhere in this process. What nobody may write is refused here, before
// SQLite makes files beside it, and for root too, who could.
func checkFile(file string) error {
	switch info, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file in it", file)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", file)
	case isReadOnly(info):
		return fmt.Errorf("%s is read-only (%v): make the file writable, or name another", file, info.Mode())
	}
	return checkFolder(file, filepath.Dir(file))
}

func checkFolder(file, folder string) error {
	switch info, err := os.Stat(folder); {
	case err != nil:
		return fmt.Errorf("%s: its folder is not there, create it first: %w", file, err)
	case !info.IsDir():
		return fmt.Errorf("%s: %s is not a directory", file, folder)
	case isReadOnly(info):
		return fmt.Errorf("%s: its folder is read-only (%v), and files beside the database are made in it: make the folder writable",
			file, info.Mode())
	}
	return nil
}

// isReadOnly says whether nobody may write; whether this user may is for SQLite to find out.
func isReadOnly(info fs.FileInfo) bool { return info.Mode().Perm()&0o222 == 0 }

// sourceName makes of a path the name that the driver takes. The path is escaped in it, so that no character
// of it is taken for the start of a parameter or a fragment.
func sourceName(file string) string {
	path := filepath.ToSlash(file)
	if runtime.GOOS == "windows" && !strings.HasPrefix(path, "/") {
		path = "/" + path // file:///C:/…
	}
	parameters := url.Values{"_pragma": {"busy_timeout(0)", "synchronous(FULL)"}}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: parameters.Encode()}).String()
}
