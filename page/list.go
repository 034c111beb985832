package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

// How much is counted, searched and sorted together: the live runs, and the newest of the others. Older ones are a set
// of their own, so that a page costs the same whatever the database has.
const (
	maxSet   = 5000    // runs
	maxSize  = 4 << 20 // bytes of what their processes say of them, or little more
	setStep  = 1000    // runs that are read at once
	maxLists = 2 * maxSet / setStep
)

// states are those that a row can tell of.
var states = []story.State{
	story.Running, story.Ending, story.Stopped, story.Failed, story.Interrupted, story.Complete, story.Finished,
}

// endedStates stands for all of them but the live ones.
const endedStates = "ended"

// A filter says which sessions the list has, in which order, and which page of them is shown.
type filter struct {
	States           []story.State // none for all
	ID, Host, Reason string
	Sort             string
	Page             int
	After            string // where the set begins
}

func parseFilter(query url.Values) (f filter, err error) {
	f = filter{
		ID: strings.TrimSpace(query.Get("id")), Host: strings.TrimSpace(query.Get("host")), Reason: query.Get("reason"),
		Sort: query.Get("sort"), Page: 1, After: query.Get("after"),
	}
	for _, name := range query["state"] {
		switch {
		case name == endedStates:
			f.States = append(f.States, states[2:]...)
		case slices.Contains(states, story.State(name)):
			if state := story.State(name); !slices.Contains(f.States, state) {
				f.States = append(f.States, state)
			}
		case name != "":
			return f, &httpError{http.StatusBadRequest, fmt.Sprintf("There is no state %q: use %v, or none.", name, states)}
		}
	}
	if !slices.ContainsFunc(sorts, func(s sorting) bool { return s.Name == f.Sort }) {
		return f, &httpError{http.StatusBadRequest, fmt.Sprintf("Runs cannot be sorted by %q.", f.Sort)}
	}
	if page := query.Get("page"); page != "" {
		if f.Page, err = strconv.Atoi(page); err != nil || f.Page < 1 {
			return f, &httpError{http.StatusBadRequest, "There is no such page of the list: begin at the first."}
		}
	}
	if _, _, err := placeOf(f.After); err != nil {
		return f, &httpError{http.StatusBadRequest, "There is no such page of the list: begin at the first."}
	}
	return f, nil
}

// link is the query of a page of the set that begins at a place.
func (f filter) link(page int, after string) template.URL {
	query := url.Values{}
	for _, state := range f.States {
		query.Add("state", string(state))
	}
	for key, value := range map[string]string{
		"id": f.ID, "host": f.Host, "reason": f.Reason, "sort": f.Sort, "after": after,
	} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	return template.URL("?" + query.Encode())
}

func (f filter) wants(state story.State) bool {
	return len(f.States) == 0 || slices.Contains(f.States, state)
}

// First reports whether new runs belong at the head of the page.
func (f filter) First() bool {
	return f.Page == 1 && f.After == "" && f.Sort == "" && f.ID == "" && f.Reason == "" && f.wants(story.Running)
}

// Filtered reports whether there is a condition.
func (f filter) Filtered() bool {
	return len(f.States) > 0 || f.ID != "" || f.Host != "" || f.Reason != ""
}

type listView struct {
	frameView
	filter
	Rows    []row
	Choices []choice
	Reasons []string
	Sorts   []sorting
	// Pages is how many pages there are. A link to a page that is not there is empty.
	Pages                           int
	FirstPage, Previous, Next, Last template.URL
	// Set is how many runs there are to choose from. Older is the set after it, Newest the first.
	Set           int
	Older, Newest template.URL
	Now           time.Time
	Unreadable    int

	size   int // of what was read
	shown  []item
	counts map[story.State]int
}

type choice struct {
	State story.State
	Count int
	On    bool
}

// viewList lists sessions: the live ones first, then those that have ended, unless another order is asked for.
func (p *Page) viewList(ctx context.Context, query url.Values) (listView, error) {
	f, err := parseFilter(query)
	if err != nil {
		return listView{}, err
	}
	view := listView{
		frameView: p.frame("list", "Runs"), filter: f, Reasons: reasons(f.Reason), Sorts: sorts,
		counts: map[story.State]int{},
	}
	view.Refresh = 10
	older, err := p.readSet(ctx, &view)
	if err != nil {
		return view, err
	}
	if older != "" {
		view.Older = f.link(1, older)
	}
	if f.After != "" {
		view.Newest = f.link(1, "")
	}
	for _, state := range states {
		view.Choices = append(view.Choices, choice{state, view.counts[state], slices.Contains(view.States, state)})
	}
	view.addPage(arrange(view.shown, f.Sort, view.Now), p.cfg.Rows)
	return view, nil
}

// add adds those of the sessions of a set that are wanted, and counts the states of all that are searched for.
func (v *listView) add(found session.ListPage) {
	v.Now, v.Unreadable = found.Now, v.Unreadable+len(found.Unreadable)
	v.Set += len(found.Sessions) + len(found.Unreadable)
	v.shown = slices.Grow(v.shown, len(found.Sessions))
	id := strings.ToLower(v.ID)
	for i := range found.Sessions {
		s := &found.Sessions[i]
		v.size += len(s.State)
		if id != "" && !strings.Contains(strings.ToLower(s.RunID), id) {
			continue
		}
		state := story.StateOf(s)
		v.counts[state]++
		if v.wants(state) {
			v.shown = append(v.shown, item{Session: s})
		}
	}
}

// addPage draws the rows of the page, or of the last one if there are not so many.
func (v *listView) addPage(all []item, rows int) {
	v.Pages = max((len(all)+rows-1)/rows, 1)
	v.Page = min(v.Page, v.Pages)
	if v.Page > 1 {
		v.FirstPage, v.Previous = v.link(1, v.After), v.link(v.Page-1, v.After)
	}
	if v.Page < v.Pages {
		v.Next, v.Last = v.link(v.Page+1, v.After), v.link(v.Pages, v.After)
	}
	from := (v.Page - 1) * rows
	for _, i := range all[from:min(from+rows, len(all))] {
		r := rowOf(*i.Session, v.Now)
		r.Depth = i.depth
		v.Rows = append(v.Rows, r)
	}
}

// The marks before the place at which a set begins, among the live sessions or the others.
const (
	afterLive  = "l"
	afterEnded = "e"
)

// placeOf reads where a set begins.
func placeOf(after string) (ended bool, place string, err error) {
	if after == "" {
		return false, "", nil
	}
	mark, place := after[:1], after[1:]
	if mark != afterLive && mark != afterEnded {
		return false, "", strconv.ErrSyntax
	}
	_, err = session.ParsePlace(place)
	return mark == afterEnded, place, err
}

// readSet reads the set that begins after a place, and returns where the next one does; empty for nowhere.
func (p *Page) readSet(ctx context.Context, view *listView) (next string, err error) {
	ended, place, _ := placeOf(view.After)
	q := session.ListQuery{
		Host: view.Host, Reason: watchdog.StopReason(view.Reason), Live: !ended, Ended: ended, After: place,
	}
	for lists := 0; view.Set < maxSet && view.size < maxSize && lists < maxLists; lists++ {
		q.Limit = min(setStep, maxSet-view.Set)
		found, err := p.cfg.Sessions.List(ctx, q)
		if err != nil {
			return "", err
		}
		view.add(found)
		switch {
		case found.Next != "":
			q.After = found.Next
		case q.Live:
			q.Live, q.Ended, q.After = false, true, ""
		default:
			return "", nil
		}
	}
	if q.Live {
		return afterLive + q.After, nil
	}
	return afterEnded + q.After, nil
}

// reasons are those that a reader can choose: those of this module, and the one that is chosen.
func reasons(chosen string) []string {
	all := []string{record.CompleteReason, string(session.ReasonFailed)}
	for _, code := range watchdog.StopReasons() {
		if code.Own() {
			all = append(all, string(code))
		}
	}
	slices.SortStableFunc(all[2:], func(a, b string) int {
		return cmp.Compare(strings.TrimPrefix(a, "watchdog_"), strings.TrimPrefix(b, "watchdog_"))
	})
	if chosen != "" && !slices.Contains(all, chosen) {
		all = append(all, chosen)
	}
	return all
}

// An item is a session of a list, and how many runs of the list are around it.
type item struct {
	*session.Session
	depth int
	left  float64 // of its limit nearest its end, of a hundred
}

type sorting struct {
	Name, Label string
	compare     func(a, b item) int
}

// sorts are all of them; nil keeps the order of the list.
var sorts = []sorting{
	{"", "live first, newest first", nil},
	{"oldest", "oldest first", func(a, b item) int { return began(a.Session).Compare(began(b.Session)) }},
	{"left", "nearest a limit first", func(a, b item) int { return cmp.Compare(a.left, b.left) }},
	{"id", "by ID", func(a, b item) int { return strings.Compare(a.RunID, b.RunID) }},
	{"host", "by host", func(a, b item) int { return strings.Compare(a.Host, b.Host) }},
}

// arrange sorts sessions, which have the order of the list, and puts each under the run around it.
func arrange(all []item, by string, now time.Time) []item {
	if by == "left" {
		for i := range all {
			all[i].left = leftOf(all[i].Session, now)
		}
	}
	for _, s := range sorts {
		if s.Name == by && s.compare != nil {
			slices.SortStableFunc(all, s.compare)
		}
	}
	return nest(all)
}

// noLimitLeft is of a session that has no limit, or has ended: it comes after all others.
const noLimitLeft = 101

// leftOf is what is left of the limit that is nearest its end.
func leftOf(s *session.Session, now time.Time) float64 {
	var state session.State
	if s.Status != session.Active || json.Unmarshal(s.State, &state) != nil {
		return noLimitLeft
	}
	if b, _ := nearest(barsOf(*s, state, now)); b != nil {
		return b.Left
	}
	return noLimitLeft
}

// nest puts each session under the run around it, if that is in the list, in the order that they have. A live one is
// never put under a run that has ended: it would be at the end of the list.
func nest(all []item) []item {
	if !slices.ContainsFunc(all, func(i item) bool { return i.Parent != "" }) {
		return all
	}
	place := make(map[string]int, len(all))
	for i, s := range all {
		place[s.RunID] = i
	}
	inside := map[int][]int{}
	top := func(i int) bool {
		around, there := place[all[i].Parent]
		return !there || all[i].Status == session.Active && all[around].Status != session.Active
	}
	for i := range all {
		if !top(i) {
			around := place[all[i].Parent]
			inside[around] = append(inside[around], i)
		}
	}
	nested, done := make([]item, 0, len(all)), make([]bool, len(all))
	var add func(i, depth int)
	add = func(i, depth int) {
		if done[i] {
			return
		}
		done[i] = true
		s := all[i]
		s.depth = depth
		nested = append(nested, s)
		for _, below := range inside[i] {
			add(below, depth+1)
		}
	}
	for i := range all {
		if top(i) {
			add(i, 0)
		}
	}
	for i := range all {
		add(i, 0) // rows that say that they are inside each other
	}
	return nested
}
