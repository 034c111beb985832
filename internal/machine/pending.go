package machine

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
)

const (
	// MaxPending is how many entries wait that are not spare.
	MaxPending = 64
	// MaxSpare is how many spare ones wait besides.
	MaxSpare = 1024
)

var (
	// ErrDropped says that newer entries took the place of one that waited.
	ErrDropped = errors.New("more than " + strconv.Itoa(MaxPending) + " wait for the event store: the oldest is dropped")
	// ErrSpareDropped says that a newer spare entry took its place.
	ErrSpareDropped = errors.New("too many overruns of calls wait for the event store")
)

// A State is where an [Entry] stands.
type State struct {
	// Opening is that of the pause that the entry closes, nil if another process opened it.
	Opening *State
	release *State // of the pause that it opens; nil while that is open
	err     error
	// Opens and Closes tell that the entry is the opening or the release of a pause.
	Opens, Closes bool
	spare, stored bool
}

// Stored reports whether the store has the entry.
func (s *State) Stored() bool { return s.stored }

// Err returns why the store did not take the entry when it was tried last, or that it was dropped. It is nil for one
// that is stored or was never tried.
func (s *State) Err() error {
	if s.stored {
		return nil
	}
	return s.err
}

// Pending is the line of what a run has decided and its store does not have yet: spare entries and then the others,
// each oldest first. Where too much waits, what became of calls is dropped before all else, a pause together with its
// release or not at all, and never the newest, which a run's stop is. Its zero value is empty. It is not safe for
// concurrent use.
type Pending struct{ entries []*Entry }

// Put has an entry wait. If too many do, the oldest that can be dropped is.
func (q *Pending) Put(e *Entry) {
	q.entries = append(q.entries, e)
	newest := &e.State
	if newest.Opening != nil {
		newest.Opening.release = newest
	}
	for len(q.entries)-q.spare() > MaxPending {
		at := slices.IndexFunc(q.entries, func(old *Entry) bool { return old.canDrop(newest) })
		if at < 0 {
			return
		}
		oldest := &q.entries[at].State
		dropped := [...]*State{oldest, cmp.Or(oldest.release, oldest)}
		for _, old := range dropped {
			old.err = ErrDropped
		}
		q.entries = slices.DeleteFunc(q.entries, func(e *Entry) bool { return slices.Contains(dropped[:], &e.State) })
	}
}

// canDrop reports whether the entry can be dropped for a new one. Of a pause the opening and the release are dropped
// together: alone, the opening would have it last until its cap for others. That is why one that is open is kept, and
// the release of one that the store has or may have. There are no more of those than holds were open.
func (s *State) canDrop(newest *State) bool {
	switch {
	case s.spare || s.Closes || s == newest:
		return false
	case !s.Opens:
		return true
	}
	return s.release != nil && (s.release.stored || s.release.err != nil) // somebody has tried it
}

// PutSpare has an entry wait that is dropped before the others, and returns those that were dropped for it.
func (q *Pending) PutSpare(e *Entry) (dropped []*Entry) {
	e.spare = true
	at := q.spare()
	q.entries = slices.Insert(q.entries, at, e)
	if at >= MaxSpare {
		q.entries[0].err = ErrSpareDropped
		dropped, q.entries = q.entries[:1:1], q.entries[1:]
	}
	return dropped
}

func (q *Pending) spare() int {
	if at := slices.IndexFunc(q.entries, func(e *Entry) bool { return !e.spare }); at >= 0 {
		return at
	}
	return len(q.entries)
}

// Empty reports whether the store has everything.
func (q *Pending) Empty() bool { return len(q.entries) == 0 }

// All are the entries that the store does not have.
func (q *Pending) All() []*Entry { return slices.Clone(q.entries) }

// Pauses are the openings and releases of pauses among them.
func (q *Pending) Pauses() (pauses []*Entry) {
	for _, e := range q.entries {
		if e.Opens || e.Closes {
			pauses = append(pauses, e)
		}
	}
	return pauses
}

// Settle notes that the store has the entries, which may have been dropped.
func (q *Pending) Settle(stored []*Entry) {
	for _, e := range stored {
		e.stored = true
	}
	q.entries = slices.DeleteFunc(q.entries, func(e *Entry) bool { return e.stored })
}

// Fail notes why the store did not take the entries.
func (q *Pending) Fail(err error, tried []*Entry) {
	for _, e := range tried {
		e.err = err
	}
}
