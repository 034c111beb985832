//go:build linux

package soak_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// The judge finds each wrong in small evidence, and nothing where nothing is wrong.
func TestJudge(t *testing.T) {
	for _, test := range judgeCases {
		t.Run(test.name, func(t *testing.T) {
			found := judge(test.evidence.complete())
			for _, wrong := range wrongs {
				if slices.Contains(test.want, wrong) {
					assert.NotEmpty(t, found[wrong], wrong)
				} else {
					assert.Empty(t, found[wrong], wrong)
				}
			}
		})
	}
}

// The evidence of all cases is about one run, in one window, up to one time.
const (
	theRun   = "run"
	until    = 40 * time.Second
	aCohort  = "cohort"
	swept20s = 20 * time.Second
)

var (
	theStart  = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	nextStart = theStart.Add(time.Minute)
	theWindow = windowOf(theRun, theStart)
	idle      = end{code: watchdog.SessionIdleTimeout, author: sweep.Author}
	ownEnd    = end{code: watchdog.WallClockExceeded}
	active    = row{session.Active, "", theStart}
	idleRow   = row{session.Cancelled, watchdog.SessionIdleTimeout, theStart}
)

// A small is small evidence: the journals of hosts, when sweepers were told that they cancelled the run, its row and its
// end events.
type small struct {
	hosts   []*processRecord
	told    []time.Duration
	strayed []time.Duration // the same of a sweeper that was left with an old primary then
	row     row
	noRow   bool
	ends    []end
	resumed bool // the window after the first is open in the store
	outages []span
	locks   []span
}

// complete makes evidence of it. Each host has a journal without gaps but those that it says.
func (s small) complete() evidence {
	e := evidence{
		hosts: s.hosts, outages: s.outages, locks: s.locks,
		stored: stored{
			rows: map[string]row{theRun: s.row}, ends: map[window][]end{theWindow: s.ends},
			resumed: map[window]bool{windowOf(theRun, nextStart): s.resumed},
		},
	}
	if s.noRow {
		e.rows = nil
	}
	if len(s.ends) == 0 {
		e.ends = nil
	}
	for _, at := range s.told {
		e.sweepers = append(e.sweepers, &processRecord{entries: []entry{{At: at, What: swept, Run: theRun, Window: theStart}}})
	}
	for _, at := range s.strayed {
		e.sweepers = append(e.sweepers, &processRecord{
			entries: []entry{{At: at, What: swept, Run: theRun, Window: theStart}}, stray: []span{{at, at}},
		})
	}
	return e
}

// aHost returns the record of a host that was stopped in the gaps, with entries about the run.
func aHost(gaps []span, entries ...entry) *processRecord {
	p := &processRecord{name: "host"}
	for at := time.Duration(0); at <= until; at += beat {
		running := !slices.ContainsFunc(gaps, func(gap span) bool { return at > gap.from && at < gap.to })
		if running {
			p.entries = append(p.entries, entry{At: at, What: signalled, Cohort: aCohort})
		}
	}
	for _, e := range entries {
		e.Run = theRun
		if e.Window.IsZero() {
			e.Window = theStart
		}
		p.entries = append(p.entries, e)
	}
	slices.SortStableFunc(p.entries, func(a, b entry) int { return int(a.At - b.At) })
	return p
}

// killedAt ends the host.
func (p *processRecord) killedAt(at time.Duration) *processRecord {
	p.entries = slices.DeleteFunc(p.entries, func(e entry) bool { return e.At > at })
	p.killed = at
	return p
}

// cutOff notes that the host was away.
func (p *processRecord) cutOff(from, to time.Duration) *processRecord {
	p.away = append(p.away, span{from, to})
	return p
}

// leftBehind notes that the host was left with an old primary.
func (p *processRecord) leftBehind(from, to time.Duration) *processRecord {
	p.stray = append(p.stray, span{from, to})
	return p.cutOff(from, to)
}

// notWriting adds that the witness of the host could not write from then on until then, in seconds.
func (p *processRecord) notWriting(from, to float64) *processRecord {
	e := at(to, unwritten)
	e.Since = at(from, unwritten).At
	p.entries = append(p.entries, e)
	slices.SortStableFunc(p.entries, func(a, b entry) int { return int(a.At - b.At) })
	return p
}

// notHearing notes that the host may not have heard of cancels.
func (p *processRecord) notHearing(from, to time.Duration) *processRecord {
	p.late = append(p.late, span{from, to})
	return p
}

func one(p *processRecord) []*processRecord { return []*processRecord{p} }

// sweptAt20 is the evidence of a run of one host that a sweeper cancelled, as the store says, too.
func sweptAt20(p *processRecord) small {
	return small{hosts: one(p), told: []time.Duration{swept20s}, row: idleRow, ends: []end{idle}}
}

// live is that of a run of one host whose row is active.
func live(p *processRecord) small { return small{hosts: one(p), row: active} }

func at(seconds float64, what string) entry {
	return entry{At: time.Duration(seconds * float64(time.Second)), What: what}
}

func endedAs(seconds float64, cause watchdog.StopReason) entry {
	e := at(seconds, ended)
	e.Cause = string(cause)
	return e
}

// guarded returns the entry of an attach, of a run that is signalled all the time or never by others.
func guarded(seconds float64, cohort string) entry {
	e := at(seconds, attached)
	e.Cohort = cohort
	return e
}

const idleTimeout = watchdog.SessionIdleTimeout

var judgeCases = []struct {
	name     string
	evidence small
	want     []string
}{
	{"a busy run is live", live(aHost(nil, guarded(1, aCohort))), nil},
	{"a run without a row", small{hosts: one(aHost(nil, guarded(1, aCohort))), noRow: true}, []string{disagree}},
	{"a busy run is swept", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(20.5, idleTimeout)),
	), []string{liveCancelled}},
	{"a run that never signals is swept, and only its host noticed", small{
		hosts: one(aHost(nil, guarded(1, ""), endedAs(20, idleTimeout))), row: idleRow, ends: []end{idle},
	}, []string{liveCancelled}},
	{"a run is swept that was silent for longer than the threshold", sweptAt20(
		aHost(nil, guarded(1, ""), at(15, signalled), endedAs(20, idleTimeout)),
	), nil},
	{"a run is swept that was silent for less than the threshold", sweptAt20(
		aHost(nil, guarded(1, ""), at(17, signalled), endedAs(20, idleTimeout)),
	), []string{liveCancelled}},
	{"a run is swept before it was silent for longer than the threshold, and ends after", small{
		hosts: one(aHost(nil, guarded(1, ""), at(15, signalled), endedAs(20.5, idleTimeout))),
		told:  []time.Duration{18 * time.Second}, row: idleRow, ends: []end{idle},
	}, []string{liveCancelled}},
	{"a run is in a hold", live(aHost(nil, guarded(1, ""), at(2, signalled), at(3, held))), nil},
	{"a run is signalled with others", live(aHost(nil, guarded(1, aCohort), at(2, signalled))), nil},
	{"a run is swept in a hold", sweptAt20(
		aHost(nil, guarded(1, ""), at(2, signalled), at(3, held), endedAs(20, idleTimeout)),
	), []string{liveCancelled}},
	{"a run is swept that was silent after a hold", sweptAt20(
		aHost(nil, guarded(1, ""), at(3, held), at(10, released), endedAs(20, idleTimeout)),
	), nil},
	{"a run is swept whose host was away for two promises", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(20, idleTimeout)).cutOff(17*time.Second, 19*time.Second),
	), []string{liveCancelled}},
	{"a run is swept whose host was away for longer than three promises", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, idleTimeout)).cutOff(15*time.Second, 19*time.Second)),
		told:  []time.Duration{18500 * time.Millisecond}, row: idleRow, ends: []end{idle},
	}, nil},
	{"a run is swept whose host was away, and back for longer than a sweeper can doubt", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(20, idleTimeout)).cutOff(11*time.Second, 15*time.Second),
	), []string{liveCancelled}},
	{"but one may be whose row was locked from before it was back", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, idleTimeout)).cutOff(11*time.Second, 15*time.Second)),
		told:  []time.Duration{swept20s}, row: idleRow, ends: []end{idle},
		locks: []span{{14 * time.Second, 19 * time.Second}},
	}, nil},
	{"and none whose row was locked only later", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, idleTimeout)).cutOff(11*time.Second, 15*time.Second)),
		told:  []time.Duration{swept20s}, row: idleRow, ends: []end{idle},
		locks: []span{{16 * time.Second, 19 * time.Second}},
	}, []string{liveCancelled}},
	{"a run is swept before its host could be seen to be dead", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(21, idleTimeout)).cutOff(18500*time.Millisecond, 23*time.Second),
	), []string{liveCancelled}},
	{"a run is swept whose host did not get to run", small{
		hosts: one(aHost([]span{{15 * time.Second, 19 * time.Second}}, guarded(1, aCohort), endedAs(20, idleTimeout))),
		told:  []time.Duration{18500 * time.Millisecond}, row: idleRow, ends: []end{idle},
	}, nil},
	{"a run is swept whose process could not write, and nobody knew why", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, idleTimeout)).notWriting(15, 16).notWriting(16.5, 17.5).
			notWriting(17.5, 19)),
		told: []time.Duration{18500 * time.Millisecond}, row: idleRow, ends: []end{idle},
	}, nil},
	{"a run is swept whose process could write after two promises", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, idleTimeout)).notWriting(15, 16).notWriting(16, 17).
			notWriting(18.5, 19)),
		told: []time.Duration{18500 * time.Millisecond}, row: idleRow, ends: []end{idle},
	}, []string{liveCancelled}},
	{"an outage of the database kills no host", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, idleTimeout))), outages: []span{{10 * time.Second, swept20s}},
		told: []time.Duration{swept20s}, row: idleRow, ends: []end{idle},
	}, []string{liveCancelled}},
	{"a run is swept whose host was killed", sweptAt20(
		aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second),
	), nil},
	{"a run is forgotten whose host was killed", live(
		aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second),
	), []string{deadForgotten}},
	{"a run is swept that another process guards again", small{
		hosts: []*processRecord{
			aHost(nil, guarded(1, aCohort)).killedAt(5 * time.Second),
			aHost(nil, guarded(12, aCohort), endedAs(20, idleTimeout)),
		},
		told: []time.Duration{swept20s}, row: idleRow, ends: []end{idle},
	}, []string{liveCancelled}},
	{"a run is silent and not swept", live(aHost(nil, guarded(1, ""), at(2, signalled))), []string{idleForgotten}},
	{"a run that never signals is not swept", live(aHost(nil, guarded(1, ""))), nil},
	{"a window has two ends", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, watchdog.WallClockExceeded)).killedAt(30 * time.Second)),
		row:   idleRow, ends: []end{ownEnd, idle},
	}, []string{doubled}},
	{"two sweepers say that they cancelled a run", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)),
		told:  []time.Duration{swept20s, swept20s + 1}, row: idleRow, ends: []end{idle},
	}, []string{doubled}},
	{"a sweeper cancelled a run without an event", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)),
		told:  []time.Duration{swept20s}, row: idleRow,
	}, []string{lost, disagree}},
	{"the row names another reason than the event", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)), row: idleRow, ends: []end{ownEnd},
	}, []string{disagree}},
	{"the row is finished, and the event is a cancel", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)),
		row:   row{session.Finished, "", theStart}, ends: []end{ownEnd},
	}, []string{disagree}},
	{"the row is active in another window", small{
		hosts: one(aHost(nil, guarded(1, aCohort))), row: row{session.Active, "", nextStart},
	}, []string{disagree}},
	{"a window was swept before the run was resumed", small{
		hosts: one(aHost(nil, entry{At: time.Second, What: attached, Window: nextStart, Cohort: aCohort})),
		told:  []time.Duration{swept20s}, row: row{session.Active, "", nextStart}, ends: []end{idle},
	}, nil},
	{"the row is complete, and the event is a cancel", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)),
		row:   row{session.Finished, completedCode, theStart}, ends: []end{ownEnd},
	}, []string{disagree}},
	{"the row is complete, and so is the event", small{
		hosts: one(aHost(nil, guarded(1, aCohort), at(20, completed), endedAs(20, ""))),
		row:   row{session.Finished, completedCode, theStart}, ends: []end{{complete: true}},
	}, nil},
	{"the row is complete without an event", small{
		hosts: one(aHost(nil, guarded(1, aCohort), at(20, completed), endedAs(20, ""))),
		row:   row{session.Finished, completedCode, theStart},
	}, []string{disagree, lost}},
	{"the row is of a resume that failed, and says how the window before ended", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)), told: []time.Duration{swept20s},
		row: row{session.Cancelled, idleTimeout, nextStart}, ends: []end{idle},
	}, nil},
	{"the row is of a resume that failed, and says another end than that before", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)),
		row:   row{session.Cancelled, watchdog.WallClockExceeded, nextStart}, ends: []end{idle},
	}, []string{disagree}},
	{"the row is of a window that was guarded, and says how the one before ended", small{
		hosts: one(aHost(nil, entry{At: time.Second, What: attached, Window: nextStart, Cohort: aCohort}).
			killedAt(15 * time.Second)),
		told: []time.Duration{swept20s}, row: row{session.Cancelled, idleTimeout, nextStart}, ends: []end{idle},
	}, []string{disagree}},
	{"the row is of a resume that failed, and is interrupted where the window before has an end", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)),
		row:   row{session.Interrupted, "", nextStart}, ends: []end{ownEnd},
	}, []string{disagree}},
	{"the row is of a resume that is stored and was told to have failed, and is interrupted", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)), resumed: true,
		row: row{session.Interrupted, "", nextStart}, ends: []end{ownEnd},
	}, nil},
	{"the row is of such a resume, and says how the window before ended", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)), resumed: true,
		row: row{session.Cancelled, watchdog.WallClockExceeded, nextStart}, ends: []end{ownEnd},
	}, nil},
	{"the row of a run that was guarded is interrupted, and the event is its stop", small{
		hosts: one(aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second)),
		row:   row{session.Interrupted, "", theStart}, ends: []end{ownEnd},
	}, []string{disagree}},
	{"the row is active, and its window has an end", small{
		hosts: one(aHost(nil, guarded(1, aCohort))), row: active, ends: []end{ownEnd},
	}, []string{disagree}},
	{"a run ends by its own limit, and another stop was stored before", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, watchdog.WallClockExceeded), at(21, recorded)).
			cutOff(10*time.Second, 20*time.Second)),
		row: idleRow, ends: []end{idle},
	}, nil},
	{"the store has no stop though it said so", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, watchdog.WallClockExceeded), at(21, recorded))),
		row:   row{session.Finished, "", theStart},
	}, []string{lost}},
	{"the store has a stop where it said that the run is complete", small{
		hosts: one(aHost(nil, guarded(1, aCohort), at(20, completed), endedAs(20, ""))),
		row:   row{session.Cancelled, watchdog.WallClockExceeded, theStart}, ends: []end{ownEnd},
	}, []string{lost}},
	{"a run goes on whose row is finished", small{
		hosts: one(aHost(nil, guarded(1, aCohort))), row: row{session.Finished, "", theStart},
	}, []string{wentOn}},
	{"a run ends late because the database could not be read", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(27, idleTimeout)).cutOff(10*time.Second, 19*time.Second)),

		told: []time.Duration{swept20s}, row: idleRow, ends: []end{idle}, outages: []span{{19 * time.Second, 25 * time.Second}},
	}, nil},
	{"a process attaches to a run that was swept, and finds it ended", small{
		hosts: []*processRecord{
			aHost(nil, guarded(1, aCohort)).killedAt(15 * time.Second),
			aHost(nil, guarded(30, aCohort), endedAs(30.5, idleTimeout)),
		},
		told: []time.Duration{swept20s}, row: idleRow, ends: []end{idle},
	}, nil},
	{"a run goes on whose row is cancelled", sweptAt20(
		aHost(nil, guarded(1, aCohort)).cutOff(10*time.Second, 25*time.Second),
	), []string{wentOn}},
	{"a run ends late after its host has come back", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(29, idleTimeout)).cutOff(10*time.Second, 25*time.Second),
	), []string{wentOn}},
	{"a run ends late whose host did not hear of the cancel", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(26, idleTimeout)).cutOff(5*time.Second, 19*time.Second).
			notHearing(18*time.Second, 25*time.Second),
	), nil},
	{"a run ends as soon as its host has come back", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(26, idleTimeout)).cutOff(10*time.Second, 25*time.Second),
	), nil},
	{"an end is lost with the old primary that acknowledged it", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, watchdog.WallClockExceeded), at(20.5, recorded)).
			leftBehind(18*time.Second, 22*time.Second)),
		row: row{session.Cancelled, watchdog.WallClockExceeded, theStart},
	}, nil},
	{"an end is lost long after the old primary was fenced", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, watchdog.WallClockExceeded), at(20.5, recorded)).
			leftBehind(10*time.Second, 14*time.Second)),
		row: row{session.Cancelled, watchdog.WallClockExceeded, theStart},
	}, []string{lost, disagree}},
	{"an end is lost of a host that was not left with the old primary", small{
		hosts: []*processRecord{
			aHost(nil, guarded(1, aCohort), endedAs(20, watchdog.WallClockExceeded), at(20.5, recorded)),
			aHost(nil).leftBehind(18*time.Second, 22*time.Second),
		},
		row: row{session.Cancelled, watchdog.WallClockExceeded, theStart},
	}, []string{lost, disagree}},
	{"the row names another reason than the event, and its host was left with the old primary", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(20, watchdog.WallClockExceeded), at(20.5, recorded)).
			leftBehind(18*time.Second, 22*time.Second)),
		row: row{session.Cancelled, watchdog.WallClockExceeded, theStart}, ends: []end{idle},
	}, []string{disagree}},
	{"a sweeper that is left with the old primary cancels a run of a host that is not", small{
		hosts: one(aHost(nil, guarded(1, aCohort))), strayed: []time.Duration{swept20s}, row: active,
	}, nil},
	{"a run is cancelled on both primaries", small{
		hosts: one(aHost(nil, guarded(1, aCohort), endedAs(23, idleTimeout)).leftBehind(15*time.Second, 22*time.Second)),
		told:  []time.Duration{swept20s}, strayed: []time.Duration{swept20s}, row: idleRow, ends: []end{idle},
	}, nil},
	{"a run is cancelled on the new primary whose host was left with the old one for two promises", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(20.5, idleTimeout)).leftBehind(18*time.Second, 20*time.Second),
	), []string{liveCancelled}},
	{"a run is cancelled on the new primary whose host was not left with the old one", small{
		hosts: []*processRecord{
			aHost(nil, guarded(1, aCohort), endedAs(20.5, idleTimeout)), aHost(nil).leftBehind(15*time.Second, 22*time.Second),
		},
		told: []time.Duration{swept20s}, row: idleRow, ends: []end{idle},
	}, []string{liveCancelled}},
	{"a run goes on after the old primary was fenced, and was cancelled on the new one", sweptAt20(
		aHost(nil, guarded(1, aCohort), endedAs(29, idleTimeout)).leftBehind(15*time.Second, 22*time.Second),
	), []string{wentOn}},
}
