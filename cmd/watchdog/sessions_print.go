package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// lastSign returns when a run gave its last sign of life, by the database's clock. That of a run in a lease is by the
// clock of the lease's process, which is known at its last renewal.
func (l *sessionList) lastSign(s session.Session) time.Time {
	lease, found := l.leases[s.Lease]
	if s.Lease == "" || !found || s.Activity < 0 {
		return s.LastEventAt
	}
	return lease.RenewedAt.Add(s.Activity - lease.Clock)
}

// phaseOf returns what a run noted last.
func phaseOf(s session.Session) string {
	var state session.State
	_ = json.Unmarshal(s.State, &state) // of another writer it may be anything
	return state.Phase
}

// print prints the page as a table, and what is not in it on the standard error.
func (l *sessionList) print(p Program) error {
	rows := table{{"RUN", "STATUS", "HOST", "PHASE", "AGE", "SIGN", "REASON"}}
	for _, s := range l.Sessions {
		rows = append(rows, []string{
			s.RunID, string(s.Status), s.Host, phaseOf(s), ago(l.Now.Sub(s.CreatedAt)), l.signAgo(s), string(s.Reason),
		})
	}
	if len(l.Sessions) > 0 {
		if err := rows.print(p.Stdout); err != nil {
			return err
		}
	}
	for _, err := range l.Unreadable {
		p.say(plain(err.Error()))
	}
	switch {
	case l.mark != "":
		p.say(fmt.Sprintf("there may be more: the same command with --after %s goes on", l.mark))
	case len(l.Sessions) == 0 && len(l.Unreadable) == 0:
		p.say("no session is as asked for")
	}
	return nil
}

func (l *sessionList) signAgo(s session.Session) string {
	at := l.lastSign(s)
	if at.IsZero() {
		return "none"
	}
	return ago(l.Now.Sub(at))
}

// ago is a length of time in at most six characters. A clock that differs a little can make it negative.
func ago(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

// A listedSession is a session as JSON. Fields are added and never renamed.
type listedSession struct {
	RunID     string     `json:"run_id"`
	Parent    string     `json:"parent,omitempty"`
	Status    string     `json:"status"`
	Host      string     `json:"host,omitempty"`
	Attempt   int        `json:"attempt"`
	Phase     string     `json:"phase,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	Age       float64    `json:"age_seconds"`
	LastSign  *time.Time `json:"last_sign_at,omitempty"`
	Silent    *float64   `json:"silent_seconds,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Resumes   int        `json:"resumes,omitempty"`
}

// A listedPage is a page as JSON.
type listedPage struct {
	Now        time.Time       `json:"now"`
	Sessions   []listedSession `json:"sessions"`
	Unreadable []string        `json:"unreadable,omitempty"`
	Next       string          `json:"next,omitempty"`
}

func (l *sessionList) printJSON(out io.Writer) error {
	page := listedPage{Now: l.Now, Sessions: []listedSession{}, Next: l.mark}
	for _, s := range l.Sessions {
		page.Sessions = append(page.Sessions, l.listed(s))
	}
	for _, err := range l.Unreadable {
		page.Unreadable = append(page.Unreadable, err.Error())
	}
	return printJSON(out, page)
}

func (l *sessionList) listed(s session.Session) listedSession {
	one := listedSession{
		RunID: s.RunID, Parent: s.Parent, Status: string(s.Status), Host: s.Host, Attempt: s.Attempt, Phase: phaseOf(s),
		CreatedAt: s.CreatedAt, Age: l.Now.Sub(s.CreatedAt).Seconds(), Reason: string(s.Reason), Resumes: s.Resumes,
	}
	if at := l.lastSign(s); !at.IsZero() {
		silent := l.Now.Sub(at).Seconds()
		one.LastSign, one.Silent = &at, &silent
	}
	return one
}
