package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A table prints the outcome of passes.
type table struct {
	mu     sync.Mutex
	out    io.Writer
	passes int
	quiet  bool // the last pass found nothing
}

// pass prints one pass. Of several passes in a row that found nothing it prints only the first, in one line.
func (t *table) pass(p sweep.Pass) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes++
	wasQuiet := t.quiet
	t.quiet = p.Found == 0 && p.Errors == 0
	if t.quiet && wasQuiet {
		return
	}
	_, _ = fmt.Fprintf(t.out, "\npass %d: %d checked, %d stalled, %d cancelled, %d spared, %d failed (%v)\n",
		t.passes, p.Checked, p.Found, p.Cancelled, p.Spared, p.Failed, p.Duration.Round(10*time.Microsecond))
	if len(p.Cases) == 0 {
		return
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "SESSION\tHOST\tSILENT FOR\tALLOWED\tWHAT\tWHY\n")
	for _, c := range p.Cases {
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%s\t%s\n", c.Session.RunID, c.Session.Host,
			c.Silence.Round(time.Second), c.Threshold, c.Handling, c.Reason())
	}
	w.Flush()
}

// alert prints that there are many cancels, as the configuration counts them.
func (t *table) alert(_ context.Context, cancels int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.out, "\nalert: %d cancels\n", cancels)
}

// history prints how many sessions were cancelled in the last day, by reason and by host, with one query each.
func (t *table) history(ctx context.Context, store session.Store) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, by := range []session.Dimension{session.ByReason, session.ByHost} {
		counts, err := store.History(ctx,
			session.HistoryQuery{From: now.Add(-24 * time.Hour), To: now.Add(time.Minute), By: by})
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(t.out, "\ncancels of the last day by %s:", by)
		for _, c := range counts {
			_, _ = fmt.Fprintf(t.out, " %s %d", c.Key, c.Count)
		}
	}
	_, _ = fmt.Fprintln(t.out)
	return nil
}
