// Package artifact writes the files that describe a trip of the stall sentinel. Each file is there whole or not at all:
//
//	<root>/<step>/_stall/event.json       what tripped, what was done about it and how the command ended
//	<root>/<step>/_stall/probe.jsonl      a line for each probe
//	<root>/<step>/_stall/stderr.tail.log  the end of standard error
//	<root>/<step>/_stall/decision.json    for a completion check: that it is incomplete, and why
//
// A file is written under a temporary name, synced, and then renamed: a reader sees the old file or the new one. Other
// programs read these files, so the bytes of all but stderr.tail.log are a contract.
//
// Nothing outside of the root is touched, whatever a step is called and whatever is in its folder. A step's name is one
// path element ([CheckStep]), the root stays the folder that it was when it was opened, and a symbolic link below it is
// refused even if it points inside. Every call walks down from the root again, so that it sees a link, or a missing
// folder, that was not there before.
//
// The files of an earlier attempt at the same step keep their names until [Dir.SetAside] puts "previous." before them.
//
// The package does not decide, does not redact and does not limit the size of what it writes.
package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder is the folder of the artifacts, inside the folder of their step.
const Folder = "_stall"

// The files in [Folder].
const (
	EventFile    = "event.json"
	ProbeFile    = "probe.jsonl"
	TailFile     = "stderr.tail.log"
	DecisionFile = "decision.json"
)

// previous begins the name of a file of the attempt before.
const previous = "previous."

// names are those of all files, those that point to others first.
var names = []string{DecisionFile, EventFile, ProbeFile, TailFile}

// maxTries is how often to try a write if another process removes the temporary file, as [Open] does, or the folder.
const maxTries = 10

// A Dir is the folder of one step's artifacts. [Open] makes one. It is not safe for concurrent use. If several
// processes use the same step, each of them may replace files, but only one may append probes.
type Dir struct {
	step  string
	given string // the root folder as the caller named it

	root    *os.Root
	written map[string]bool // by this Dir, so that nothing points to the files of an earlier one
}

// Open opens the folder of a step's artifacts. It makes the root folder and its parents if they are missing, for this
// user only (0700). An existing root stays as it is, and root may be a symbolic link to it. The first write makes the
// step's folders, so that a step that does not stall leaves none. Open removes temporary files that a crashed process
// left there. The caller must close the Dir.
//
// The step must be one that [CheckStep] allows. Open wraps [ErrSymlink], [ErrInTheWay] or an error of the file system.
func Open(root, step string) (*Dir, error) {
	r, err := openRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open stall artifacts: %w", err)
	}
	d := &Dir{step: step, given: root, root: r, written: map[string]bool{}}
	if err := d.inOldFolder(removeTemporaries); err != nil {
		return nil, errors.Join(fmt.Errorf("open stall artifacts %s: %w", d.path(""), err), r.Close())
	}
	return d, nil
}

func openRoot(root string) (*os.Root, error) {
	absolute, err := filepath.Abs(root) // for errors, because the working directory can change
	if err != nil {
		return nil, fmt.Errorf("%s: find the absolute path: %w", root, err)
	}
	if err := os.MkdirAll(absolute, folderMode); err != nil {
		return nil, fmt.Errorf("make the root folder: %w", err)
	}
	return os.OpenRoot(absolute)
}

// SetAside renames the files of an earlier attempt, so that none of them passes for one of this attempt: event.json
// becomes previous.event.json, and so on. What was set aside before is removed. Each rename is atomic, and a crash in
// between leaves no file under its own name that points to one that is not there.
func (d *Dir) SetAside() error {
	err := d.inOldFolder(func(folder *os.Root) error {
		for _, name := range names {
			if err := folder.Remove(previous + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		for _, name := range names {
			if err := folder.Rename(name, previous+name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set the stall artifacts of an earlier attempt aside in %s: %w", d.path(""), err)
	}
	clear(d.written)
	return nil
}

// WriteTail writes stderr.tail.log. The caller has to remove secrets from the tail.
func (d *Dir) WriteTail(tail []byte) error {
	return d.replace(TailFile, tail)
}

// Close closes the root folder. Later calls of other methods wrap [os.ErrClosed]. Closing again does nothing.
func (d *Dir) Close() error {
	return d.root.Close()
}

// replaceDocument replaces a file by a value as indented JSON.
func (d *Dir) replaceDocument(name string, v any) error {
	text, err := encode(v, "  ")
	if err != nil {
		return err
	}
	return d.replace(name, text)
}

// replace replaces a file and notes that this Dir wrote it.
func (d *Dir) replace(name string, text []byte) error {
	return d.write(name, func(folder *os.Root) error { return replace(folder, name, text) })
}

// write does one write in the folder. It tries again if another process changed the folder meanwhile.
func (d *Dir) write(name string, do func(folder *os.Root) error) error {
	err := d.inFolder(makeFolder, do)
	for try := 1; try < maxTries && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)); try++ {
		err = d.inFolder(makeFolder, do)
	}
	if err != nil {
		return fmt.Errorf("write stall artifact %s: %w", d.path(name), err)
	}
	d.written[name] = true
	return nil
}

// inFolder does something in the folder, which it enters by open, as it does the step's.
func (d *Dir) inFolder(open func(*os.Root, string) (*os.Root, error), do func(folder *os.Root) error) error {
	step, err := open(d.root, d.step)
	if err != nil {
		return err
	}
	defer func() { _ = step.Close() }() // only a folder: nothing is lost
	folder, err := open(step, Folder)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return do(folder)
}

// inOldFolder does something in the folder if it is there. It fails if something else is in the place of a file.
func (d *Dir) inOldFolder(do func(folder *os.Root) error) error {
	err := d.inFolder(enterFolder, func(folder *os.Root) error {
		if err := checkFiles(folder); err != nil {
			return err
		}
		return do(folder)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// pointer returns the name of a file that this Dir wrote, and an empty text for any other.
func (d *Dir) pointer(name string) string {
	if !d.written[name] {
		return ""
	}
	return name
}

// fromRoot is [Dir.pointer] with the path that the caller can open, in the form of every system.
func (d *Dir) fromRoot(name string) string {
	if d.pointer(name) == "" {
		return ""
	}
	return filepath.ToSlash(filepath.Join(d.given, d.step, Folder, name))
}

func (d *Dir) path(name string) string { return filepath.Join(d.root.Name(), d.step, Folder, name) }
