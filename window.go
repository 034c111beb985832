package watchdog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// sameStart bounds how far a host's start may lie after the recorded one and still be the same, kept in whole seconds.
const sameStart = time.Second

// A windowID tells the windows of an aggregate apart. Run IDs may hold slashes, so that one aggregate can be that of a
// run and of another's layer: the parent tells them apart.
type windowID struct {
	parent string
	// fresh is the random name of a window that begins whenever it is asked for, empty for a session's, which is named by
	// its start.
	fresh string
}

// A lineage tells a run or window from others, where the run is a layer of another or the window is a fresh one.
type lineage struct {
	parentID string
	window   string // drawn when it is needed first: most layers end without an event
	once     sync.Once
	begins   bool // the window begins with its watchdog

	next, before *Watchdog // of the layers of one run; guarded by their mu
}

// newLineage is that of a run in a session's window.
func newLineage(parentID string) *lineage {
	if parentID == "" {
		return nil
	}
	return &lineage{parentID: parentID}
}

func (l *lineage) parent() string {
	if l == nil {
		return ""
	}
	return l.parentID
}

// fresh is the name of a window that begins with its watchdog, empty for a session's.
func (l *lineage) fresh() string {
	if l == nil || !l.begins {
		return ""
	}
	l.once.Do(func() { l.window = record.NewWindow() })
	return l.window
}

// A window is what the events of a run say of one stretch of time.
type window struct {
	startedAt   time.Time
	openedBy    string // the ID of its resume event, empty for the first one
	exact       bool   // only its whole start tells it from others, see spendName
	extended    time.Duration
	stop        *Stop
	completedAt time.Time // zero while it is not complete
	warned      map[warningKey]bool
	wrapped     map[wrapKey]bool        // the budgets under which the host was asked to wrap up
	given       map[rungKey]int64       // how much counted limits were extended
	trips       map[string]foldedTrip   // the directives that were given, by the IDs of their events
	resets      map[string]bool         // those that do not count any more
	pauses      map[string]*foldedPause // by the IDs of their openings
	chain       []time.Time             // the starts of all windows that are known
}

// A warningKey tells warnings of one window apart: after an extension the same fraction comes at another time.
type warningKey struct {
	fraction float64
	wrapKey
}

// A wrapKey tells the budgets of one limit apart, that of the wall clock in seconds.
type wrapKey struct {
	limit  rungKey // empty for the wall clock
	budget float64
}

// countKey names a counted limit of a run.
func countKey(u *Usage) rungKey {
	return rungKey{verdict.Limit(u.Limit), u.Tool + "\x00" + u.Scope}
}

func wrapKeyOf(budget float64, s *record.Spend) wrapKey {
	if s == nil {
		return wrapKey{budget: budget}
	}
	return wrapKey{countKey(usageOfRecord("", s)), float64(s.Allowed)}
}

// A history is what the events of a run say. The order of the events does not matter, because the clocks of the hosts
// that wrote them need not agree.
type history struct {
	of         windowID
	windows    map[time.Time]*window
	after      map[time.Time]time.Time // from each window to the one that a resume opened after it
	cancels    map[string]time.Time    // the windows of the cancel events, by their IDs
	corrected  []string                // the IDs of cancel events that were wrong
	unreadable []unreadable
}

// An unreadable event may be of the window that counts.
type unreadable struct {
	startedAt time.Time // zero if that cannot be read either
	at        time.Time
	err       error
}

func foldEvents(of windowID, events []Event) *history {
	h := &history{of: of}
	for _, e := range events {
		h.add(e)
	}
	for _, id := range h.corrected {
		if start, known := h.cancels[id]; known {
			h.windows[start].correct()
		}
	}
	return h
}

// add adds what an event says, unless it is of another run's.
func (h *history) add(e Event) {
	read := payloads[e.Type]
	if read == nil {
		return
	}
	p := read()
	err := json.Unmarshal(e.Payload, p)
	of := p.of()
	if err != nil { // of which window it is may be readable
		of = record.Window{}
		_ = json.Unmarshal(e.Payload, &of)
	}
	start := time.Time(of.SessionStartedAt)
	switch {
	case (err == nil || !start.IsZero()) && (of.Parent != h.of.parent || of.Window != h.of.fresh):
		return
	case err != nil:
		err = fmt.Errorf("%w %s (%s) of run %s: %w", ErrUnreadableEvent, e.ID, e.Type, e.AggregateID, err)
	case start.IsZero():
		err = fmt.Errorf("%w %s (%s) of run %s: it has no session_started_at",
			ErrUnreadableEvent, e.ID, e.Type, e.AggregateID)
	}
	if err != nil {
		h.unreadable = append(h.unreadable, unreadable{start, e.Timestamp, err})
		return
	}
	p.applyTo(h, h.window(start), e)
}

// window is the one that began then.
func (h *history) window(startedAt time.Time) *window {
	if h.windows == nil {
		h.windows = map[time.Time]*window{}
	}
	if h.windows[startedAt] == nil {
		h.windows[startedAt] = &window{startedAt: startedAt}
	}
	return h.windows[startedAt]
}

// current returns the window that the run is in, of which the host says that it began at hostStart. The error says
// which of its events cannot be read.
func (h *history) current(hostStart time.Time) (window, error) {
	last := h.last()
	if last == nil || !h.knows(hostStart) && last.endedBefore(hostStart) {
		last = &window{startedAt: hostStart}
	}
	for _, e := range h.unreadable {
		if h.concerns(e, last) {
			return window{}, fmt.Errorf("%w; correct or delete that event to go on with the run", e.err)
		}
	}
	found := *last
	found.exact = last.openedBy != "" || h.sharesSecond(last.startedAt)
	found.chain = append(slices.Collect(maps.Keys(h.windows)), last.startedAt)
	return found, nil
}

// sharesSecond reports whether the host opened a window within the second of one that had ended.
func (h *history) sharesSecond(start time.Time) bool {
	second := start.Truncate(sameStart)
	for _, w := range h.windows {
		if w.startedAt.Truncate(sameStart).Equal(second) && w.endedBefore(start) {
			return true
		}
	}
	return false
}

// knows reports whether a window that began then is known. A host that passes its start has not persisted a later one:
// it did not open another.
func (h *history) knows(start time.Time) bool {
	_, resumed := h.after[start]
	return resumed || h.windows[start] != nil
}

// concerns reports whether an unreadable event can be of the window, or of one after it.
func (h *history) concerns(e unreadable, w *window) bool {
	switch {
	case e.startedAt.Equal(w.startedAt):
		return true
	case e.startedAt.IsZero():
		return !e.at.Before(w.startedAt)
	}
	return h.windows[e.startedAt] == nil && e.startedAt.After(w.startedAt)
}

// last is the end of the latest chain of windows, nil if there is none. What orders the windows of a chain is that each
// was opened after the one before, not when: the clock of who opened it may have been behind. Chains begin where a host
// gave a run another start.
func (h *history) last() *window {
	inside := map[time.Time]bool{} // those that a resume opened after one that is known
	for before, start := range h.after {
		inside[start] = h.windows[before] != nil
	}
	last := latest(h.windows, func(start time.Time) bool { return !inside[start] })
	if last == nil { // a damaged chain is a circle
		return latest(h.windows, func(time.Time) bool { return true })
	}
	for range h.windows {
		if next := h.windows[h.after[last.startedAt]]; next != nil {
			last = next
		}
	}
	return last
}

// latest is the window with the latest start of those that are asked for, nil if there is none.
func latest(windows map[time.Time]*window, wanted func(start time.Time) bool) *window {
	var found *window
	for start, w := range windows {
		if wanted(start) && (found == nil || start.After(found.startedAt)) {
			found = w
		}
	}
	return found
}

// endedBefore reports whether the host opened a window of its own after this one: later than its cancel or, where it
// has none, later than what keeping whole seconds explains. None follows a complete one but by a resume.
func (w *window) endedBefore(hostStart time.Time) bool {
	switch {
	case w.complete():
		return false
	case w.stop != nil:
		return hostStart.After(w.stop.FiredAt) && hostStart.After(w.startedAt)
	}
	return hostStart.Sub(w.startedAt) >= sameStart
}

// spendName names a window where its spend is kept. The start of one that a resume opened is in its event. Of one that
// the host opened there may be no event, and a host that keeps whole seconds comes back with another start: it is named
// by the second. No name of the one form is one of the other.
func (w *window) spendName() string {
	if w.exact {
		return record.Stamp(w.startedAt).String()
	}
	return strconv.FormatInt(w.startedAt.Unix(), 10)
}

func (w *window) complete() bool { return !w.completedAt.IsZero() }

// correct makes the window of a wrong cancel one that is complete.
func (w *window) correct() {
	if w.stop != nil && !w.complete() {
		w.completedAt = w.stop.FiredAt
	}
}

// warnedOf counts how many of the fractions, in their order, were warned of under the budget as it is now.
func (w *window) warnedOf(limit rungKey, fractions []float64, budget float64) int {
	for i, fraction := range fractions {
		if !w.warned[warningKey{fraction, wrapKey{limit, budget}}] {
			return i
		}
	}
	return len(fractions)
}

// ruling is what the store says of the window.
func (w *window) ruling() ruling {
	if w == nil {
		return ruling{}
	}
	if w.complete() { // also beside a cancel
		return ruling{complete: true}
	}
	return ruling{stop: w.stop, extended: w.extended, pauses: w.verdictPauses(), given: w.given}
}

// A payload is what an event of one kind says of its window.
type payload interface {
	of() record.Window
	applyTo(h *history, w *window, e Event)
}

// The payloads that tell of a window.
type (
	cancelPayload     record.Cancel
	completePayload   record.Complete
	correctionPayload record.Correction
	resumePayload     record.Resume
	extendPayload     record.Extend
	warningPayload    record.Warning
	wrapUpPayload     record.WrapUp
	tripPayload       record.Trip
	progressPayload   record.Progress
	holdPayload       record.Hold
	releasePayload    record.Release
)

// payloads are where the payloads of the events that tell of a window are read to.
var payloads = map[string]func() payload{
	EventCancel:     func() payload { return &cancelPayload{} },
	EventComplete:   func() payload { return &completePayload{} },
	EventCorrection: func() payload { return &correctionPayload{} },
	EventResume:     func() payload { return &resumePayload{} },
	EventExtend:     func() payload { return &extendPayload{} },
	EventWarning:    func() payload { return &warningPayload{} },
	EventWrapUp:     func() payload { return &wrapUpPayload{} },
	EventWait:       func() payload { return &tripPayload{} },
	EventRetry:      func() payload { return &tripPayload{} },
	EventUnstuck:    func() payload { return &tripPayload{} },
	EventProgress:   func() payload { return &progressPayload{} },
	EventHold:       func() payload { return &holdPayload{} },
	EventRelease:    func() payload { return &releasePayload{} },
}

func windowOf(start record.Stamp, parent, name string) record.Window {
	return record.Window{SessionStartedAt: start, Parent: parent, Window: name}
}

func (p *cancelPayload) of() record.Window   { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *completePayload) of() record.Window { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *correctionPayload) of() record.Window {
	return windowOf(p.SessionStartedAt, p.Parent, p.Window)
}
func (p *extendPayload) of() record.Window   { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *warningPayload) of() record.Window  { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *wrapUpPayload) of() record.Window   { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *tripPayload) of() record.Window     { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *progressPayload) of() record.Window { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *holdPayload) of() record.Window     { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *releasePayload) of() record.Window  { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *resumePayload) of() record.Window   { return windowOf(p.SessionStartedAt, p.Parent, "") }

func (p *cancelPayload) applyTo(h *history, w *window, e Event) {
	if w.stop == nil {
		w.stop = stopOf((*record.Cancel)(p), e.AggregateID)
	}
	if h.cancels == nil {
		h.cancels = map[string]time.Time{}
	}
	h.cancels[e.ID] = w.startedAt
}

func (p *completePayload) applyTo(_ *history, w *window, e Event) {
	if w.completedAt = time.Time(p.CompletedAt); w.completedAt.IsZero() {
		w.completedAt = e.Timestamp
	}
}

func (p *correctionPayload) applyTo(h *history, _ *window, _ Event) {
	h.corrected = append(h.corrected, p.Cancel)
}

func (p *resumePayload) applyTo(h *history, w *window, e Event) {
	w.openedBy = e.ID
	if h.after == nil {
		h.after = map[time.Time]time.Time{}
	}
	h.after[time.Time(p.PreviousStartedAt)] = w.startedAt
}

func (p *extendPayload) applyTo(_ *history, w *window, _ Event) {
	w.extended = verdict.Sum(w.extended, max(record.Duration(p.ExtensionSeconds), 0))
	for _, s := range p.Spend {
		if w.given == nil {
			w.given = map[rungKey]int64{}
		}
		key := countKey(usageOfRecord("", &s))
		w.given[key] = verdict.AddCount(w.given[key], max(int64(s.Extension), 0))
	}
}

func (p *warningPayload) applyTo(_ *history, w *window, _ Event) {
	if w.warned == nil {
		w.warned = map[warningKey]bool{}
	}
	w.warned[warningKey{float64(p.Fraction), wrapKeyOf(float64(p.ConfiguredBudgetSeconds), p.Spend)}] = true
}

func (p *wrapUpPayload) applyTo(_ *history, w *window, _ Event) {
	if w.wrapped == nil {
		w.wrapped = map[wrapKey]bool{}
	}
	w.wrapped[wrapKeyOf(float64(p.ConfiguredBudgetSeconds), p.Spend)] = true
}
