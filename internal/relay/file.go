package relay

import (
	"fmt"
	"os"
	"time"
)

// A File watches a regular file that a child writes to directly. It copies nothing, and it sees the writes of all
// processes. It is not safe for concurrent use.
type File struct {
	file    *os.File
	size    int64
	changed time.Time
	checked time.Time
}

// WatchFile begins to watch a host's file. It reports false for nil, a closed file and anything but a regular file. The
// host may close its own file. The caller must call [File.Close].
func WatchFile(f *os.File) (*File, bool) {
	if f == nil {
		return nil, false
	}
	file, err := duplicate(f)
	if err != nil {
		return nil, false
	}
	is, err := file.Stat()
	if err != nil || !is.Mode().IsRegular() {
		_ = file.Close() // nothing was written to it
		return nil, false
	}
	return &File{file: file, size: is.Size(), changed: is.ModTime(), checked: time.Now()}, true
}

// Changed reports whether the file was written to since the last call, or since [WatchFile], and when. The time is the
// file's modification time if that is between the two calls. Otherwise it is now, because a remote file system can have
// another clock. If the file cannot be examined, Changed reports false.
func (f *File) Changed() (at time.Time, changed bool) {
	is, err := f.file.Stat()
	now := time.Now()
	if err != nil {
		return time.Time{}, false
	}
	since := f.checked
	f.checked = now
	if is.Size() == f.size && is.ModTime().Equal(f.changed) {
		return time.Time{}, false
	}
	f.size, f.changed = is.Size(), is.ModTime()
	if f.changed.Before(since) || f.changed.After(now) {
		return now, true
	}
	return f.changed, true
}

// Close stops watching.
func (f *File) Close() error { return f.file.Close() }

// duplicate opens the file a second time, so that the host can close its own. It does not use [os.File.Fd], which would
// make the file block.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var second uintptr
	if raw.Control(func(own uintptr) { second, err = dup(own) }) != nil { // fails only on a closed file
		err = os.ErrClosed
	}
	if err != nil {
		return nil, fmt.Errorf("duplicate %s: %w", f.Name(), err)
	}
	return os.NewFile(second, f.Name()), nil
}
