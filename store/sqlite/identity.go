package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

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

// after returns an error if the path is known to lead to another file or to none. It looks once in each pause.
func (i *identity) after(committed bool) error {
	i.behind = i.behind || committed
	return i.look(time.Since(i.looked) >= lookPause)
}

// atLast is after for the commits since the last look.
func (i *identity) atLast() error { return i.look(i.behind) }

// look says nothing of a path that it cannot follow, for want of rights, for one.
func (i *identity) look(isDue bool) error {
	if i.file == nil || i.gone != nil || !isDue {
		return i.gone
	}
	i.looked = time.Now()
	switch found, err := os.Stat(i.path); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		i.gone = i.goneError("nothing is there")
	case err != nil:
	case !os.SameFile(i.file, found):
		i.gone = i.goneError("another file is there")
	default:
		i.good, i.behind = i.looked, false
	}
	return i.gone
}

func (i *identity) goneError(what string) error {
	return fmt.Errorf("%w: %s; the last check was good at %s", ErrFileGone, what, i.good.UTC().Format(time.RFC3339))
}

// answer returns the error of requests whose transaction ended with err. If the file is gone it says that, too, because
// SQLite's own error may name another cause, and no call is begun any more.
func (s *Store) answer(err error) error {
	gone := s.identity.after(err == nil)
	if gone == nil {
		return err
	}
	s.queue.refuse(gone)
	return errors.Join(gone, err)
}
