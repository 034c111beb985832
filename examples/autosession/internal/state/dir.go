package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// The errors of a [Dir] that a person can do something about.
var (
	// ErrNoSession says that the session does not exist. [Dir.Latest], [Dir.Load] and [Dir.Lock] wrap it.
	ErrNoSession = errors.New("no such session")
	// ErrCorrupt says that a session file is invalid. [Dir.Latest] and [Dir.Load] wrap it.
	ErrCorrupt = errors.New("corrupt session file")
)

// private is the mode of directories, secret that of files.
const (
	private = 0o700
	secret  = 0o600
)

const (
	sessionFile = "session.json"
	sessionsDir = "sessions"
	shownIDs    = 5
)

// A Dir is one state directory. Several processes can keep sessions in it at once. It is safe for concurrent use.
type Dir struct{ path string }

// Default returns the path of the default state directory: below the folder of the project, or, for the built-in one,
// a temporary one of this user.
func Default(project string) string {
	if project != "" {
		return filepath.Join(project, ".watchdog")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("watchdog-autosession-%d", os.Getuid()))
}

// At returns the directory at path, which need not exist.
func At(path string) (Dir, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, fmt.Errorf("find state directory %s: %w", path, err)
	}
	return Dir{absolute}, nil
}

// Make creates the directory if it does not exist. No version control keeps what is in it.
func (d Dir) Make() error {
	err := os.MkdirAll(d.path, private)
	if err == nil {
		err = d.checkOthers()
	}
	if err == nil {
		err = WriteFile(filepath.Join(d.path, ".gitignore"), []byte("*\n"))
	}
	if err != nil {
		return fmt.Errorf("create state directory: %w; name another one with -state", err)
	}
	return nil
}

// checkOthers returns an error if everybody can write to the directory: programs in it are run.
func (d Dir) checkOthers() error {
	const everybody = 0o002
	info, err := os.Stat(d.path)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&everybody != 0 {
		err = fmt.Errorf("everybody can write to %s", d.path)
	}
	return err
}

// Path returns the absolute path of the directory.
func (d Dir) Path() string { return d.path }

// Events returns the path of the database of events.
func (d Dir) Events() string { return filepath.Join(d.path, "events.db") }

// Log returns the path of the log of one phase of a session.
func (d Dir) Log(id, phase string) string { return filepath.Join(d.session(id), phase+".log") }

// Create saves a new session. Its directory must not exist.
func (d Dir) Create(s *Session) error {
	if err := os.MkdirAll(filepath.Join(d.path, sessionsDir), private); err != nil {
		return fmt.Errorf("create session %s: %w", s.ID, err)
	}
	if err := os.Mkdir(d.session(s.ID), private); err != nil {
		return fmt.Errorf("create session %s: %w", s.ID, err)
	}
	return d.Save(s)
}

// Save replaces the file of an existing session.
func (d Dir) Save(s *Session) error {
	if err := WriteFile(filepath.Join(d.session(s.ID), sessionFile), s.encode()); err != nil {
		return fmt.Errorf("save session %s: %w", s.ID, err)
	}
	return nil
}

// Load reads a session. It wraps [ErrNoSession], with the IDs of existing sessions, or [ErrCorrupt].
func (d Dir) Load(id string) (*Session, error) {
	path := filepath.Join(d.session(id), sessionFile)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, d.noSession(id)
	case err != nil:
		return nil, fmt.Errorf("load session %s: %w", id, err)
	}
	s, err := decode(text)
	if err == nil && s.ID != id {
		err = fmt.Errorf("it belongs to session %q", s.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w: %s: %w (its events are still in %s; "+
			"put the file back, or start a new session)", id, ErrCorrupt, path, err, d.Events())
	}
	return s, nil
}

// SetLatest makes session.json a link to the session's file.
func (d Dir) SetLatest(id string) error {
	link := filepath.Join(d.path, sessionFile)
	target := filepath.Join(sessionsDir, id, sessionFile)
	if now, err := os.Readlink(link); err == nil && now == target {
		return nil
	}
	fresh := filepath.Join(d.session(id), "link.tmp")
	_ = os.Remove(fresh) // left by a process that was killed
	if err := os.Symlink(target, fresh); err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	if err := os.Rename(fresh, link); err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	return nil
}

// Latest returns the ID of the session that session.json links to. It wraps [ErrNoSession] or [ErrCorrupt].
func (d Dir) Latest() (string, error) {
	link := filepath.Join(d.path, sessionFile)
	target, err := os.Readlink(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %s has none yet", ErrNoSession, d.path)
	case err != nil:
		return "", fmt.Errorf("%w: %s should link to a session; name one with -session: %w", ErrCorrupt, link, err)
	}
	return filepath.Base(filepath.Dir(target)), nil
}

func (d Dir) session(id string) string { return filepath.Join(d.path, sessionsDir, id) }

func (d Dir) noSession(id string) error {
	known := "there are no sessions"
	if ids := d.newest(shownIDs); len(ids) > 0 {
		known = "the last are " + strings.Join(ids, ", ")
	}
	return fmt.Errorf("%w: %s in %s; %s", ErrNoSession, id, d.path, known)
}

// newest returns up to n session IDs, newest first: IDs begin with their time.
func (d Dir) newest(n int) []string {
	entries, _ := os.ReadDir(filepath.Join(d.path, sessionsDir)) // only for an error's text
	slices.Reverse(entries)
	var ids []string
	for _, e := range entries[:min(n, len(entries))] {
		ids = append(ids, e.Name())
	}
	return ids
}
