//go:build linux

package histories_test

import (
	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// windows is how many windows a run has. An attempt begins in one of them, and several may begin in the same.
const windows = 2

// What a process does to a session.
const (
	doAttach   = "attach"
	doRead     = "read"
	doEnd      = "end"    // by its keeper
	doClaim    = "claim"  // by a sweeper, of the session as it read it
	doCancel   = "cancel" // the same
	doComplete = "complete"
)

// A sessionCall is a call about a run.
type sessionCall struct {
	Do string `json:"do"`
	// Attempt is the one that was judged, or that ends.
	Attempt int `json:"attempt,omitempty"`
	// Window is the one that an attempt begins in, or that is complete.
	Window int `json:"window,omitempty"`
	// By claims or cancels. A claim that is Brief can be over at any moment.
	By    string `json:"by,omitempty"`
	Brief bool   `json:"brief,omitempty"`
	// End is how an attempt ends.
	End sessionEnd `json:"end,omitzero"`
}

// A sessionEnd is how a session ended.
type sessionEnd struct {
	Status session.Status      `json:"status,omitempty"`
	Reason watchdog.StopReason `json:"reason,omitempty"`
}

// A sessionRow is what can be read of a row; zero if there is none.
type sessionRow struct {
	Attempt int `json:"attempt,omitempty"`
	sessionEnd
}

// A sessionAnswer is the answer to a call about a run.
type sessionAnswer struct {
	// Locked says that nothing was done, because another had locked what was to be changed.
	Locked bool `json:"locked,omitempty"`
	// Outcome is that of a claim and of a cancel.
	Outcome session.Outcome `json:"outcome,omitempty"`
	// Before and Row are the row of an attach, Row that of a read.
	Before sessionRow `json:"before,omitzero"`
	Row    sessionRow `json:"row,omitzero"`
	// End is how a window ended that was to be complete.
	End sessionEnd `json:"end,omitzero"`
}

// A sessionState is the row of a run, with the ends that are stored of its windows.
type sessionState struct {
	row    sessionRow
	window int    // of the attempt
	claim  string // by whom the attempt is claimed
	brief  bool   // that claim can be over
	ends   [windows]sessionEnd
}

var (
	completed = sessionEnd{session.Finished, "complete"}
	swept     = sessionEnd{session.Cancelled, watchdog.SessionIdleTimeout}
)

// sessions are judged by this model: a row has at most one end for each attempt, a window has one end in all, and who
// judged one attempt ends no other.
var sessions = objectOf("run", sessionState.step)

func (s sessionState) step(c sessionCall, a *sessionAnswer) (legal bool, next sessionState) {
	if a != nil && a.Locked {
		return true, s
	}
	switch c.Do {
	case doAttach:
		next = s.attach(c.Window)
		return a == nil || a.Before == s.row && a.Row == next.row, next
	case doEnd:
		return true, s.end(c.Attempt, c.End)
	case doClaim, doCancel:
		return s.judge(c, a)
	case doComplete:
		next = s.complete(c.Window)
		return a == nil || a.End == next.ends[c.Window], next
	default: // doRead
		return a == nil || a.Row == s.row, s
	}
}

// attach begins an attempt, which nobody has claimed.
func (s sessionState) attach(window int) sessionState {
	row := sessionRow{s.row.Attempt + 1, sessionEnd{Status: session.Active}}
	return sessionState{row: row, window: window, ends: s.ends}
}

// end ends an attempt unless it has ended, or is not the row's.
func (s sessionState) end(attempt int, end sessionEnd) sessionState {
	if s.runs(attempt) {
		s.row.sessionEnd = end
	}
	return s
}

// complete stores the end of a window unless there is one.
func (s sessionState) complete(window int) sessionState {
	if s.ends[window] == (sessionEnd{}) {
		s.ends[window] = completed
	}
	return s
}

// runs reports whether an attempt is the row's, and has not ended.
func (s sessionState) runs(attempt int) bool {
	return s.row.Attempt == attempt && s.row.Status == session.Active
}

// claimedBeside reports whether the attempt that was judged is claimed by another.
func (s sessionState) claimedBeside(c sessionCall) bool {
	return s.runs(c.Attempt) && s.claim != "" && s.claim != c.By
}

// judge is a claim or a cancel. While a brief claim of another is not surely over, the answer can be that it is there.
func (s sessionState) judge(c sessionCall, a *sessionAnswer) (legal bool, next sessionState) {
	outcome, next := s.judged(c)
	if a != nil && a.Outcome == session.Taken && s.brief && s.claimedBeside(c) {
		return true, s
	}
	return a == nil || a.Outcome == outcome, next
}

// judged says what comes of a claim or a cancel if a brief claim of another is over.
func (s sessionState) judged(c sessionCall) (session.Outcome, sessionState) {
	switch {
	case !s.runs(c.Attempt):
		return session.Changed, s
	case s.claimedBeside(c) && !s.brief:
		return session.Taken, s
	case s.ends[s.window] != sessionEnd{}:
		s.row.sessionEnd = s.ends[s.window]
		return session.EndStored, s
	case c.Do == doCancel:
		s.row.sessionEnd, s.ends[s.window] = swept, swept
		return session.Done, s
	}
	s.claim, s.brief = c.By, c.Brief
	return session.Done, s
}
