package stall

import (
	"regexp"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/stall/internal/lines"
)

// quietMoment is after how long without output the start of a line is matched like a whole one: a prompt has no
// newline.
const quietMoment = 500 * time.Millisecond

// A matcher finds the terminal patterns in one output. It is safe for concurrent use.
type matcher struct {
	mu      sync.Mutex
	scanner *lines.Scanner
	quiet   *time.Timer // runs inside a line; nil before the first one
}

func newMatcher(patterns []*regexp.Regexp, found func(pattern int)) *matcher {
	return &matcher{scanner: lines.New(patterns, found)}
}

// look takes the next piece of output.
func (m *matcher) look(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scanner.Look(p)
	switch open := m.scanner.Open(); {
	case !open && m.quiet != nil:
		m.quiet.Stop()
	case open && m.quiet == nil:
		m.quiet = time.AfterFunc(quietMoment, m.matchStart)
	case open:
		m.quiet.Reset(quietMoment)
	}
}

// matchStart matches the start of a line.
func (m *matcher) matchStart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scanner.Quiet()
}

// end matches the last line.
func (m *matcher) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.quiet != nil {
		m.quiet.Stop()
	}
	m.scanner.End()
}
