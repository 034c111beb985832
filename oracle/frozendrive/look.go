package drive

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen"
	"github.com/seed62658d38/watchdog/oracle/frozen/inside"
	"github.com/seed62658d38/watchdog/oracle/history"
)

// look polls every run: Fired, Stop, and what directives there are.
func (w *world) look() {
	for _, p := range w.procs {
		for _, g := range p.runs {
			w.lookAt(g)
			w.say(history.Inside, "%s %s", g.name, inside.Text(g.wd.Context()))
		}
	}
}

// lookAt polls one run, unless the last poll has not returned.
func (w *world) lookAt(g *guard) {
	if g.blind {
		return
	}
	g.blind = true
	wd := g.wd
	w.make(&call{kind: history.Looked, what: "look at " + g.name, then: func() { g.blind = false }},
		func() string { return lookText(wd) })
}

func lookText(wd *watchdog.Watchdog) string {
	var b strings.Builder
	code, fired := wd.Fired()
	fmt.Fprintf(&b, "fired %q %v", code, fired)
	if stop := wd.Stop(); stop != nil {
		fmt.Fprintf(&b, " %s", stopText(stop))
	}
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		fmt.Fprintf(&b, " | %s", directiveText(&d))
	}
	return b.String()
}

// see writes what runs show of themselves to whoever does not poll.
func (w *world) see() {
	for _, p := range w.procs {
		for _, g := range p.runs {
			w.seeOne(g)
		}
	}
}

func (w *world) seeOne(g *guard) {
	wd := g.wd
	text := fmt.Sprintf("%s %s elapsed %v remaining %v silent %v note %q began %s%s", g.name, causeText(wd.Context()),
		wd.Elapsed(), wd.Remaining(), wd.SinceActivity(), wd.LastNote(), wd.StartedAt().Format(stampFormat),
		usagesText(wd.Usage()))
	if text != g.last {
		g.last = text
		w.lines = append(w.lines, history.Entry{Step: w.step, Topic: history.Saw, Text: text})
	}
}

// causeText is how a context ended.
func causeText(ctx context.Context) string {
	if ctx.Err() == nil {
		return "runs"
	}
	return fmt.Sprintf("ended %v: %T %s", ctx.Err(), context.Cause(ctx), errText(context.Cause(ctx)))
}

func usagesText(all []watchdog.Usage) string {
	if all == nil {
		return ""
	}
	var b strings.Builder
	for i := range all {
		b.WriteString(usageText(&all[i]))
	}
	return b.String()
}

func usageText(u *watchdog.Usage) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf(" [%s %s %s %s %s %d+%d/%d?%d %s]",
		u.Run, u.Limit, u.Tool, u.Scope, u.Currency, u.Used, u.Admitted, u.Allowed, u.Needed, u.Pattern)
}

func directiveText(d *watchdog.Directive) string {
	return fmt.Sprintf("%s %s %s rung %d used %v of %v hold %q note %q at %s observed %v dropped %d%s", d.Kind, d.RunID,
		d.Reason, d.Rung, d.Used, d.Allowed, d.Hold, d.Note, d.At.Format(stampFormat), d.ObserveOnly, d.Dropped,
		usageText(d.Usage))
}

func stopText(s *watchdog.Stop) string {
	if s == nil {
		return "no stop"
	}
	id := s.EventID()
	if s.Parent == "" {
		id = history.Exact(id)
	}
	return fmt.Sprintf("%s %s in %q from %s at %s elapsed %v of %v paused %v hold %q note %q rung %d id %s %q%s", s.Code,
		s.RunID, s.Parent, s.StartedAt.Format(stampFormat), s.FiredAt.Format(stampFormat), s.Elapsed, s.Budget, s.Paused,
		s.Hold, s.Note, s.Rung, id, s.Error(), usageText(s.Usage))
}

func warningText(one watchdog.Warning) string {
	return fmt.Sprintf("%s %v: %v of %v, %v left at %s%s", one.RunID, one.Fraction, one.Elapsed, one.Budget, one.Remaining,
		one.At.Format(stampFormat), usageText(one.Usage))
}

// count writes a call of the store, if that is wanted.
func (w *world) count(what string) {
	if w.h.Calls {
		w.hear(history.StoreCalls, what, "")
	}
}

// afterFunc calls f after d, unless it is stopped before.
func (w *world) afterFunc(d time.Duration, f func()) (stop func()) {
	if w.mock != nil {
		t := w.mock.AfterFunc(d, f)
		return func() { t.Stop() }
	}
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// sleep waits for d to pass.
func (w *world) sleep(d time.Duration) {
	w.asleep.Add(1)
	defer w.asleep.Add(-1)
	over := make(chan struct{})
	w.afterFunc(d, func() { close(over) })
	<-over
}
