package relay

import (
	"os"
	"time"
)

// A File is a regular file that a child writes to by itself: nothing is copied, and whoever writes to it counts. It is for one goroutine.
type File struct {
	file    *os.File
	size    int64
	changed time.Time
	looked  time.Time
}

// WatchFile begins to watch a host's file. It reports false if that is not a regular file, or closed. The host may close its own.
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
	return &File{file: file, size: is.Size(), changed: is.ModTime(), looked: time.Now()}, true
}

// Changed says whether the file was written to since the last call, or since [WatchFile], and when: by its own time where that lies in between, and now
// where it does not, as a clock that is not this machine's may say. A file that cannot be looked at has not changed.
func (f *File) Changed() (at time.Time, changed bool) {
	is, err := f.file.Stat()
	now := time.Now()
	if err != nil {
		return time.Time{}, false
	}
	since := f.looked
	f.looked = now
	if is.Size() == f.size && is.ModTime().Equal(f.changed) {
		return time.Time{}, false
	}
	f.size, f.changed = is.Size(), is.ModTime()
	if f.changed.Before(since) || f.changed.After(now) {
		return now, true
	}
	return f.changed, true
}

// Close ends the watch.
func (f *File) Close() error { return f.file.Close() }
