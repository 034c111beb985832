package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/sweep"
)

// A passReporter prints what a sweeper did: a line for each pass that did something, and one for each session.
type passReporter struct {
	mu    sync.Mutex
	out   io.Writer
	json  bool
	quiet bool // the last pass found nothing, and that was printed
}

// A passReport is a pass as JSON.
type passReport struct {
	StartedAt time.Time    `json:"started_at"`
	Seconds   float64      `json:"duration_seconds"`
	DryRun    bool         `json:"dry_run"`
	Checked   int          `json:"checked"`
	Found     int          `json:"found"`
	Cancelled int          `json:"cancelled"`
	Spared    int          `json:"spared"`
	Failed    int          `json:"failed"`
	Warned    int          `json:"warned"`
	Deferred  int          `json:"deferred"`
	Errors    int          `json:"errors"`
	Sessions  []caseReport `json:"sessions"`
	Error     string       `json:"error,omitempty"`
}

// A caseReport is one session of a pass as JSON.
type caseReport struct {
	RunID      string         `json:"run_id"`
	Host       string         `json:"host,omitempty"`
	Silence    float64        `json:"silence_seconds"`
	Threshold  float64        `json:"threshold_seconds"`
	Handling   sweep.Handling `json:"handling"`
	StopFailed bool           `json:"stop_failed,omitempty"`
	Reason     string         `json:"reason"`
}

// pass prints one pass. Of several in a row that found nothing it prints the first only.
func (r *passReporter) pass(p sweep.Pass) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wasQuiet := r.quiet
	r.quiet = p.Found == 0 && p.Errors == 0
	switch {
	case r.json:
		_ = json.NewEncoder(r.out).Encode(reportOf(p))
	case !r.quiet || !wasQuiet:
		r.print(p)
	}
}

func (r *passReporter) print(p sweep.Pass) {
	_, _ = fmt.Fprintf(r.out, "%s  %d checked, %d stalled, %d cancelled, %d spared, %d failed (%v)\n",
		p.StartedAt.UTC().Format(time.RFC3339), p.Checked, p.Found, p.Cancelled, p.Spared, p.Failed,
		p.Duration.Round(time.Millisecond))
	for _, c := range p.Cases {
		_, _ = fmt.Fprintf(r.out, "  %-13s %s on %s: silent for %v, allowed %v%s\n", c.Handling, term.Plain(c.Session.RunID),
			term.Plain(c.Session.Host), c.Silence.Round(time.Second), c.Threshold, hostLost(c))
	}
}

// hostLost says what was seen of the dead process of a case, if that is why it is cancelled.
func hostLost(c sweep.Case) string {
	switch {
	case c.Reason() != watchdog.SessionHostLost:
		return ""
	case c.Session.Expired.ID == "":
		return ", its host was lost"
	}
	return ", its host was lost: " + story.Lease(c.Session.Expired).String()
}

// alert prints that there are many cancels, as the configuration counts them.
func (r *passReporter) alert(_ context.Context, cancels int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.json {
		_ = json.NewEncoder(r.out).Encode(map[string]int{"alert_cancels": cancels})
		return
	}
	_, _ = fmt.Fprintf(r.out, "alert: %d cancels\n", cancels)
}

func reportOf(p sweep.Pass) passReport {
	r := passReport{
		StartedAt: p.StartedAt.UTC(), Seconds: p.Duration.Seconds(), DryRun: p.DryRun, Checked: p.Checked, Found: p.Found,
		Cancelled: p.Cancelled, Spared: p.Spared, Failed: p.Failed, Warned: p.Warned, Deferred: p.Deferred,
		Errors: p.Errors, Sessions: []caseReport{},
	}
	for _, c := range p.Cases {
		r.Sessions = append(r.Sessions, caseReport{c.Session.RunID, c.Session.Host, c.Silence.Seconds(),
			c.Threshold.Seconds(), c.Handling, c.StopFailed, string(c.Reason())})
	}
	if p.Err != nil {
		r.Error = p.Err.Error()
	}
	return r
}
