//go:build linux

package soak_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
					require.NotEmpty(t, found[wrong], wrong)
				} else {
					require.Empty(t, found[wrong], wrong)
				}
			}
		})
	}
}

// The evidence of all cases is about one run, in one window, up to one time.
const (
	theRun  = "run"
	until   = 40 * time.Second
	aCohort = "cohort"

	idleTimeout = watchdog.SessionIdleTimeout
	wallClocked = watchdog.WallClockExceeded
)

var (
	theStart  = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	nextStart = theStart.Add(time.Minute)
	theWindow = windowOf(theRun, theStart)
	idle      = []end{{code: idleTimeout, author: sweep.Author}}
	ownEnd    = []end{{code: wallClocked}}
	complete  = []end{{complete: true}}
	active    = row{session.Active, "", theStart}
	idleRow   = row{session.Cancelled, idleTimeout, theStart}
	ownRow    = row{session.Cancelled, wallClocked, theStart}
	finished  = row{session.Finished, "", theStart}
	doneRow   = row{session.Finished, completedCode, theStart}
)

// A small is small evidence: the journals of hosts, when sweepers were told that they cancelled the run, its row and its
// end events.
type small struct {
	hosts   []*processRecord
	told    []time.Duration
	strayed []time.Duration // the same of a sweeper that was left with an old primary then
	row     row             // zero for none
	ends    []end
	resumed bool // the window after the first is open in the store
	outages []span
	locks   []span
}

// of is evidence of a row, the ends of its window, and hosts.
func of(r row, ends []end, hosts ...*processRecord) small {
	return small{row: r, ends: ends, hosts: hosts}
}

// live is that of a run whose row is active.
func live(hosts ...*processRecord) small { return of(active, nil, hosts...) }

// sweptAt is that of a run that a sweeper cancelled, as the store says, too.
func sweptAt(seconds float64, hosts ...*processRecord) small {
	return of(idleRow, idle, hosts...).tell(seconds)
}

// tell adds when a sweeper was told that it cancelled the run.
func (s small) tell(seconds float64) small {
	s.told = append(s.told, timeOf(seconds))
	return s
}

func (s small) tellAstray(seconds float64) small {
	s.strayed = append(s.strayed, timeOf(seconds))
	return s
}

func (s small) openNext() small {
	s.resumed = true
	return s
}

// without adds an outage.
func (s small) without(from, to float64) small {
	s.outages = append(s.outages, stretch(from, to))
	return s
}

func (s small) locked(from, to float64) small {
	s.locks = append(s.locks, stretch(from, to))
	return s
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
	if s.row == (row{}) {
		e.rows = nil
	}
	if len(s.ends) == 0 {
		e.ends = nil
	}
	sweeper := func(at time.Duration) *processRecord {
		return &processRecord{entries: []entry{{At: at, What: swept, Run: theRun, Window: theStart}}}
	}
	for _, at := range s.told {
		e.sweepers = append(e.sweepers, sweeper(at))
	}
	for _, at := range s.strayed {
		left := sweeper(at)
		left.stray = []span{{at, at}}
		e.sweepers = append(e.sweepers, left)
	}
	return e
}

// aHost returns the record of a host with entries about the run.
func aHost(entries ...entry) *processRecord {
	p := &processRecord{name: "host"}
	for at := time.Duration(0); at <= until; at += beat {
		p.entries = append(p.entries, entry{At: at, What: signalled, Cohort: aCohort})
	}
	for _, e := range entries {
		e.Run = theRun
		if e.Window.IsZero() {
			e.Window = theStart
		}
		p.entries = append(p.entries, e)
	}
	return p.inOrder()
}

// guarding returns that of a host that guards the run from the first second on, and signals it all the time.
func guarding(entries ...entry) *processRecord { return aHost(append(entries, guarded(1, aCohort))...) }

// idling is the same of a run that is signalled by itself only.
func idling(entries ...entry) *processRecord { return aHost(append(entries, guarded(1, ""))...) }

// dead is that of a host which was killed.
func dead() *processRecord { return guarding().killedAt(15) }

func (p *processRecord) inOrder() *processRecord {
	slices.SortStableFunc(p.entries, func(a, b entry) int { return int(a.At - b.At) })
	return p
}

// killedAt ends the host.
func (p *processRecord) killedAt(seconds float64) *processRecord {
	p.killed = timeOf(seconds)
	p.entries = slices.DeleteFunc(p.entries, func(e entry) bool { return e.At > p.killed })
	return p
}

// notRunning takes out what the host wrote between two times.
func (p *processRecord) notRunning(from, to float64) *processRecord {
	gap := stretch(from, to)
	p.entries = slices.DeleteFunc(p.entries, func(e entry) bool { return e.At > gap.from && e.At < gap.to })
	return p
}

// cutOff notes that the host was away.
func (p *processRecord) cutOff(from, to float64) *processRecord {
	p.away = append(p.away, stretch(from, to))
	return p
}

// leftBehind notes that the host was left with an old primary.
func (p *processRecord) leftBehind(from, to float64) *processRecord {
	p.stray = append(p.stray, stretch(from, to))
	return p.cutOff(from, to)
}

// notWriting adds that the witness of the host could not write.
func (p *processRecord) notWriting(from, to float64) *processRecord {
	p.entries = append(p.entries, entry{At: timeOf(to), What: unwritten, Since: timeOf(from)})
	return p.inOrder()
}

// notHearing notes that the host may not have heard of cancels.
func (p *processRecord) notHearing(from, to float64) *processRecord {
	p.late = append(p.late, stretch(from, to))
	return p
}

func timeOf(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func stretch(from, to float64) span { return span{timeOf(from), timeOf(to)} }

func at(seconds float64, what string) entry { return entry{At: timeOf(seconds), What: what} }

func endedAs(seconds float64, cause watchdog.StopReason) entry {
	return entry{At: timeOf(seconds), What: ended, Cause: string(cause)}
}

// guarded returns the entry of an attach, of a run that is signalled all the time or never by others.
func guarded(seconds float64, cohort string) entry {
	return entry{At: timeOf(seconds), What: attached, Cohort: cohort}
}

// guardedNext is that of the next window.
func guardedNext() *processRecord {
	return aHost(entry{At: time.Second, What: attached, Window: nextStart, Cohort: aCohort})
}

var judgeCases = []struct {
	name     string
	evidence small
	want     []string
}{
	{"a busy run is live", live(guarding()), nil},
	{"a run without a row", of(row{}, nil, guarding()), []string{disagree}},
	{"a busy run is swept", sweptAt(20, guarding(endedAs(20.5, idleTimeout))), []string{liveCancelled}},
	{"a run that never signals is swept, and only its host noticed",
		of(idleRow, idle, idling(endedAs(20, idleTimeout))), []string{liveCancelled}},
	{"a run is swept that was silent for longer than the threshold",
		sweptAt(20, idling(at(15, signalled), endedAs(20, idleTimeout))), nil},
	{"a run is swept that was silent for less than the threshold",
		sweptAt(20, idling(at(17, signalled), endedAs(20, idleTimeout))), []string{liveCancelled}},
	{"a run is swept before it was silent for longer than the threshold, and ends after",
		sweptAt(18, idling(at(15, signalled), endedAs(20.5, idleTimeout))), []string{liveCancelled}},
	{"a run is in a hold", live(idling(at(2, signalled), at(3, held))), nil},
	{"a run is signalled with others", live(guarding(at(2, signalled))), nil},
	{"a run is swept in a hold",
		sweptAt(20, idling(at(2, signalled), at(3, held), endedAs(20, idleTimeout))), []string{liveCancelled}},
	{"a run is swept that was silent after a hold",
		sweptAt(20, idling(at(3, held), at(10, released), endedAs(20, idleTimeout))), nil},
	{"a run is swept whose host was away for two promises",
		sweptAt(20, guarding(endedAs(20, idleTimeout)).cutOff(17, 19)), []string{liveCancelled}},
	{"a run is swept whose host was away for longer than three promises",
		sweptAt(18.5, guarding(endedAs(20, idleTimeout)).cutOff(15, 19)), nil},
	{"a run is swept whose host was away, and back for longer than a sweeper can doubt",
		sweptAt(20, guarding(endedAs(20, idleTimeout)).cutOff(11, 15)), []string{liveCancelled}},
	{"but one may be whose row was locked from before it was back",
		sweptAt(20, guarding(endedAs(20, idleTimeout)).cutOff(11, 15)).locked(14, 19), nil},
	{"and none whose row was locked only later",
		sweptAt(20, guarding(endedAs(20, idleTimeout)).cutOff(11, 15)).locked(16, 19), []string{liveCancelled}},
	{"a run is swept before its host could be seen to be dead",
		sweptAt(20, guarding(endedAs(21, idleTimeout)).cutOff(18.5, 23)), []string{liveCancelled}},
	{"a run is swept whose host did not get to run",
		sweptAt(18.5, guarding(endedAs(20, idleTimeout)).notRunning(15, 19)), nil},
	{"a run is swept whose process could not write, and nobody knew why", sweptAt(18.5,
		guarding(endedAs(20, idleTimeout)).notWriting(15, 16).notWriting(16.5, 17.5).notWriting(17.5, 19)), nil},
	{"a run is swept whose process could write after two promises", sweptAt(18.5,
		guarding(endedAs(20, idleTimeout)).notWriting(15, 16).notWriting(16, 17).notWriting(18.5, 19)), []string{liveCancelled}},
	{"an outage of the database kills no host",
		sweptAt(20, guarding(endedAs(20, idleTimeout))).without(10, 20), []string{liveCancelled}},
	{"a run is swept whose host was killed", sweptAt(20, dead()), nil},
	{"a run is forgotten whose host was killed", live(dead()), []string{deadForgotten}},
	{"a run is swept that another process guards again",
		sweptAt(20, guarding().killedAt(5), aHost(guarded(12, aCohort), endedAs(20, idleTimeout))), []string{liveCancelled}},
	{"a run is silent and not swept", live(idling(at(2, signalled))), []string{idleForgotten}},
	{"a run that never signals is not swept", live(idling()), nil},
	{"a window has two ends", of(idleRow, slices.Concat(ownEnd, idle), guarding(endedAs(20, wallClocked)).killedAt(30)),
		[]string{doubled}},
	{"two sweepers say that they cancelled a run", sweptAt(20, dead()).tell(20.001), []string{doubled}},
	{"a sweeper cancelled a run without an event", of(idleRow, nil, dead()).tell(20), []string{lost, disagree}},
	{"the row names another reason than the event", of(idleRow, ownEnd, dead()), []string{disagree}},
	{"the row is finished, and the event is a cancel", of(finished, ownEnd, dead()), []string{disagree}},
	{"the row is active in another window", of(row{session.Active, "", nextStart}, nil, guarding()), []string{disagree}},
	{"a window was swept before the run was resumed",
		of(row{session.Active, "", nextStart}, idle, guardedNext()).tell(20), nil},
	{"the row is complete, and the event is a cancel", of(doneRow, ownEnd, dead()), []string{disagree}},
	{"the row is complete, and so is the event", of(doneRow, complete, guarding(at(20, completed), endedAs(20, ""))), nil},
	{"the row is complete without an event",
		of(doneRow, nil, guarding(at(20, completed), endedAs(20, ""))), []string{disagree, lost}},
	{"the row is of a resume that failed, and says how the window before ended",
		of(row{session.Cancelled, idleTimeout, nextStart}, idle, dead()).tell(20), nil},
	{"the row is of a resume that failed, and says another end than that before",
		of(row{session.Cancelled, wallClocked, nextStart}, idle, dead()), []string{disagree}},
	{"the row is of a window that was guarded, and says how the one before ended",
		of(row{session.Cancelled, idleTimeout, nextStart}, idle, guardedNext().killedAt(15)).tell(20), []string{disagree}},
	{"the row is of a resume that failed, and is interrupted where the window before has an end",
		of(row{session.Interrupted, "", nextStart}, ownEnd, dead()), []string{disagree}},
	{"the row is of a resume that is stored and was told to have failed, and is interrupted",
		of(row{session.Interrupted, "", nextStart}, ownEnd, dead()).openNext(), nil},
	{"the row is of such a resume, and says how the window before ended",
		of(row{session.Cancelled, wallClocked, nextStart}, ownEnd, dead()).openNext(), nil},
	{"the row of a run that was guarded is interrupted, and the event is its stop",
		of(row{session.Interrupted, "", theStart}, ownEnd, dead()), []string{disagree}},
	{"the row is active, and its window has an end", of(active, ownEnd, guarding()), []string{disagree}},
	{"a run ends by its own limit, and another stop was stored before",
		of(idleRow, idle, guarding(endedAs(20, wallClocked), at(21, recorded)).cutOff(10, 20)), nil},
	{"the store has no stop though it said so",
		of(finished, nil, guarding(endedAs(20, wallClocked), at(21, recorded))), []string{lost}},
	{"the store has a stop where it said that the run is complete",
		of(ownRow, ownEnd, guarding(at(20, completed), endedAs(20, ""))), []string{lost}},
	{"a run goes on whose row is finished", of(finished, nil, guarding()), []string{wentOn}},
	{"a run ends late because the database could not be read",
		sweptAt(20, guarding(endedAs(27, idleTimeout)).cutOff(10, 19)).without(19, 25), nil},
	{"a process attaches to a run that was swept, and finds it ended",
		sweptAt(20, dead(), aHost(guarded(30, aCohort), endedAs(30.5, idleTimeout))), nil},
	{"a run goes on whose row is cancelled", sweptAt(20, guarding().cutOff(10, 25)), []string{wentOn}},
	{"a run ends late after its host has come back",
		sweptAt(20, guarding(endedAs(29, idleTimeout)).cutOff(10, 25)), []string{wentOn}},
	{"a run ends late whose host did not hear of the cancel",
		sweptAt(20, guarding(endedAs(26, idleTimeout)).cutOff(5, 19).notHearing(18, 25)), nil},
	{"a run ends as soon as its host has come back", sweptAt(20, guarding(endedAs(26, idleTimeout)).cutOff(10, 25)), nil},
	{"an end is lost with the old primary that acknowledged it",
		of(ownRow, nil, guarding(endedAs(20, wallClocked), at(20.5, recorded)).leftBehind(18, 22)), nil},
	{"an end is lost long after the old primary was fenced",
		of(ownRow, nil, guarding(endedAs(20, wallClocked), at(20.5, recorded)).leftBehind(10, 14)), []string{lost, disagree}},
	{"an end is lost of a host that was not left with the old primary", of(ownRow, nil,
		guarding(endedAs(20, wallClocked), at(20.5, recorded)), aHost().leftBehind(18, 22)), []string{lost, disagree}},
	{"the row names another reason than the event, and its host was left with the old primary",
		of(ownRow, idle, guarding(endedAs(20, wallClocked), at(20.5, recorded)).leftBehind(18, 22)), []string{disagree}},
	{"a sweeper that is left with the old primary cancels a run of a host that is not", live(guarding()).tellAstray(20), nil},
	{"a run is cancelled on both primaries",
		sweptAt(20, guarding(endedAs(23, idleTimeout)).leftBehind(15, 22)).tellAstray(20), nil},
	{"a run is cancelled on the new primary whose host was left with the old one for two promises",
		sweptAt(20, guarding(endedAs(20.5, idleTimeout)).leftBehind(18, 20)), []string{liveCancelled}},
	{"a run is cancelled on the new primary whose host was not left with the old one",
		sweptAt(20, guarding(endedAs(20.5, idleTimeout)), aHost().leftBehind(15, 22)), []string{liveCancelled}},
	{"a run goes on after the old primary was fenced, and was cancelled on the new one",
		sweptAt(20, guarding(endedAs(29, idleTimeout)).leftBehind(15, 22)), []string{wentOn}},
}
