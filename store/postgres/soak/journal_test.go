//go:build linux

package soak_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// What an entry of a journal is about.
const (
	attached  = "attached"  // a watchdog guards the run
	signalled = "signalled" // the run gives a sign of life, or the runs of a cohort do
	held      = "held"      // the run opens a hold
	released  = "released"  // it closes the hold, which is a sign of life
	completed = "completed" // Complete returned without an error
	ended     = "ended"     // the run's context is done
	recorded  = "recorded"  // Close returned without an error, so that the store has a stop of the window
	swept     = "swept"     // a sweeper was told that it cancelled the run
	unwritten = "unwritten" // the witness of the process could not write since then
)

// An entry is one line of a journal.
type entry struct {
	At      time.Duration
	What    string
	Run     string        `json:",omitempty"`
	Window  time.Time     `json:",omitzero"` // its start
	Attempt int           `json:",omitempty"`
	Cohort  string        `json:",omitempty"` // of the runs that are signalled together
	Cause   string        `json:",omitempty"`
	Since   time.Duration `json:",omitempty"`
}

// A journal is a file to which a process appends what it does. What was written is there also after a SIGKILL.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file: file}, err
}

// write appends an entry with the time. A journal that cannot be written ends the process: the judge could not trust it.
func (j *journal) write(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.At = sinceBoot()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "write the journal:", err)
		os.Exit(1)
	}
}

// A journalReader reads a journal that still grows.
type journalReader struct {
	path    string
	offset  int64
	entries []entry
}

// read returns all complete entries.
func (r *journalReader) read() ([]entry, error) {
	file, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the process was killed before it made one
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		return nil, err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r.entries, nil // a line without an end is read again
		}
		if err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, fmt.Errorf("read %s at %d: %w", r.path, r.offset, err)
		}
		r.offset += int64(len(line))
		r.entries = append(r.entries, e)
	}
}
