package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
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
	return common.withStore(ctx, stores.Reading, func(db stores.Database) error {
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

// A part of the list has a query of its own.
type part struct {
	letter      string // begins its marks
	live, ended bool
}

// parts returns the parts that are wanted, in their order.
func (c sessionsCmd) parts() []part {
	live, ended := part{letter: "l", live: true}, part{letter: "e", ended: true}
	switch {
	case c.Live == c.Ended:
		return []part{live, ended}
	case c.Live:
		return []part{live}
	default:
		return []part{ended}
	}
}

// list returns a page of the list.
func (c sessionsCmd) list(ctx context.Context, db stores.Database) (l sessionList, err error) {
	parts, after, err := c.from()
	if err != nil {
		return l, err
	}
	left := c.Limit
	for i, s := range parts {
		page, err := db.List(ctx, session.ListQuery{
			Live: s.live, Ended: s.ended, Parent: c.Parent, Host: c.Host, Reason: watchdog.StopReason(c.Reason),
			Limit: left, After: after,
		})
		if err != nil {
			return l, err
		}
		l.add(page)
		left, after = left-len(page.Sessions), ""
		switch more := i+1 < len(parts); {
		case page.Next != "":
			l.mark = s.mark(page.Next)
		case left <= 0 && more:
			l.mark = parts[i+1].mark("")
		default:
			continue
		}
		break
	}
	return l, l.readLeases(ctx, db)
}

func (l *sessionList) add(page session.ListPage) {
	l.Now = page.Now
	l.Sessions = append(l.Sessions, page.Sessions...)
	l.Unreadable = append(l.Unreadable, page.Unreadable...)
}

// mark is where a page of it begins, as a text that needs no quotes in a shell.
func (s part) mark(next string) string {
	return s.letter + base64.RawURLEncoding.EncodeToString([]byte(next))
}

// from returns the parts that are left from the mark on, and where the first begins.
func (c sessionsCmd) from() (left []part, after string, err error) {
	all := c.parts()
	switch {
	case c.Limit < 1:
		return nil, "", fmt.Errorf("--limit is %d; write at least 1", c.Limit)
	case c.After == "":
		return all, "", nil
	}
	for i, s := range all {
		if encoded, ok := strings.CutPrefix(c.After, s.letter); ok {
			if text, err := base64.RawURLEncoding.DecodeString(encoded); err == nil {
				return all[i:], string(text), nil
			}
		}
	}
	return nil, "", errors.New("--after: no list with these flags ended so; write the mark that it printed last")
}

// readLeases reads the leases by whose clocks the signs of life are, if there are any.
func (l *sessionList) readLeases(ctx context.Context, db stores.Database) error {
	for _, s := range l.Sessions {
		if s.Lease == "" {
			continue
		}
		all, err := db.ObserveLeases(ctx, nil)
		if err != nil {
			return err
		}
		l.leases = map[string]session.Lease{}
		for _, lease := range all {
			l.leases[lease.ID] = lease
		}
		return nil
	}
	return nil
}
