package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

//nolint:lll // a tag cannot be broken
type sessionsCmd struct {
	Live   bool   `help:"Only sessions that a process says it runs."`
	Ended  bool   `help:"Only sessions that have ended."`
	Host   string `placeholder:"NAME" help:"Only those whose latest attempt ran on this host."`
	Reason string `placeholder:"CODE" help:"Only those with this reason, such as watchdog_wall_clock_exceeded, failed or complete."`
	Parent string `placeholder:"RUN"  help:"Only the layers of this run."`
	Limit  int    `default:"50"       help:"List at most so many."`
	After  string `placeholder:"MARK" help:"Go on where a list ended: the mark that it printed last."`
}

// Help is the end of the command's help.
func (sessionsCmd) Help() string {
	return `The live sessions come first, then the others; of each the newest first. AGE is
how long ago the run was made, LASTED how long one took that has ended, and SIGN
how long ago it gave its last sign of life, or ended. WHY says which limit
stopped it, or for one that is ending what its command was sent and what follows.
A row is behind if its run was silent and is not any more, or ended, and its
process cannot write that: something has locked the row or refuses it.

With --json the list is one object: now, sessions, unreadable (texts), and next,
the mark for --after, if there may be more. A session has run_id, parent, status,
host, attempt, phase, created_at, age_seconds, last_sign_at, silent_seconds,
reason, why, resumes, started_at, ended_at, lasted_seconds, behind, and of a
command outcome (succeeded or failed), exit_status and signal, or ending (signal,
sent_at, next, next_at) while it is being ended; what is not known is left out.

Examples:
  watchdog sessions --store sqlite:state/sessions.db
  watchdog sessions --live --host worker-7
  watchdog sessions --ended --reason watchdog_idle_timeout --limit 10
  watchdog sessions --parent job-42 --json`
}

// Run prints a page of the list.
func (c sessionsCmd) Run(ctx context.Context, p Program, common *Common) error {
	return p.withStore(ctx, common, stores.Reading, func(db stores.Database) error {
		l, err := c.list(ctx, db)
		switch {
		case err != nil:
			return err
		case common.JSON:
			return l.printJSON(p.Stdout)
		}
		return l.print(p)
	})
}

// A sessionList is a page of the list, and what is needed to read it.
type sessionList struct {
	session.ListPage
	leases map[string]session.Lease
	mark   string // for the next page
}

// The parts of the list: each has a query of its own, and begins its marks.
const partLive, partEnded = "l", "e"

func (c sessionsCmd) parts() []string {
	switch {
	case c.Live == c.Ended:
		return []string{partLive, partEnded}
	case c.Live:
		return []string{partLive}
	}
	return []string{partEnded}
}

func (c sessionsCmd) list(ctx context.Context, db stores.Database) (l sessionList, err error) {
	parts, after, err := c.from()
	if err != nil {
		return l, err
	}
	left := c.Limit
	for i, part := range parts {
		page, err := db.List(ctx, session.ListQuery{
			Live: part == partLive, Ended: part == partEnded, Parent: c.Parent, Host: c.Host,
			Reason: watchdog.StopReason(c.Reason), Limit: left, After: after,
		})
		if err != nil {
			return l, err
		}
		l.Now = page.Now
		l.Sessions = append(l.Sessions, page.Sessions...)
		l.Unreadable = append(l.Unreadable, page.Unreadable...)
		left, after = left-len(page.Sessions), ""
		switch more := i+1 < len(parts); {
		case page.Next != "":
			l.mark = markOf(part, page.Next)
		case left <= 0 && more:
			l.mark = markOf(parts[i+1], "")
		default:
			continue
		}
		break
	}
	return l, l.readLeases(ctx, db)
}

// markOf is where a page of a part begins, as a text that needs no quotes in a shell.
func markOf(part, next string) string {
	return part + base64.RawURLEncoding.EncodeToString([]byte(next))
}

// from returns the parts that are left from the mark on, and where the first begins.
func (c sessionsCmd) from() (left []string, after string, err error) {
	all := c.parts()
	switch {
	case c.Limit < 1:
		return nil, "", fmt.Errorf("--limit is %d; write at least 1", c.Limit)
	case c.After == "":
		return all, "", nil
	}
	for i, part := range all {
		if encoded, ok := strings.CutPrefix(c.After, part); ok {
			if text, err := base64.RawURLEncoding.DecodeString(encoded); err == nil {
				return all[i:], string(text), nil
			}
		}
	}
	return nil, "", errors.New("--after: no list with these flags ended so; write the mark that it printed last")
}

// readLeases reads the leases by whose clocks the signs of life are, if there are any.
func (l *sessionList) readLeases(ctx context.Context, db stores.Database) error {
	if !slices.ContainsFunc(l.Sessions, func(s session.Session) bool { return s.Lease != "" }) {
		return nil
	}
	all, err := db.ObserveLeases(ctx, nil)
	l.leases = map[string]session.Lease{}
	for _, lease := range all {
		l.leases[lease.ID] = lease
	}
	return err
}

// lastSign returns when a run gave its last sign of life, by the database's clock. That of a run in a lease is by the
// clock of the lease's process, which is known at its last renewal.
func (l *sessionList) lastSign(s session.Session) time.Time {
	lease, found := l.leases[s.Lease]
	if s.Lease == "" || !found || s.Activity < 0 {
		return s.LastEventAt
	}
	return lease.RenewedAt.Add(s.Activity - lease.Clock)
}

// A span is a run's time from its start to its end.
type span struct {
	since  time.Time
	until  time.Time // zero while it is live, and where its row does not say
	lasted time.Duration
	why    string // it was stopped, or how far the end of its command is
}

// spanOf returns the time of a run as its story has it.
func (l *sessionList) spanOf(s session.Session) span {
	told := story.Of(story.Record{RunID: s.RunID, Row: &s}, l.Now)
	of := span{since: told.StartedAt}
	if of.since.IsZero() {
		of.since = s.CreatedAt
	}
	switch {
	case told.Escalation != nil:
		of.why = story.EscalationText(told.Escalation)
	case told.State == story.Stopped:
		of.why = told.End.Meaning
	}
	if told.End != nil && !told.End.AtLastSign {
		of.until, of.lasted = told.End.At, max(told.End.At.Sub(of.since), 0)
	}
	return of
}

func stateOf(s session.Session) (state session.State) {
	_ = json.Unmarshal(s.State, &state) // of another writer it may be anything
	return state
}

// print prints the page as a table, and what is not in it on the standard error.
func (l *sessionList) print(p Program) error {
	rows := term.Table{{"RUN", "STATUS", "HOST", "PHASE", "AGE", "LASTED", "SIGN", "REASON", "WHY"}}
	for _, s := range l.Sessions {
		of := l.spanOf(s)
		rows = append(rows, []string{
			s.RunID, rowStatus(s), s.Host, stateOf(s).Phase, ago(l.Now.Sub(s.CreatedAt)), of.String(), l.signAgo(s, of),
			reasonOf(s), of.why,
		})
	}
	if len(l.Sessions) > 0 {
		if err := rows.Print(p.Stdout); err != nil {
			return err
		}
	}
	for _, err := range l.Unreadable {
		p.say(term.Plain(err.Error()))
	}
	switch {
	case l.mark != "":
		p.say(fmt.Sprintf("there may be more: the same command with --after %s goes on", l.mark))
	case len(l.Sessions) == 0 && len(l.Unreadable) == 0:
		p.say("no session is as asked for")
	}
	return nil
}

// reasonOf is why a run ended, by which --reason finds it.
func reasonOf(s session.Session) string {
	if s.Failed() {
		return string(session.ReasonFailed)
	}
	return string(s.Reason)
}

// String is how long the run lasted, empty while it is live.
func (s span) String() string {
	if s.until.IsZero() {
		return ""
	}
	return ago(s.lasted)
}

// rowStatus returns the status, whether the command of the run is being ended, and whether the row is older than its
// run.
func rowStatus(s session.Session) string {
	status := string(s.Status)
	if story.EscalationOf(&s) != nil {
		status = string(story.Ending)
	}
	if s.Behind {
		return status + " (behind)"
	}
	return status
}

// signAgo is how long ago a run gave its last sign of life: that is its end, if it has one.
func (l *sessionList) signAgo(s session.Session, of span) string {
	at := l.lastSign(s)
	if of.until.After(at) {
		at = of.until
	}
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
	Behind    bool       `json:"behind,omitempty"`
	StartedAt time.Time  `json:"started_at,omitzero"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Lasted    *float64   `json:"lasted_seconds,omitempty"`
	Outcome   string     `json:"outcome,omitempty"`
	Exit      *int       `json:"exit_status,omitempty"`
	Signal    string     `json:"signal,omitempty"`
	// Ending is how far the end of the command of a live run is.
	Ending *session.Escalation `json:"ending,omitempty"`
	Why    string              `json:"why,omitempty"` // as the table has it
	// StartTries is how often the start of a cancelled run was claimed that a sweeper is to start again.
	StartTries int `json:"start_tries,omitempty"`
}

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
	return term.PrintJSON(out, page)
}

func (l *sessionList) listed(s session.Session) listedSession {
	one := listedSession{
		RunID: s.RunID, Parent: s.Parent, Status: string(s.Status), Host: s.Host, Attempt: s.Attempt, Phase: stateOf(s).Phase,
		CreatedAt: s.CreatedAt, Age: l.Now.Sub(s.CreatedAt).Seconds(), Reason: reasonOf(s), Resumes: s.Resumes,
		Behind: s.Behind, StartTries: s.Start.Tries, Ending: story.EscalationOf(&s),
	}
	if state := stateOf(s); s.Status == session.Finished {
		one.Outcome, one.Exit, one.Signal = state.Outcome, state.ExitStatus, state.Signal
	}
	of := l.spanOf(s)
	one.Why = of.why
	if one.StartedAt = of.since; !of.until.IsZero() {
		lasted := of.lasted.Seconds()
		one.EndedAt, one.Lasted = &of.until, &lasted
	}
	if at := l.lastSign(s); !at.IsZero() {
		silent := l.Now.Sub(at).Seconds()
		one.LastSign, one.Silent = &at, &silent
	}
	return one
}
