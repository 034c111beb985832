// Package looper finds out whether one run repeats itself, for all goroutines that tell of its turns: it says which of
// what package loop finds is a trip of the run's ladder, and when what it remembers is to be recorded.
//
// It knows no run, asks nobody for anything and records nothing.
package looper

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/loop"
)

// patience is how many turns a loop that is ended without having been asked about may go on before the next rung of the
// ladder, without a turn that is new.
const patience = 8

// deaf is how many turns a run may go on with what its host was asked to stop before it counts as told, though nobody
// has taken that: a host that takes no directives has a run ended that repeats itself, too.
const deaf = 32

// pace is how often the state is recorded at most, unless that presses.
const pace = time.Minute

// A Looper has the loop detector of a run. It is safe for concurrent use.
type Looper struct {
	mu       sync.Mutex
	detector *loop.Detector
	classes  map[string]loop.Class
	asked    bool // the host was asked to stop it, and has not taken that yet
	over     int  // how many turns that were not new a loop has gone on that is ended without being asked about
	untaken  int  // how many turns one has gone on that it was asked about since
	persons  int  // how many turns had a person

	changed  bool      // since it was recorded
	pressing bool      // the host was asked something, or has taken that, since it was recorded
	recorded time.Time // when; the beginning at first
}

// New returns one of a run that begins now. The config was checked; nil is the default.
func New(config *loop.Config, now time.Time) *Looper {
	if config == nil {
		config = &loop.Config{}
	}
	detector, _ := loop.New(*config)
	return &Looper{detector: detector, classes: config.Classes, recorded: now}
}

// Step takes a turn, and reports whether what was found is a trip, and whether of another loop than the last.
func (l *Looper) Step(turn []loop.Step) (v loop.Verdict, trips, another bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isPerson := func(s loop.Step) bool { return cmp.Or(s.Class, l.classes[s.Tool]) == loop.Person }
	if slices.ContainsFunc(turn, isPerson) { // what the host was asked before concerns nobody any more
		l.asked = false
		l.persons++
	}
	v = l.detector.Step(turn...)
	l.changed = true
	trips, another = l.judge(&v)
	l.pressing = l.pressing || another
	return v, trips, another
}

func (l *Looper) judge(v *loop.Verdict) (trips, another bool) {
	unasked := v.Rule == loop.Poll && v.Advice == loop.End
	if !unasked {
		l.over = 0
	}
	if v.New {
		l.untaken = 0
	}
	switch {
	case v.Advice == loop.Go, unasked && v.New: // in the second case the run did something else at once
		return false, false
	case unasked:
		l.over++
		another = l.over == 1 && !l.asked
		trips = another || l.over > patience
	case v.Advice == loop.Ask:
		trips = l.asks()
		another = trips
	default:
		trips = true
	}
	l.asked = true
	return trips, another
}

// asks reports whether the host is to be asked to stop a loop, or was, and has not taken it yet.
func (l *Looper) asks() bool {
	if !l.asked {
		l.untaken = 0
		return true
	}
	if l.untaken++; l.untaken == deaf {
		l.detector.Delivered()
	}
	return false
}

// Delivered notes that one of its readers has taken what the host was asked. The first one counts.
func (l *Looper) Delivered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked {
		l.asked, l.changed, l.pressing = false, true, true
		l.detector.Delivered()
	}
}

// Persons is in how many turns a person said something.
func (l *Looper) Persons() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.persons
}

// State is what is remembered.
func (l *Looper) State() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	state, _ := l.detector.MarshalBinary() // never fails
	return state
}

// Restore has it remember a state. The error is that of [loop.Detector.UnmarshalBinary]; then nothing changes.
func (l *Looper) Restore(state []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.detector.UnmarshalBinary(state)
}

// Due reports whether there is something new that is to be recorded now.
func (l *Looper) Due(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed && (l.pressing || now.Sub(l.recorded) >= pace)
}

// Press makes what is new due at once, and reports whether there is any.
func (l *Looper) Press() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pressing = l.pressing || l.changed
	return l.changed
}

// Take is State for who records it now: nothing is new then.
func (l *Looper) Take(now time.Time) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed, l.pressing, l.recorded = false, false, now
	state, _ := l.detector.MarshalBinary() // never fails
	return state
}

// Lost notes that a state that was taken could not be recorded. It is due again, and does not press.
func (l *Looper) Lost(state []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
}
