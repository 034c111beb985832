package story_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

// start is when the runs of the tests began, told is when their stories are.
var (
	start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	told  = start.Add(24 * time.Hour)
)

func at(d time.Duration) record.Stamp { return record.Stamp(start.Add(d)) }

// A script is the events of one run.
type script struct {
	run    string
	events []watchdog.Event
}

// add adds an event that was so long after the start.
func (s *script) add(after time.Duration, kind string, payload any) *script {
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(s.events)+1)
	s.events = append(s.events, watchdog.Event{
		ID: id, AggregateType: watchdog.AggregateType, AggregateID: s.run, Type: kind, Payload: record.JSON(payload),
		Timestamp: start.Add(after),
	})
	return s
}

func (s *script) lastID() string { return s.events[len(s.events)-1].ID }

func (s *script) record(row *session.Session, layers ...story.Record) story.Record {
	return story.Record{RunID: s.run, Events: s.events, Row: row, Layers: layers}
}

// row is the session of a run that was attached at the start.
func row(run string, status session.Status, state *session.State) *session.Session {
	r := &session.Session{
		RunID: run, Status: status, CreatedAt: start, LastEventAt: start, StartedAt: start, Host: "host-a", Attempt: 1,
	}
	if state != nil {
		r.State, _ = json.Marshal(state)
	}
	if status == session.Active {
		r.Lease = "lease-1"
	}
	return r
}

// trip adds the two events of a directive.
func (s *script) trip(after time.Duration, kind string, p record.Trip) *script {
	p.SessionStartedAt, p.FiredAt = at(0), at(after)
	s.add(after, watchdog.EventWarning, p)
	return s.add(after, kind, p)
}

func cancel(after time.Duration, reason string, used, allowed time.Duration) record.Cancel {
	return record.Cancel{
		Reason: reason, SessionStartedAt: at(0), FiredAt: at(after), Used: record.UsedOf(used, allowed),
	}
}

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
