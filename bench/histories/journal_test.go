//go:build linux

package histories_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A journal is the file in which a process notes its calls. A line is one write, so that a process which is killed
// leaves whole lines, but for the last.
type journal struct {
	file *os.File

	mu   sync.Mutex
	last int
	err  error // of the first write that failed
}

// A line is the begin of a call or, with Out, its answer.
type line struct {
	ID     int             `json:"id"` // of the call, in this journal
	At     time.Duration   `json:"at"` // since boot
	Object string          `json:"object,omitempty"`
	In     json.RawMessage `json:"in,omitempty"`
	Out    json.RawMessage `json:"out,omitempty"`
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file: file}, err
}

// call notes that a call about an object begins, and returns what notes its answer.
func (j *journal) call(object string, in any) (answered func(out any)) {
	j.mu.Lock()
	j.last++
	id := j.last
	j.mu.Unlock()
	j.write(line{ID: id, At: sinceBoot(), Object: object, In: j.encode(in)})
	return func(out any) {
		at := sinceBoot()
		j.write(line{ID: id, At: at, Out: j.encode(out)})
	}
}

func (j *journal) encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	j.fail(err)
	return text
}

func (j *journal) write(l line) {
	text := append(j.encode(l), '\n')
	_, err := j.file.Write(text)
	j.fail(err)
}

func (j *journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
}

// close returns the error of the first write that failed, too.
func (j *journal) close() error {
	err := j.file.Close()
	if j.err != nil {
		return j.err
	}
	return err
}

// readJournal returns the lines of a journal whose process has ended. A last line that was cut off is dropped.
func readJournal(path string) (lines []line, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for scanner := bufio.NewScanner(bytes.NewReader(whole)); scanner.Scan(); {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", path, err, scanner.Text())
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// sinceBoot returns how long this machine has been awake since it was started. All its processes agree on it.
func sinceBoot() time.Duration {
	const clockMonotonic = 1
	var t syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0)
	if failed != 0 {
		panic("read the monotonic clock: " + failed.Error())
	}
	return time.Duration(t.Nano())
}
