package page

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/internal/unwrap"
	"github.com/seed62658d38/watchdog/session"
)

// maxEntries is how many events one page lists.
const maxEntries = 500

// A runPage is the page of a run: its story, with its row and its events.
type runPage struct {
	frameView
	story.Story
	Row      *row // nil for a run without a row
	Live     bool // it is running, and so has a row
	Now      time.Time
	Since    time.Time
	Timeline timeline
	Entries  []entry
	// MoreEntries is how many are not listed.
	MoreEntries int
	NoEvents    bool // there is no store of events
	// LayersAfter is the layer before the first that the page shows, empty on the first page. LastLayer is the one before
	// the first of the next page.
	LayersAfter, LastLayer string
}

// An entry is one event. Its kind is what it looks like.
type entry struct {
	At         time.Time
	Kind, Said string
}

// viewRun shows a run by its row and its events, of which it can have either.
func (p *Page) viewRun(ctx context.Context, runID, layersAfter string) (runPage, error) {
	view := runPage{frameView: p.frame("run", runID), NoEvents: p.cfg.Events == nil, LayersAfter: layersAfter}
	found := story.Record{RunID: runID}
	var err error
	if found.Row, view.Now, err = p.row(ctx, runID); err != nil {
		return view, err
	}
	if found.Events, err = p.readEvents(ctx, runID); err != nil {
		return view, err
	}
	if found.Row == nil && len(found.Events) == 0 {
		return view, &httpError{http.StatusNotFound, "There is no run with this ID: no row and no event."}
	}
	if store, able := unwrap.To[event.LayerStore, watchdog.EventStore](p.cfg.Events); able {
		if err := found.ReadLayers(ctx, store, layersAfter); err != nil {
			return view, err
		}
	}
	if n := len(found.Layers); n > 0 {
		view.LastLayer = found.Layers[n-1].RunID
	}
	view.tell(found)
	return view, nil
}

// row reads the row of a run, nil for none, and the database's time.
func (p *Page) row(ctx context.Context, runID string) (row *session.Session, now time.Time, err error) {
	s, err := p.one(ctx, runID)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrUnreadable) {
		return nil, time.Now(), nil
	}
	if err != nil {
		return nil, now, err
	}
	// A list is the one call that tells the database's time.
	found, err := p.cfg.Sessions.List(ctx, session.ListQuery{Limit: 1})
	return &s, found.Now, err
}

type sessionReader interface {
	Session(ctx context.Context, runID string) (session.Session, error)
}

func (p *Page) readEvents(ctx context.Context, runID string) ([]watchdog.Event, error) {
	if p.cfg.Events == nil || runID == "" {
		return nil, nil
	}
	return p.cfg.Events.Read(ctx, event.AggregateType, runID)
}

// tell fills in the story, and what is drawn of it.
func (v *runPage) tell(r story.Record) {
	r.Events = story.Happened(r.Events)
	v.Story = story.Of(r, v.Now)
	slices.Reverse(v.Layers) // as the timeline goes on, the oldest first
	v.Since = v.StartedAt
	if r.Row != nil {
		drawn := rowOf(*r.Row, v.Now)
		v.Row = &drawn
		if v.Since.IsZero() {
			v.Since = drawn.Since
		}
	}
	if v.Since.IsZero() {
		v.Since = v.Now
		if len(r.Events) > 0 {
			v.Since = r.Events[0].Timestamp
		}
	}
	if v.Live = v.State.Live(); v.Live {
		v.Refresh = 10
	}
	v.MoreEntries = max(len(r.Events)-maxEntries, 0)
	for _, e := range r.Events[v.MoreEntries:] {
		v.Entries = append(v.Entries, entryOf(e))
	}
	v.Timeline = drawTimeline(v)
}

func entryOf(e watchdog.Event) entry {
	kind := cmp.Or(looks[e.Type], "other")
	if story.OfFailure(e) {
		kind = "failed"
	}
	return entry{At: e.Timestamp, Kind: kind, Said: story.Sentence(e)}
}

// looks are the names in the style for the kinds of event.
var looks = map[string]string{
	event.Warning: "warning", event.WrapUp: "wrap_up", event.Cancel: "cancel",
	event.Complete: "complete", event.Progress: "progress", event.Resume: "resume",
	event.Extend: "extend", event.Retry: "ask", event.Unstuck: "ask", event.Wait: "ask",
}
