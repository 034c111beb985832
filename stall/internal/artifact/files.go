package artifact

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// replace replaces a file, or leaves it as it is. It writes and syncs a temporary file and then renames it. If a
// symbolic link was put in the file's place after the check, the rename replaces the link and does not follow it.
func replace(folder *os.Root, name string, text []byte) error {
	if err := checkIfThere(folder, name); err != nil {
		return err
	}
	defer lockShared(folder)()
	temp := tempPrefix + rand.Text()
	err := create(folder, temp, text)
	if err == nil {
		err = folder.Rename(temp, name)
	}
	if err != nil {
		_ = folder.Remove(temp) // it takes room on a full disk; the next Open tries again
		return err
	}
	return syncFolder(folder)
}

func create(folder *os.Root, name string, text []byte) error {
	f, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// encode returns a value as JSON with a newline at the end: on one line, or with an indent.
func encode(v any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// list returns an empty list in place of nil, which JSON would show as null.
func list[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}

// appendLine appends a line to a file. First it removes an incomplete last line, which a crash or a full disk can
// leave. If the line cannot be written whole, it is removed again. The file is not synced, because a probe is not
// worth waiting for the disk.
func appendLine(folder *os.Root, name string, text []byte) error {
	f, err := openFile(folder, name, os.O_RDWR|os.O_APPEND)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = folder.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, fileMode)
	}
	if err != nil {
		return err
	}
	end, err := removeTornLine(folder, name, f)
	if err == nil {
		if _, err = f.Write(text); err != nil {
			err = errors.Join(err, truncate(folder, name, end))
		}
	}
	return errors.Join(err, f.Close())
}

// openFile opens an existing file that is not a symbolic link. Like enterFolder it compares what it opened with what
// was there before.
func openFile(folder *os.Root, name string, flag int) (*os.File, error) {
	before, err := folder.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := checkFile(before, name); err != nil {
		return nil, err
	}
	f, err := folder.OpenFile(name, flag|nonblock, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	switch {
	case err != nil:
	case !os.SameFile(before, after):
		err = fmt.Errorf("%w: %s was put in the place of another file just now", ErrSymlink, name)
	case hasHardLinks(after): // one of them may be outside of the root
		err = fmt.Errorf("%w: %s is a file that has other names too; remove it", ErrInTheWay, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeTornLine cuts a file off after its last newline, and returns the new size.
func removeTornLine(folder *os.Root, name string, f *os.File) (end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end, err = endOfLines(f, info.Size())
	if err != nil || end == info.Size() {
		return end, err
	}
	return end, truncate(folder, name, end)
}

// truncate shortens a file. It opens the file again, because some systems cannot truncate a file that is open for
// appending.
func truncate(folder *os.Root, name string, size int64) error {
	f, err := openFile(folder, name, os.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// endOfLines searches backwards for the last newline and returns the offset after it.
func endOfLines(f io.ReaderAt, size int64) (int64, error) {
	block := make([]byte, 4096)
	for size > 0 {
		from := max(size-int64(len(block)), 0)
		part := block[:size-from]
		if _, err := f.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		size = from
	}
	return 0, nil
}
