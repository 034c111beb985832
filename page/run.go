package page

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

const (
	maxLayers  = 50  // whose events are read for one page
	maxEntries = 500 // events that one page lists
)

// A runPage is the page of a run.
type runPage struct {
	frameView
	runView
	RunID    string
	Row      *row // nil for a run without a row
	Parent   string
	Live     bool
	Now      time.Time
	Since    time.Time
	Resume   string // the command that resumes it; empty while it cannot be resumed
	Timeline timeline
	Layers   []layer
	// MoreLayers and MoreEntries are how many are not shown.
	MoreLayers, MoreEntries int
	NoEvents                bool // there is no store of events
}

// A layer is a layer of a run.
type layer struct {
	RunID        string
	Since, Until time.Time
	Last         entry
	Ended        *ending
}

// viewRun shows a run by its row and its events, of which it can have either.
func (p *Page) viewRun(r *http.Request, runID string) (runPage, error) {
	ctx, cancel := queried(r)
	defer cancel()
	view := runPage{frameView: p.frame("run", runID), RunID: runID, NoEvents: p.cfg.Events == nil}
	found, err := p.readRow(ctx, &view)
	if err != nil {
		return view, err
	}
	events, err := p.readEvents(ctx, runID)
	if err != nil {
		return view, err
	}
	if !found && len(events) == 0 {
		return view, &httpError{http.StatusNotFound, "There is no run with this ID: no row and no event."}
	}
	view.runView = storyOf(events)
	if err := p.addLayers(ctx, &view); err != nil {
		return view, err
	}
	view.settle(found, events)
	return view, nil
}

// readRow reads the row of a run.
func (p *Page) readRow(ctx context.Context, view *runPage) (found bool, err error) {
	view.Now = time.Now()
	s, now, err := p.session(ctx, view.RunID)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrUnreadable) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	drawn := rowOf(s, now)
	view.Now, view.Row, view.Live, view.Parent = now, &drawn, drawn.Live, s.Parent
	return true, nil
}

// A sessionReader is a store that can be asked for one session.
type sessionReader interface {
	Session(ctx context.Context, runID string) (session.Session, error)
}

// session returns the row of a run, and the database's time.
func (p *Page) session(ctx context.Context, runID string) (s session.Session, now time.Time, err error) {
	if s, err = p.one(ctx, runID); err != nil {
		return s, now, err
	}
	// A list is the one call that tells the database's time.
	found, err := p.cfg.Sessions.List(ctx, session.ListQuery{Limit: 1})
	return s, found.Now, err
}

func (p *Page) readEvents(ctx context.Context, runID string) ([]watchdog.Event, error) {
	if p.cfg.Events == nil || runID == "" {
		return nil, nil
	}
	return p.cfg.Events.Read(ctx, watchdog.AggregateType, runID)
}

// addLayers reads the events of the layers.
func (p *Page) addLayers(ctx context.Context, view *runPage) error {
	feed, able := p.cfg.Events.(watchdog.FeedStore)
	if !able {
		return nil
	}
	all, err := feed.Layers(ctx, view.RunID)
	if err != nil {
		return err
	}
	view.MoreLayers = max(len(all)-maxLayers, 0)
	for _, runID := range all[:len(all)-view.MoreLayers] {
		events, err := p.readEvents(ctx, runID)
		if err != nil {
			return err
		}
		if story := storyOf(events); len(story.Entries) > 0 {
			view.Layers = append(view.Layers, layerOf(runID, story))
		}
	}
	slices.SortStableFunc(view.Layers, func(a, b layer) int { return a.Since.Compare(b.Since) })
	return nil
}

func layerOf(runID string, story runView) layer {
	l := layer{RunID: runID, Last: story.Entries[len(story.Entries)-1], Ended: story.Ended}
	l.Since, l.Until = l.Last.At, l.Last.At
	if len(story.Windows) > 0 {
		l.Since = story.Windows[0].Since
	}
	return l
}

// settle fills in what depends on both the row and the events.
func (v *runPage) settle(found bool, events []watchdog.Event) {
	switch {
	case found:
		v.Since = v.Row.Since
	case len(v.Windows) > 0:
		v.Since = v.Windows[len(v.Windows)-1].Since
	default:
		v.Since = events[0].Timestamp
	}
	if v.Ended != nil && v.Live && v.Since.After(v.Ended.At) {
		v.Ended = nil // the host began a window of its own
	}
	if !v.Live && v.Ended != nil && v.Ended.Kind == "cancel" && !v.Ended.Finished {
		v.Resume = resumeCommand(v.RunID)
	}
	if v.Live {
		v.Refresh = 10
	}
	v.Timeline = drawTimeline(v)
	v.MoreEntries = max(len(v.Entries)-maxEntries, 0)
	v.Entries = v.Entries[v.MoreEntries:]
}

// resumeCommand is what a person enters to resume a run.
func resumeCommand(runID string) string {
	end := ""
	if runID != "" && runID[0] == '-' {
		end = "-- "
	}
	return "watchdog resume " + end + shellQuote(runID)
}
