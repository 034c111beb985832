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

// A Status is the state of a session.
type Status string

// The statuses. Every session but a Complete one can be continued, and that one begun again.
const (
	// Running is also the status after the session's process was killed.
	Running     Status = "running"
	Complete    Status = "complete"
	Blocked     Status = "blocked"
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
)

var statuses = []Status{Running, Complete, Blocked, Failed, Interrupted}

// A Session is the content of a session file. It is not safe for concurrent use.
type Session struct {
	ID string `json:"id"`
	// StartedAt is the start of the window over which the budget is measured.
	StartedAt Time   `json:"session_started_at"`
	Status    Status `json:"status"`
	// Phase is the current or the last phase; empty once the session is complete.
	Phase     string   `json:"phase"`
	Completed []string `json:"completed_phases"`
	// StopReason is set while the session is blocked.
	StopReason watchdog.StopReason `json:"stop_reason_code,omitempty"`
	Budget     Budget              `json:"budget"`
	// ElapsedSeconds is the used part of the window when the status was written.
	ElapsedSeconds int64 `json:"elapsed_seconds"`
	// Project is the working directory of the phases; empty for the built-in demo.
	Project   string `json:"project,omitempty"`
	CreatedAt Time   `json:"created_at"`
}

// A Time is written as in events: UTC, to the microsecond, always with six digits. Any RFC 3339 time is read.
type Time struct{ time.Time }

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)), nil
}

// NewID returns an ID for a session that is created at now. IDs sort by time.
func NewID(now time.Time) string {
	var random [4]byte
	rand.Read(random[:]) // never fails
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
}

var idShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,35}$`)

// ValidID reports whether a text can be a session's ID, and so the name of its directory.
func ValidID(id string) bool { return idShape.MatchString(id) }

// Done reports whether the phase is completed.
func (s *Session) Done(phase string) bool { return slices.Contains(s.Completed, phase) }

func (s *Session) encode() []byte {
	text, _ := json.MarshalIndent(s, "", "  ") // it cannot fail: all fields are strings, numbers and times
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
