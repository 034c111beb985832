package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/internal/unwrap"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

const (
	maxPasses = 50
	maxCases  = 200
	// historyDays is how far back cancels are counted.
	historyDays = 7
)

// A PassLog keeps the latest passes of a sweeper, for a [Page] to show: give its Add to the sweeper as its
// [sweep.Config].OnPass. The zero value is ready for use. It is safe for concurrent use.
type PassLog struct {
	mu     sync.Mutex
	passes []passed // the latest first
	cases  []handled
}

// A passed is a pass without its cases.
type passed struct{ sweep.Pass }

// A handled is a stalled session that a pass acted on.
type handled struct {
	sweep.Case
	At time.Time
}

// Said says what was done about the session.
func (h handled) Said() string { return words(string(h.Handling)) }

// Said says how the pass ended.
func (p passed) Said() string {
	if p.Err != nil {
		return "ended early"
	}
	return "done"
}

// Did says what the pass did.
func (p passed) Did() string {
	var acts []string
	for _, act := range []struct {
		n    int
		what string
	}{
		{p.Cancelled, "cancelled %d"}, {p.Warned, "warned %d"}, {p.Spared, "spared %d"}, {p.Deferred, "put off %d"},
		{p.Resumed, "resumed %d"}, {p.Failed, "failed with %d"},
	} {
		if act.n > 0 {
			acts = append(acts, fmt.Sprintf(act.what, act.n))
		}
	}
	text := fmt.Sprintf("looked at %d runs", p.Checked)
	if p.Checked == 1 {
		text = "looked at one run"
	}
	if len(acts) == 0 {
		acts = []string{"ended none"}
	}
	text += " and " + strings.Join(acts, ", ")
	if p.DryRun {
		text += ", all of it a dry run"
	}
	return text
}

// Add keeps a pass, and forgets the oldest of more than 50.
func (l *PassLog) Add(p sweep.Pass) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range p.Cases[max(len(p.Cases)-maxCases, 0):] {
		c.Session.State = nil // which is large
		l.cases = slices.Insert(l.cases, 0, handled{c, p.StartedAt.Add(p.Duration)})
	}
	l.cases = l.cases[:min(len(l.cases), maxCases)]
	p.Cases, p.Errs = nil, nil
	l.passes = slices.Insert(l.passes, 0, passed{p})
	l.passes = l.passes[:min(len(l.passes), maxPasses)]
}

// read returns copies of what is kept.
func (l *PassLog) read() ([]passed, []handled) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.passes), slices.Clone(l.cases)
}

type sweeperView struct {
	frameView
	Stats   *sweep.Stats
	Status  string
	Last    passed
	Now     time.Time
	Passes  []passed
	Cases   []handled
	Days    int
	Counts  []countView
	Counted bool
}

// A countView is how many runs were cancelled for one reason, by whatever guard.
type countView struct {
	Reason, Code, Why string
	Count             int
	Part              float64 // of the largest count, of a hundred
}

func (p *Page) viewSweeper(ctx context.Context) (sweeperView, error) {
	view := sweeperView{frameView: p.frame("sweeper", "Sweeper"), Now: time.Now(), Days: historyDays}
	view.Refresh = 30
	view.Passes, view.Cases = p.cfg.PassLog.read()
	if p.cfg.Sweeper != nil {
		stats := p.cfg.Sweeper.Stats()
		view.Stats, view.Status, view.Last = &stats, sweeperStatus(stats), passed{stats.Last}
		if view.Last.StartedAt.IsZero() && len(view.Passes) > 0 {
			view.Last = view.Passes[0]
		}
	}
	err := p.addHistory(ctx, &view)
	return view, err
}

func sweeperStatus(s sweep.Stats) string {
	switch {
	case !s.Enabled:
		return "disabled"
	case s.ConsecutiveFailures > 0:
		return "failing"
	case s.Passing:
		return "in a pass"
	case s.Running:
		return "waiting"
	}
	return "not running"
}

// A historian is a store that can count the cancels of a time.
type historian interface {
	History(ctx context.Context, h session.HistoryQuery) ([]session.CancelCount, error)
}

// addHistory counts the cancels of the last days, by reason.
func (p *Page) addHistory(ctx context.Context, view *sweeperView) error {
	counter, able := unwrap.To[historian, watchdog.EventStore](p.cfg.Sessions)
	if !able {
		return nil
	}
	counts, err := counter.History(ctx, session.HistoryQuery{
		From: view.Now.AddDate(0, 0, -historyDays), To: view.Now.Add(time.Hour), By: session.ByReason,
	})
	if err != nil {
		return err
	}
	view.Counted = true
	most := 0
	for _, c := range counts {
		most = max(most, c.Count)
	}
	for _, c := range counts {
		code := record.Code(c.Key)
		view.Counts = append(view.Counts, countView{
			c.Key, code, story.Meaning(watchdog.StopReason(code)), c.Count, percent(float64(c.Count), float64(most)),
		})
	}
	slices.SortStableFunc(view.Counts, func(a, b countView) int { return b.Count - a.Count })
	return nil
}
