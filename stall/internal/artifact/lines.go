package artifact

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// appendLine adds a line to a file. What stands after the last newline was torn by a crash, or by a full disk, and is cut off first; a line that does not go in
// whole is taken out again. It is not synced: a probe is not worth waiting for a disk.
func appendLine(folder *os.Root, name string, text []byte) error {
	f, err := openLines(folder, name)
	if err != nil {
		return err
	}
	end, err := mend(folder, name, f)
	if err == nil {
		err = appendWhole(folder, name, f, text, end)
	}
	return errors.Join(err, f.Close())
}

func appendWhole(folder *os.Root, name string, f *os.File, text []byte, end int64) error {
	_, err := f.Write(text)
	if err == nil {
		return nil
	}
	return errors.Join(err, cut(folder, name, end))
}

// openLines opens a file to read and append; it makes one where none is.
func openLines(folder *os.Root, name string) (*os.File, error) {
	_, err := folder.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return folder.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, fileMode)
	}
	return openFile(folder, name, os.O_RDWR|os.O_APPEND)
}

// openFile opens a file that is there, and no link: what was opened is compared with what stood there, as in enterFolder.
func openFile(folder *os.Root, name string, flag int) (*os.File, error) {
	before, err := folder.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := checkFile(before, name); err != nil {
		return nil, err
	}
	f, err := folder.OpenFile(name, flag|noWaiting, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	switch {
	case err != nil:
	case !os.SameFile(before, after):
		err = fmt.Errorf("%w: %s was put in the place of another file just now", ErrSymlink, name)
	case hasOtherNames(after): // one of them may be outside the root
		err = fmt.Errorf("%w: %s is a file that has other names too; remove it", ErrInTheWay, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// mend cuts a file off after its last newline, and returns where that is.
func mend(folder *os.Root, name string, f *os.File) (end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end, err = endOfLines(f, info.Size())
	if err != nil || end == info.Size() {
		return end, err
	}
	return end, cut(folder, name, end)
}

// cut shortens a file through a handle of its own: one for appending may not on every system.
func cut(folder *os.Root, name string, size int64) error {
	f, err := openFile(folder, name, os.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// endOfLines looks for the last newline from the end, and returns the place after it.
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
