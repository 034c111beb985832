package state

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Status is how a session stands.
type Status string

// The statuses. Only Complete is final: every other session can be taken up again.
const (
	// Running is also the status of a session whose process was killed.
	Running     Status = "running"
	Complete    Status = "complete"
	Blocked     Status = "blocked"
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
)

var statuses = []Status{Running, Complete, Blocked, Failed, Interrupted}

// A Session is what is kept of a session. It is not safe for concurrent use.
type Session struct {
	ID string `json:"id"`
	// StartedAt is the start of the window that the budget is measured over.
	StartedAt Time   `json:"session_started_at"`
	Status    Status `json:"status"`
	// Phase is the phase that the session is in or stopped in; empty once it is complete.
	Phase     string   `json:"phase"`
	Completed []string `json:"completed_phases"`
	// StopReason is set while the session is blocked.
	StopReason watchdog.StopReason `json:"stop_reason_code,omitempty"`
	Budget     Budget              `json:"budget"`
	// ElapsedSeconds is what was used of the window when the status was written.
	ElapsedSeconds int64 `json:"elapsed_seconds"`
	// Project is the directory that the phases run in; empty for the one that is shipped.
	Project   string `json:"project,omitempty"`
	CreatedAt Time   `json:"created_at"`
}

// A Time is a time as events have it: UTC, to the microsecond, always with six digits. Any RFC 3339 is read.
type Time struct{ time.Time }

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)), nil
}

// NewID returns an ID for a session that is created now. IDs sort by time.
func NewID(now time.Time) string {
	var random [4]byte
	rand.Read(random[:]) // never fails
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
}

var idShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,35}$`)

// ValidID reports whether a text can be the ID of a session, and so the name of its directory.
func ValidID(id string) bool { return idShape.MatchString(id) }

// Done reports whether a phase was completed.
func (s *Session) Done(phase string) bool { return slices.Contains(s.Completed, phase) }

func (s *Session) encode() []byte {
	text, _ := json.MarshalIndent(s, "", "  ") // strings, numbers and times in this era: it cannot fail
	return append(text, '\n')
}

// decode reads a session file. Older versions wrote the window's start as started_at: decode still reads that key.
func decode(text []byte) (*Session, error) {
	s := &Session{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	if s.StartedAt.IsZero() {
		var older struct {
			StartedAt Time `json:"started_at"`
		}
		if err := json.Unmarshal(text, &older); err != nil {
			return nil, err
		}
		s.StartedAt = older.StartedAt
	}
	switch {
	case s.StartedAt.IsZero():
		return nil, errors.New("session_started_at is missing")
	case !slices.Contains(statuses, s.Status):
		return nil, fmt.Errorf("status %q is none of %v", s.Status, statuses)
	}
	return s, s.Budget.Limits().Validate()
}
