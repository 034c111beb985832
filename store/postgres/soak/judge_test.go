//go:build linux

package soak_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// What can be wrong.
const (
	liveCancelled = "live runs cancelled by a sweeper"
	deadForgotten = "dead ones forgotten"
	idleForgotten = "silent ones forgotten"
	doubled       = "ends doubled"
	disagree      = "row and events disagree"
	wentOn        = "runs that went on after their end"
	lost          = "acknowledged ends lost"
)

// forgiven is what is lost and not wrong: what a server acknowledged that was no primary any more.
const forgiven = "ends lost with a primary that was fenced"

var wrongs = []string{liveCancelled, deadForgotten, idleForgotten, doubled, disagree, wentOn, lost}

// doubt is how long before it was seen a cancel can have been written: the answer can be late or lost.
const doubt = recordTimeout + promise

// completedCode is how a complete run has ended, as rows and the judge have it.
const completedCode = "complete"

// Evidence is all that the judge knows.
type evidence struct {
	hosts    []*processRecord
	sweepers []*processRecord
	outages  []span // the database could not be read, or not by all
	locks    []span // a stranger had rows locked
	stored
}

// stored is what the database has.
type stored struct {
	rows    map[string]row
	ends    map[window][]end
	resumed map[window]bool // that a stored resume has opened, also where its process never learned of it
}

// A window names a window of a run.
type window struct {
	run   string
	start int64 // in microseconds since 1970
}

func windowOf(run string, start time.Time) window { return window{run, start.UnixMicro()} }

// A row is a session as the database has it.
type row struct {
	status  session.Status
	reason  watchdog.StopReason
	started time.Time
}

// An end is the event that ended a window.
type end struct {
	complete bool
	code     watchdog.StopReason // of a cancel
	author   string
}

// A judgement is what is wrong, by kind.
type judgement map[string][]string

func (j judgement) add(wrong, format string, arguments ...any) {
	j[wrong] = append(j[wrong], fmt.Sprintf(format, arguments...))
}

// pending reports whether something is wrong that time can still mend.
func (j judgement) pending() bool {
	return len(j[deadForgotten])+len(j[idleForgotten])+len(j[wentOn])+len(j[disagree]) > 0
}

// A trial is the evidence in order.
type trial struct {
	evidence
	judgement
	tenures map[string][]*tenure       // by run
	told    map[window][]time.Duration // when sweepers were told that they cancelled it
	seen    map[window]time.Duration   // when a cancel by a sweeper was first seen
	unable  map[*processRecord][]span  // when it could not learn of an end
}

// judge says what is wrong.
func judge(e evidence) judgement {
	t := &trial{
		evidence: e, judgement: judgement{}, tenures: map[string][]*tenure{}, told: map[window][]time.Duration{},
		seen: map[window]time.Duration{}, unable: map[*processRecord][]span{},
	}
	t.order()
	for w, ends := range t.ends {
		t.judgeEnds(w, ends)
	}
	for w, told := range t.told {
		if len(t.ends[w]) == 0 {
			t.add(lost, "%s was cancelled by a sweeper at %v, and its window has no end event", w.run, told)
		}
	}
	runs := map[string]bool{}
	for run := range t.rows {
		runs[run] = true
	}
	for run := range t.tenures {
		runs[run] = true
	}
	for run := range runs {
		t.judgeRow(run)
		for _, tenure := range t.tenures[run] {
			t.judgeEnd(tenure)
		}
	}
	for _, all := range t.judgement {
		slices.Sort(all)
	}
	return t.judgement
}

// order sorts the evidence by run and window.
func (t *trial) order() {
	for _, p := range t.sweepers {
		for _, e := range p.entries {
			if e.What == swept && !p.astray(span{e.At, e.At}) {
				w := windowOf(e.Run, e.Window)
				t.told[w] = append(t.told[w], e.At)
				t.see(w, e.At)
			}
		}
	}
	for _, p := range t.hosts {
		for _, one := range p.tenures() {
			t.tenures[one.run] = append(t.tenures[one.run], one)
			switch watchdog.StopReason(one.cause) {
			case watchdog.SessionIdleTimeout, watchdog.SessionHostLost:
				t.see(windowOf(one.run, one.window), one.life.to)
			}
		}
		t.unable[p] = joined(slices.Concat(p.unable(), p.late, t.outages), 0)
	}
}

func (t *trial) see(w window, at time.Duration) {
	if before, there := t.seen[w]; !there || at < before {
		t.seen[w] = at
	}
}

// judgeEnds judges the end events of a window.
func (t *trial) judgeEnds(w window, ends []end) {
	if len(ends) > 1 {
		t.add(doubled, "%s has %d end events: %v", w.run, len(ends), ends)
	}
	if told := t.told[w]; len(told) > 1 {
		t.add(doubled, "%s was cancelled by %d sweepers", w.run, len(told))
	}
	seen, isSeen := t.seen[w]
	if !isSeen || ends[0].author != sweep.Author {
		return
	}
	when := span{seen - doubt, seen}
	for _, one := range t.tenures[w.run] {
		if one.window.UnixMicro() == w.start && !one.mayBeSwept(when, slices.Concat(t.outages, t.locks)) {
			t.add(liveCancelled, "%s of %s at %v, guarded since %v", w.run, one.of.name, seen, one.life.from)
		}
	}
}

// judgeRow compares a run's row with its events, and with who guards it now.
func (t *trial) judgeRow(run string) {
	r, there := t.rows[run]
	guard := t.guard(run)
	switch {
	case !there && guard != nil:
		t.add(disagree, "%s is guarded by %s and has no row", run, guard.of.name)
		return
	case !there:
		return
	case r.status == session.Active && guard == nil:
		t.add(deadForgotten, "%s: %s", run, t.history(run))
	case r.status == session.Active && !guard.window.Equal(r.started):
		t.add(disagree, "%s is guarded in the window of %v, its row has %v", run, guard.window, r.started)
	case r.status != session.Active && guard != nil:
		t.add(wentOn, "%s is %s %s, and %s guards it", run, r.status, r.reason, guard.of.name)
	case r.status == session.Active:
		t.judgeSilence(guard)
	}
	t.judgeWords(run, r)
}

// judgeWords compares what a row says with the end events of its window. They can be lost, and the row be written after.
func (t *trial) judgeWords(run string, r row) {
	ends := t.endsOf(run, r)
	want := r.wants(ends)
	if want == "" || len(ends) == 0 && t.lostEnd(run, r) {
		return
	}
	t.add(disagree, "%s is %s %s, and %s", run, r.status, r.reason, want)
}

// endsOf returns the end events that a row has to agree with: those of its window. A row whose window never opened is of
// a Resume that failed: the run has ended as before, with its latest window that has an end. If that Resume is stored all
// the same, the run can be interrupted, too.
func (t *trial) endsOf(run string, r row) []end {
	own := windowOf(run, r.started)
	opened := slices.ContainsFunc(t.tenures[run], func(one *tenure) bool { return windowOf(run, one.window) == own })
	if opened || len(t.ends[own]) > 0 || t.resumed[own] && r.status == session.Interrupted {
		return t.ends[own]
	}
	before := window{run: run}
	for w := range t.ends {
		if w.run == run && w.start > before.start && w.start < own.start {
			before = w
		}
	}
	return t.ends[before]
}

// lostEnd reports whether the end event of a row's window can be lost.
func (t *trial) lostEnd(run string, r row) bool {
	return slices.ContainsFunc(t.tenures[run], func(one *tenure) bool {
		return windowOf(run, one.window) == windowOf(run, r.started) && one.astray()
	})
}

// wants says which event contradicts the row, or is missing.
func (r row) wants(ends []end) string {
	fits := func(end) bool { return false }
	switch {
	case r.status == session.Cancelled:
		fits = func(e end) bool { return !e.complete && e.code == r.reason }
	case r.reason != "":
		fits = func(e end) bool {
			return e.complete && r.status == session.Finished && string(r.reason) == completedCode
		}
	case len(ends) == 0:
		return ""
	}
	if slices.ContainsFunc(ends, fits) {
		return ""
	}
	return fmt.Sprintf("the end events of its window are %v", ends)
}

// guard returns the tenure that lasts, nil if there is none.
func (t *trial) guard(run string) *tenure {
	for _, one := range t.tenures[run] {
		if one.open {
			return one
		}
	}
	return nil
}

func (t *trial) history(run string) string {
	var all []string
	for _, one := range t.tenures[run] {
		all = append(all, fmt.Sprintf("guarded by %s from %v to %v (%s)", one.of.name, one.life.from, one.life.to, one.cause))
	}
	return strings.Join(all, ", ")
}

// judgeSilence judges a run that lives and has not been swept.
func (t *trial) judgeSilence(guard *tenure) {
	for _, s := range guard.silences() {
		if s.to == guard.life.to {
			t.add(idleForgotten, "%s of %s is silent since %v", guard.run, guard.of.name, s.from-threshold)
		}
	}
}

// judgeEnd judges whether a tenure ended as and when its window did.
func (t *trial) judgeEnd(one *tenure) {
	w := windowOf(one.run, one.window)
	ends := t.ends[w]
	if one.stored != "" && !slices.ContainsFunc(ends, one.isTold) {
		kind := lost
		if one.astray() {
			kind = forgiven
		}
		t.add(kind, "%s was told that the end of %s is %s, and the end events of its window are %v",
			one.of.name, one.run, one.stored, ends)
	}
	for _, told := range t.told[w] {
		if told < one.life.from || told > one.life.to {
			continue
		}
		if due := t.due(one.of, told); one.life.to > due {
			t.add(wentOn, "%s was cancelled by %v, and went on in %s until %v, due was %v",
				one.run, told, one.of.name, one.life.to, due)
		}
	}
}

// isTold reports whether an end is what the process was told that the store has. The store has the first: a stop of the
// run's own that could not be recorded at once can find another one there.
func (t *tenure) isTold(e end) bool { return e.complete || t.stored == recorded }

// due returns when a host that lives must have ended a run that was cancelled: within a promise in which it can read.
func (t *trial) due(p *processRecord, cancelled time.Duration) time.Duration {
	within := span{cancelled, cancelled + promise + slack}
	for _, s := range t.unable[p] {
		if s.touches(within) {
			within = span{s.to, s.to + promise + slack}
		}
	}
	return within.to
}

// readDatabase reads all rows, and the end events and openings of all windows, without the library. It tries again for
// a while: a server that crashed starts again by itself.
func readDatabase(dsn string) (found stored, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		found, err = readOnce(ctx, dsn)
		if err == nil || ctx.Err() != nil {
			return found, err
		}
		pause(ctx, promise/10)
	}
}

func readOnce(ctx context.Context, dsn string) (found stored, err error) {
	err = connected(ctx, dsn, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if found.rows, err = readRows(ctx, conn); err != nil {
			return err
		}
		return found.readEvents(ctx, conn)
	})
	return found, err
}

func readRows(ctx context.Context, conn *pgx.Conn) (map[string]row, error) {
	all := map[string]row{}
	found, _ := conn.Query(ctx, "SELECT run_id, status, reason, started_at FROM watchdog_sessions") // found has the error
	var run string
	var r row
	_, err := pgx.ForEachRow(found, []any{&run, &r.status, &r.reason, &r.started}, func() error {
		all[run] = r
		return nil
	})
	return all, err
}

func (f *stored) readEvents(ctx context.Context, conn *pgx.Conn) error {
	f.ends, f.resumed = map[window][]end{}, map[window]bool{}
	found, _ := conn.Query(ctx, // found has the error
		"SELECT aggregate_id, event_type, payload::text FROM events WHERE event_type IN ($1, $2, $3)",
		event.Cancel, event.Complete, event.Resume)
	var run, kind, payload string
	_, err := pgx.ForEachRow(found, []any{&run, &kind, &payload}, func() error {
		var p struct {
			Reason, Author string
			Start          time.Time `json:"session_started_at"`
		}
		if err := json.Unmarshal([]byte(payload), &p); err != nil {
			return fmt.Errorf("read an event of %s: %w", run, err)
		}
		w := windowOf(run, p.Start)
		if kind == event.Resume {
			f.resumed[w] = true
			return nil
		}
		f.ends[w] = append(f.ends[w], end{kind == event.Complete, codeOf(p.Reason), p.Author})
		return nil
	})
	return err
}

// dumpTables returns the rows of all tables of sessions, and the events, for a person to read.
func dumpTables(dsn string) (map[string][]json.RawMessage, error) {
	all := map[string][]json.RawMessage{}
	return all, connected(context.Background(), dsn, func(ctx context.Context, conn *pgx.Conn) error {
		tables, err := ownTables(ctx, conn)
		if err != nil {
			return err
		}
		for _, table := range append(tables, "events") {
			rows, _ := conn.Query(ctx, "SELECT row_to_json(one) FROM "+table+" AS one") // rows have the error
			if all[table], err = pgx.CollectRows(rows, pgx.RowTo[json.RawMessage]); err != nil {
				return err
			}
		}
		return nil
	})
}

// codeOf returns the code of a reason in an event.
func codeOf(reason string) watchdog.StopReason {
	return watchdog.StopReason("watchdog_" + reason)
}
