package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/unwrap"
	"github.com/seed62658d38/watchdog/session"
)

const (
	// maxVanished is how many rows that are not live any more one look reads. The others wait for the next.
	maxVanished = 200
	// driftOfSilence is by how much the start of a silence may differ from what was sent.
	driftOfSilence = 5 * time.Second
)

// A looker compares the live sessions with those that it saw before.
type looker struct {
	page  *Page
	seen  map[string]seen
	first bool
	more  bool // there are more live sessions than it looks at
	down  bool
}

// A seen is a live session as it was sent last.
type seen struct {
	version string
	quiet   time.Time
	turns   time.Time // when its row shows another limit
}

// A frame is what all readers are sent.
type frame struct {
	// Now is the database's time, in milliseconds.
	Now int64 `json:"now,omitempty"`
	// Rows are those that have changed.
	Rows []frameRow `json:"rows,omitempty"`
	// Present is the present state: the versions of the live rows. More tells that there are more of them.
	Present map[string]string `json:"present,omitempty"`
	More    bool              `json:"more,omitempty"`
	// All tells that a frame is the present state, of no live row too.
	All bool `json:"all,omitempty"`
	// Trouble tells that the database does not answer.
	Trouble bool `json:"trouble,omitempty"`
}

// A frameRow is a row of the list, with what filters need.
type frameRow struct {
	Run    string `json:"run"`
	Parent string `json:"parent,omitempty"`
	Host   string `json:"host,omitempty"`
	Reason string `json:"reason,omitempty"`
	Live   bool   `json:"live,omitempty"`
	// Said is what is read out when the run has ended.
	Said string `json:"said,omitempty"`
	HTML string `json:"html"`
}

func (f frame) empty() bool { return len(f.Rows) == 0 && !f.Trouble && !f.All }

func (f frame) event(id string) []byte {
	text, _ := json.Marshal(f) // cannot fail: it has texts and numbers
	var b bytes.Buffer
	b.WriteString("id: " + id + "\ndata: ")
	b.Write(text) // one line: JSON has no line breaks in it
	b.WriteString("\n\n")
	return b.Bytes()
}

// look lists the live sessions and returns what has changed since the look before.
func (k *looker) look(ctx context.Context) (f frame) {
	found, err := k.list(ctx)
	if err != nil {
		if ctx.Err() == nil && !k.down {
			k.page.logger().WarnContext(ctx, "the sessions cannot be listed for the readers of the page", "error", err)
		}
		f.Trouble = !k.down
		k.down = true
		return f
	}
	recovered := k.down
	k.down = false
	f.Now = found.Now.UnixMilli()
	live := map[string]bool{}
	for _, s := range found.Sessions {
		live[s.RunID] = true
		if k.changed(s, found.Now) {
			f.add(k.page, s, found.Now)
		}
	}
	k.more = found.Next != ""
	k.vanished(ctx, live, found.Now, &f)
	if recovered {
		f.All, f.Present, f.More = true, k.versions(), k.more
	}
	k.first = false
	return f
}

func (k *looker) list(ctx context.Context) (session.ListPage, error) {
	return asked(ctx, func(ctx context.Context) (session.ListPage, error) {
		return k.page.cfg.Sessions.List(ctx, session.ListQuery{Live: true, Limit: maxRows})
	})
}

// changed notes a live session, and reports whether it is not as it was sent last. The first look sends none: readers
// that come get the present state.
func (k *looker) changed(s session.Session, now time.Time) bool {
	next := seen{version: versionOf(s), quiet: quietSince(s, now)}
	last, there := k.seen[s.RunID]
	moved := last.quiet.Sub(next.quiet)
	if s.Lease != "" {
		moved = max(moved, 0) // between two renewals a silence seems to have begun later and later
	}
	turned := !last.turns.IsZero() && !now.Before(last.turns)
	if there && last.version == next.version && moved.Abs() <= driftOfSilence && !turned {
		return false
	}
	next.turns = rowOf(s, now).TurnsAt
	k.seen[s.RunID] = next
	return !k.first
}

// vanished adds sessions that are not listed as live any more.
func (k *looker) vanished(ctx context.Context, live map[string]bool, now time.Time, f *frame) {
	read := 0
	for runID := range k.seen {
		if live[runID] {
			continue
		}
		if read++; read > maxVanished {
			return
		}
		s, err := asked(ctx, func(ctx context.Context) (session.Session, error) { return k.page.one(ctx, runID) })
		switch {
		case err != nil && !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrUnreadable):
			return // the next look tries again
		case err != nil:
			s = session.Session{RunID: runID} // which says nothing of how it ended
		case s.Status == session.Active:
			delete(k.seen, runID) // newer runs have pushed it out of the list
			continue
		}
		delete(k.seen, runID)
		f.add(k.page, s, now)
	}
}

func (p *Page) one(ctx context.Context, runID string) (session.Session, error) {
	store, able := unwrap.To[sessionReader, watchdog.EventStore](p.cfg.Sessions)
	if !able {
		return session.Session{}, session.ErrNotFound
	}
	return store.Session(ctx, runID)
}

func (f *frame) add(p *Page, s session.Session, now time.Time) {
	r := rowOf(s, now)
	var html bytes.Buffer
	if err := templates().ExecuteTemplate(&html, "row", r); err != nil {
		p.logger().Error("a row of the page cannot be drawn", "error", err)
		return
	}
	drawn := frameRow{Run: r.RunID, Parent: r.Parent, Host: r.Host, Reason: r.Reason, Live: r.Live, HTML: html.String()}
	if !r.Live {
		drawn.Said = r.Said
		if r.Why != "" {
			drawn.Said += ": " + r.Why
		}
	}
	f.Rows = append(f.Rows, drawn)
}

func (k *looker) versions() map[string]string {
	versions := make(map[string]string, len(k.seen))
	for runID, s := range k.seen {
		versions[runID] = s.version
	}
	return versions
}
