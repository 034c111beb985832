package page

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

// A row is a session in the list.
type row struct {
	RunID, Parent, Host, Phase string
	Live                       bool
	// Status is what the row says, Said and Why what its story does.
	Status, Said string
	Reason, Why  string
	Attempt      int
	Holds        int
	Escalation   *session.Escalation // of a run that is ending
	// WrappedUp tells that the run was asked to return what it has, Warned that a sweeper is about to cancel it.
	WrappedUp, Warned, StopFailed bool
	// Behind tells that the run has woken up, and that its process cannot write the row.
	Behind bool
	// Until is when it ended, or with LastSign its last sign of life, because the row does not say when it ended.
	Since, Until time.Time
	LastSign     bool
	Age          time.Duration
	Bars         []bar
	// Nearest is the limit that is nearest its end, until TurnsAt, when another is; zero for never.
	Nearest *bar
	TurnsAt time.Time
	Depth   int // how many runs of the list are around it
	Version string
}

// rowOf draws a session, at the database's time now.
func rowOf(s session.Session, now time.Time) row {
	var state session.State
	_ = json.Unmarshal(s.State, &state) // another program's state has no bars
	since := began(&s)
	told := story.Of(story.Record{RunID: s.RunID, Row: &s}, now)
	r := row{
		RunID: s.RunID, Parent: s.Parent, Host: s.Host, Phase: state.Phase, Live: s.Status == session.Active,
		Status: string(s.Status), Said: string(told.State), Reason: string(s.Reason), Attempt: s.Attempt,
		Since: since, StopFailed: s.StopFailed, Version: versionOf(s),
	}
	if told.State == story.Failed {
		r.Reason = string(session.ReasonFailed)
	}
	if told.End != nil {
		r.Why, r.Until, r.LastSign = told.End.Meaning, told.End.At, told.End.AtLastSign
	}
	if !r.Live {
		r.Age = r.Until.Sub(since)
		return r
	}
	r.Age, r.Bars = now.Sub(since), barsOf(s, state, now)
	var turns float64
	if r.Nearest, turns = nearest(r.Bars); turns > 0 {
		r.TurnsAt = now.Add(seconds(turns))
	}
	r.Holds, r.WrappedUp, r.Warned, r.Behind = state.Holds, state.WrappedUp, !s.WarnedAt.IsZero(), s.Behind
	r.Escalation = told.Escalation
	return r
}

// began is when the window of a session began, or for one without a start when its row did.
func began(s *session.Session) time.Time {
	if s.StartedAt.IsZero() {
		return s.CreatedAt
	}
	return s.StartedAt
}

// versionOf is different for rows that look different. What only time changes is not in it.
func versionOf(s session.Session) string {
	hash := fnv.New64a()
	for _, text := range []string{
		string(s.Status), string(s.Reason), s.Parent, s.Host, strconv.Itoa(s.Attempt), string(s.State),
	} {
		_, _ = hash.Write([]byte(text)) // never fails
		_, _ = hash.Write([]byte{0})
	}
	flags := byte(0)
	for i, set := range []bool{!s.WarnedAt.IsZero(), s.StopFailed, s.Silence > 0, s.Lease != "", s.Behind} {
		if set {
			flags |= 1 << i
		}
	}
	_, _ = hash.Write([]byte{flags})
	_, _ = hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(s.StartedAt.UnixMicro())))
	return strconv.FormatUint(hash.Sum64(), 36)
}

// quietSince is since when a live session is silent; zero if it is not known to be.
func quietSince(s session.Session, now time.Time) time.Time {
	switch {
	case s.Status != session.Active:
	case s.Lease == "":
		return s.SilentSince()
	case s.Silence > 0:
		return now.Add(-s.Silence)
	}
	return time.Time{}
}
