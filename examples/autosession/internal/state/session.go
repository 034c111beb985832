package state

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// New returns a session that begins now with its first phase. IDs sort by time.
func New(now time.Time, phase string) *Session {
	var random [4]byte
	rand.Read(random[:]) // never fails
	return &Session{
		ID:        now.UTC().Format("20060102-150405-") + hex.EncodeToString(random[:]),
		StartedAt: Time{now}, CreatedAt: Time{now}, Status: Running, Phase: phase, Completed: []string{},
	}
}

var idShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,35}$`)

// ValidID reports whether a text can be a session's ID, and so the name of its directory.
func ValidID(id string) bool { return idShape.MatchString(id) }

// A Time is written as in events: UTC, to the microsecond, always with six digits. Any RFC 3339 time is read.
type Time struct{ time.Time }

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)), nil
}

// A Budget is a session's budget in its file: the limits of its last run. They apply again unless the user sets others.
type Budget struct {
	// WallClockSeconds is 0 for no limit.
	WallClockSeconds float64   `json:"wall_clock_seconds"`
	WarnAt           []float64 `json:"warn_at"`
	ReserveSeconds   float64   `json:"reserve_seconds"`
}

// KeepBudget returns the file's form of a budget.
func KeepBudget(b watchdog.Budget) Budget {
	kept := Budget{WarnAt: b.WarnAt, ReserveSeconds: b.Reserve.Seconds()}
	if b.WallClock != watchdog.NoLimit {
		kept.WallClockSeconds = cmp.Or(b.WallClock, watchdog.DefaultWallClock).Seconds()
	}
	return kept
}

// Limits returns the budget for the watchdog, exact to the nanosecond as far as float64 is.
func (b Budget) Limits() watchdog.Budget {
	length := func(seconds float64) time.Duration { return time.Duration(math.Round(seconds * float64(time.Second))) }
	return watchdog.Budget{
		WallClock: cmp.Or(length(b.WallClockSeconds), watchdog.NoLimit),
		WarnAt:    b.WarnAt, Reserve: length(b.ReserveSeconds),
	}
}

// decode reads the file of the session with this ID.
func decode(id string, text []byte) (*Session, error) {
	s := &Session{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	switch {
	case s.ID != id:
		return nil, fmt.Errorf("it belongs to session %q", s.ID)
	case s.StartedAt.IsZero():
		return nil, errors.New("session_started_at is missing")
	case !slices.Contains(statuses, s.Status):
		return nil, fmt.Errorf("status %q is none of %v", s.Status, statuses)
	}
	return s, s.Budget.Limits().Validate()
}
