// Package state stores what a session must remember between two processes, in one directory:
//
//	session.json                a link to the file of the last session
//	events.db                   the events of all sessions
//	sessions/ID/session.json    one session
//	sessions/ID/PHASE.log       the output of a phase's command
//	sessions/ID/lock            locked by the process that runs the session
//
// Save replaces a session.json as a whole and syncs it first: a process that is killed at any point leaves the old file
// or the new one. Only the user can read the directories and files.
//
// The package does not know the rules of a session: its caller decides which phase comes next and when a session stops.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// private is the mode of directories, secret that of files.
const (
	private = 0o700
	secret  = 0o600
)

const (
	sessionFile = "session.json"
	sessionsDir = "sessions"
)

// A Dir is the absolute path of a state directory. Several processes can keep sessions in it at once.
type Dir string

func (d Dir) join(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// Events returns the path of the database of events.
func (d Dir) Events() string { return d.join("events.db") }

// Session returns the path of a session's directory.
func (d Dir) Session(id string) string { return d.join(sessionsDir, id) }

// Log returns the path of the log of one phase of a session.
func (d Dir) Log(id, phase string) string { return d.join(sessionsDir, id, phase+".log") }

func (d Dir) file(id string) string { return d.join(sessionsDir, id, sessionFile) }

// Make creates the directory if it does not exist. No version control keeps what is in it. One that everybody can write
// to is refused: programs in it are run.
func (d Dir) Make() error {
	const everybody = 0o002
	err := os.MkdirAll(string(d), private)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(string(d))
	}
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&everybody != 0 {
		err = fmt.Errorf("everybody can write to %s", d)
	}
	if err == nil {
		err = os.WriteFile(d.join(".gitignore"), []byte("*\n"), secret)
	}
	if err != nil {
		return fmt.Errorf("create state directory: %w; name another one with -state", err)
	}
	return nil
}

// Create saves a new session. Its directory must not exist.
func (d Dir) Create(s *Session) error {
	err := os.MkdirAll(d.join(sessionsDir), private)
	if err == nil {
		err = os.Mkdir(d.Session(s.ID), private)
	}
	if err != nil {
		return fmt.Errorf("create session %s: %w", s.ID, err)
	}
	return d.Save(s)
}

// Save replaces the file of an existing session as a whole.
func (d Dir) Save(s *Session) error {
	text, _ := json.MarshalIndent(s, "", "  ") // it cannot fail: all fields are strings, numbers and times
	fresh := d.file(s.ID) + ".new"
	file, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, secret)
	if err == nil {
		_, err = file.Write(append(text, '\n'))
		err = errors.Join(err, file.Sync(), file.Close())
	}
	if err == nil {
		err = os.Rename(fresh, d.file(s.ID))
	}
	if err != nil {
		return fmt.Errorf("save session %s: %w", s.ID, err)
	}
	return nil
}

// Find returns an error with the IDs of the last sessions if there is no session with this one.
func (d Dir) Find(id string) error {
	_, err := os.Stat(d.file(id))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, _ := os.ReadDir(d.join(sessionsDir)) // only for the error's text
	var last []string
	for _, e := range entries[max(0, len(entries)-5):] { // IDs begin with their time
		last = append(last, e.Name())
	}
	return fmt.Errorf("no such session: %s in %s; the last of %d are: %s", id, d, len(entries), strings.Join(last, ", "))
}

// Load reads a session.
func (d Dir) Load(id string) (*Session, error) {
	text, err := os.ReadFile(d.file(id))
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w", id, err)
	}
	s, err := decode(id, text)
	if err != nil {
		return nil, fmt.Errorf("load session %s: corrupt session file %s: %w (its events are still in %s; "+
			"put the file back, or start a new session)", id, d.file(id), err, d.Events())
	}
	return s, nil
}

// SetLatest makes session.json a link to the session's file. It points to a place in the directory, which can be moved.
func (d Dir) SetLatest(id string) error {
	fresh := filepath.Join(d.Session(id), "link.tmp")
	_ = os.Remove(fresh) // left by a process that was killed
	err := os.Symlink(filepath.Join(sessionsDir, id, sessionFile), fresh)
	if err == nil {
		err = os.Rename(fresh, d.join(sessionFile))
	}
	if err != nil {
		return fmt.Errorf("link the last session: %w", err)
	}
	return nil
}

// Latest returns the ID of the session that session.json links to.
func (d Dir) Latest() (string, error) {
	target, err := os.Readlink(d.join(sessionFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no such session: %s has none yet", d)
	case err != nil:
		return "", fmt.Errorf("%s should link to a session; name one with -session: %w", d.join(sessionFile), err)
	}
	return filepath.Base(filepath.Dir(target)), nil
}

// Lock makes this process the only one that runs the session, until it calls release or ends. Two processes on one
// session would still record one stop, but both would run its phases and overwrite the session's file. Lock does not
// wait: its error names the other process. Where a system has no such locks, it always succeeds.
func (d Dir) Lock(id string) (release func(), err error) {
	if err := d.Find(id); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(d.Session(id), "lock"), os.O_RDWR|os.O_CREATE, secret)
	if err != nil {
		return nil, fmt.Errorf("lock session %s: %w", id, err)
	}
	release = func() { _ = file.Close() } // nothing was written
	switch pid, err := lock(file); {
	case err != nil:
		release()
		return nil, fmt.Errorf("lock session %s: %w", id, err)
	case pid != 0:
		release()
		return nil, fmt.Errorf("session %s is being run by process %d; wait for it to end, or interrupt it", id, pid)
	}
	return release, nil
}
