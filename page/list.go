package page

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// What a filter says of the state of the sessions that it wants.
const (
	anyState = ""
	running  = "running"
	ended    = "ended"
)

// A filter says which sessions the list has, and where its page begins.
type filter struct {
	State, Host, Reason string
	// After is where the page begins among the live sessions, or, where InEnded is true, among the others.
	After   string
	InEnded bool
}

// The marks before the place at which a page begins.
const (
	afterLive  = "l"
	afterEnded = "e"
)

// parseFilter reads the query of a list.
func parseFilter(query url.Values) (f filter, err error) {
	f = filter{
		State: query.Get("state"), Host: strings.TrimSpace(query.Get("host")), Reason: query.Get("reason"),
	}
	switch f.State {
	case anyState, running, ended:
	default:
		return f, &httpError{http.StatusBadRequest, fmt.Sprintf("There is no state %q: use %s, %s or none.", f.State,
			running, ended)}
	}
	f.InEnded = f.State == ended
	if after := query.Get("after"); after != "" {
		f.InEnded = strings.HasPrefix(after, afterEnded)
		f.After = after[1:]
		_, err := storerows.ParsePlace(f.After)
		if err != nil || !f.InEnded && !strings.HasPrefix(after, afterLive) {
			return f, &httpError{http.StatusBadRequest, "There is no such page of the list: begin at the first."}
		}
	}
	return f, nil
}

// link is the query of the page of the list that begins at a place.
func (f filter) link(after string) string {
	query := url.Values{}
	for key, value := range map[string]string{"state": f.State, "host": f.Host, "reason": f.Reason, "after": after} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return "?" + query.Encode()
}

// first reports whether new runs belong on the page.
func (f filter) first() bool { return f.After == "" && !f.InEnded }

// FirstLink is the query of the first page.
func (f filter) FirstLink() template.URL { return template.URL(f.link("")) }

// Filtered reports whether there is a condition.
func (f filter) Filtered() bool { return f.State != anyState || f.Host != "" || f.Reason != "" }

// A listView is the page with the list.
type listView struct {
	frameView
	filter
	Rows       []row
	Next       template.URL
	Now        time.Time
	First      bool
	Live       int // of the rows
	Unreadable int
	Reasons    []string
}

// viewList lists sessions: the live ones first, then those that have ended.
func (p *Page) viewList(ctx context.Context, query url.Values) (listView, error) {
	f, err := parseFilter(query)
	if err != nil {
		return listView{}, err
	}
	view := listView{frameView: p.frame("list", "Runs"), filter: f, First: f.first(), Reasons: reasons(f.Reason)}
	view.Refresh = 10
	if !f.InEnded {
		if err := p.addRows(ctx, &view, session.ListQuery{Live: true, After: f.After}); err != nil {
			return view, err
		}
		f.After = ""
	}
	if f.State != running && view.Next == "" {
		if err := p.addRows(ctx, &view, session.ListQuery{Ended: true, After: f.After}); err != nil {
			return view, err
		}
	}
	return view, nil
}

// addRows adds as many sessions as the page still has room for.
func (p *Page) addRows(ctx context.Context, view *listView, q session.ListQuery) error {
	if q.Limit = p.cfg.Rows - len(view.Rows); q.Limit == 0 {
		view.Next = template.URL(view.link(afterEnded)) // all of them
		return nil
	}
	q.Host, q.Reason = view.Host, watchdog.StopReason(view.Reason)
	found, err := p.cfg.Sessions.List(ctx, q)
	if err != nil {
		return err
	}
	view.Now, view.Unreadable = found.Now, view.Unreadable+len(found.Unreadable)
	for _, s := range found.Sessions {
		view.Rows = append(view.Rows, rowOf(s, found.Now))
	}
	if q.Live {
		view.Live = len(found.Sessions)
	}
	if found.Next != "" {
		mark := afterEnded
		if q.Live {
			mark = afterLive
		}
		view.Next = template.URL(view.link(mark + found.Next))
	}
	return nil
}

// reasons are those that a reader can choose, with the one that is chosen.
func reasons(chosen string) []string {
	all := []string{record.CompleteReason, string(session.ReasonFailed)}
	for _, code := range watchdog.StopReasons() {
		all = append(all, string(code))
	}
	slices.SortStableFunc(all[2:], func(a, b string) int {
		return cmp.Compare(strings.TrimPrefix(a, "watchdog_"), strings.TrimPrefix(b, "watchdog_"))
	})
	if chosen != "" && !slices.Contains(all, chosen) {
		all = append(all, chosen)
	}
	return all
}
