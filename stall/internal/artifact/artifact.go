package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Folder is the folder of the artifacts in that of their step.
const Folder = "_stall"

// The files in [Folder].
const (
	EventFile    = "event.json"
	ProbeFile    = "probe.jsonl"
	TailFile     = "stderr.tail.log"
	DecisionFile = "decision.json"
)

// patience is how often a write begins again because another process took away what it stood on: a temporary file, by [Open], or the folder.
const patience = 10

// A Dir is the folder of one step's artifacts. [Open] makes one. It is safe for concurrent use; of several processes on one step each may write files anew,
// but only one may append probes.
type Dir struct {
	step string

	mu      sync.Mutex
	root    *os.Root
	written map[string]bool // by this Dir; what an earlier one left is not pointed to
}

// Open opens the folder of a step's artifacts. The root folder is made where it is missing, with its parents, for this user only (0700); one that is there
// stays as it is and may be named by a symbolic link. The step's folders are made by the first write, so that a step that does not stall leaves none.
// Temporary files that a crashed process left in them are removed. Close the Dir when it is no longer needed.
//
// The error wraps [ErrInvalidStep], [ErrSymlink] or [ErrInTheWay], or is the file system's.
func Open(root, step string) (*Dir, error) {
	if err := CheckStep(step); err != nil {
		return nil, fmt.Errorf("open stall artifacts: %w", err)
	}
	r, err := openRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open stall artifacts: %w", err)
	}
	d := &Dir{step: step, root: r, written: map[string]bool{}}
	if err := d.tidy(); err != nil {
		return nil, errors.Join(fmt.Errorf("open stall artifacts %s: %w", d.path(""), err), r.Close())
	}
	return d, nil
}

func openRoot(root string) (*os.Root, error) {
	if root == "" {
		return nil, errors.New("the root folder is empty: name a folder, such as state/artifacts")
	}
	absolute, err := filepath.Abs(root) // for errors: the working directory may be another by then
	if err != nil {
		return nil, fmt.Errorf("%s: find the absolute path: %w", root, err)
	}
	if err := os.MkdirAll(absolute, folderMode); err != nil {
		return nil, fmt.Errorf("make the root folder: %w", err)
	}
	return os.OpenRoot(absolute)
}

// WriteTail writes the end of standard error, from which the caller removed what is secret.
func (d *Dir) WriteTail(tail []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.replace(TailFile, tail)
}

// Close gives the root folder back; later calls return an error that wraps [os.ErrClosed]. Closing again does nothing.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root.Close()
}

// replace writes a file anew and keeps that it was.
func (d *Dir) replace(name string, text []byte) error {
	return d.write(name, func(folder *os.Root) error { return replace(folder, name, text) })
}

// write does one write in the folder, and begins again where the folder changed under it.
func (d *Dir) write(name string, do func(folder *os.Root) error) error {
	err := d.inFolder(do)
	for try := 1; try < patience && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)); try++ {
		err = d.inFolder(do)
	}
	if err != nil {
		return fmt.Errorf("write stall artifact %s: %w", d.path(name), err)
	}
	d.written[name] = true
	return nil
}

func (d *Dir) inFolder(do func(folder *os.Root) error) error {
	step, err := makeFolder(d.root, d.step)
	if err != nil {
		return err
	}
	defer func() { _ = step.Close() }() // nothing was written through it
	folder, err := makeFolder(step, Folder)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return do(folder)
}

// tidy removes what a crashed process left, where there is a folder.
func (d *Dir) tidy() error {
	step, err := enterFolder(d.root, d.step)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = step.Close() }()
	folder, err := enterFolder(step, Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return errors.Join(checkFiles(folder), removeLeftovers(folder))
}

// pointer is the name of a file that was written, and empty for one that was not.
func (d *Dir) pointer(name string) string {
	if !d.written[name] {
		return ""
	}
	return name
}

func (d *Dir) path(name string) string { return filepath.Join(d.root.Name(), d.step, Folder, name) }
