package watchdog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

// Activity is a sign of life: it restarts [Budget].Idle and the Idle of holds, also of the runs around a layer. It
// never polls, records or waits for the store. It is cheap enough to be called per token from many goroutines: about
// what reading the clock costs, no lock and no allocation. (The first sign of a budget with FromFirstSign takes a lock
// to set the timer; so does each with a clock of the host's.) Signs within the same millisecond may count as one at its
// end, so that a limit is never found exceeded too early.
func (w *Watchdog) Activity() {
	if w != nil {
		w.r.signal(false, time.Time{})
	}
}

// Progress is a sign that the work moved forward: it restarts [Budget].NoProgress, puts the ladders back to their
// first rungs, and is activity too. A heartbeat is not progress. The first progress after a directive takes a lock, to
// have it recorded soon.
func (w *Watchdog) Progress() {
	if w != nil {
		w.r.signal(true, time.Time{})
	}
}

// ProgressDigest is [Watchdog.Progress] if the digest, such as a hash of the state reached, was not given before in
// this attach, and activity if it was: a status that flaps between two values is not progress. The runs around a layer
// remember the digests of all their layers, so that one which fresh layers repeat is progress of theirs and not of the
// run. They are remembered from the first one on, also while nothing heeds signals: a hold that is opened later may.
// The last 1,024 are; an older one counts as new again. ProgressDigest reports whether the digest was new to the
// innermost run that heeds signals, or to w if none does.
func (w *Watchdog) ProgressDigest(digest string) bool {
	if w == nil {
		return true
	}
	first, heeded := true, false
	for r := &w.r; r != nil; r = r.around() {
		fresh, heeds := r.digests.Add(digest), r.Node.Pulse.Load() != nil
		r.sign(fresh, time.Time{})
		if r == &w.r || heeds && !heeded {
			first = fresh
		}
		heeded = heeded || heeds
	}
	return first
}

// Observe takes an event of the host's own, by its kind, for the signal that [Config].Kinds say it is, and returns its
// class. The watchdog's own events are never a signal.
func (w *Watchdog) Observe(kind string) string {
	class := w.classOf(kind)
	switch class {
	case ClassMaterial:
		w.Progress()
	case ClassActivity:
		w.Activity()
	}
	return class
}

func (w *Watchdog) classOf(kind string) string {
	if w == nil || w.r.classes == nil || strings.HasPrefix(kind, event.Prefix) {
		return ClassIgnored
	}
	return cmp.Or(w.r.classes.of[kind], w.r.classes.unknown, ClassIgnored)
}

// Note says what the run is doing, such as the name of a tool, for diagnosis: the last note stands in the [Stop], in
// directives and in their events, so it must not hold anything secret. At most 200 characters of its first KiB are
// kept, control characters as spaces. It is not a sign of life.
func (w *Watchdog) Note(what string) {
	if w == nil {
		return
	}
	note := record.Note(what)
	for r := &w.r; r != nil; r = r.around() {
		r.Node.Note.Store(&note)
	}
}

// LastNote returns the last note of the run, empty where there was none.
func (w *Watchdog) LastNote() string {
	if w == nil {
		return ""
	}
	return w.r.Node.LastNote()
}

// signal notes a sign of life at a time, zero for now, also of the runs around a layer. It never polls, records or
// waits.
func (r *run) signal(progress bool, at time.Time) {
	for ; r != nil; r = r.around() {
		r.sign(progress, at)
	}
}

// sign notes a sign of life of this run alone. A limit that begins at the first sign is nearer than what the timer is
// set for, so that the first sign sets the timer. So does the first one after the last rung of a ladder, and the first
// progress after a directive, which has to be recorded before the process is killed.
func (r *run) sign(progress bool, at time.Time) {
	switch pulse := r.Node.Pulse.Load(); {
	case pulse == nil:
	case r.Tree.Clock != nil: // a clock of the host's, which is not read without the lock
		k := r.Tree.Step(&r.Run, &machine.Input{Kind: machine.Sign, Progress: progress})
		k.Pass(r.Tree, k.At)
	case pulse.At(progress, r.limits.FromFirstSign, r.since(at)):
		r.Step(&machine.Input{Kind: machine.Awaited})
	}
}

func (r *run) since(at time.Time) time.Duration {
	if at.IsZero() {
		return r.Tree.Since()
	}
	return r.Tree.SinceAt(at)
}

// The classes: what an event of the host's own means to the watchdog.
const (
	// ClassMaterial events are progress.
	ClassMaterial = "material"
	// ClassActivity events are activity.
	ClassActivity = "activity"
	// ClassIgnored events are no signal.
	ClassIgnored = "ignored"
)

// Kinds classify the host's own kinds of event, once, so that its event stream can be fed to [Watchdog.Observe] and no
// method need be called by hand. The zero value ignores every kind.
type Kinds struct {
	// Material, Activity and Ignored are the kinds of each class, by their exact names.
	Material, Activity, Ignored []string
	// Unknown is the class of every other kind. Empty means [ClassIgnored].
	Unknown string
}

// classes are the kinds as they are looked up, nil where all are ignored.
type classes struct {
	of      map[string]string
	unknown string
}

func (k Kinds) classes() (*classes, error) {
	if len(k.Material)+len(k.Activity)+len(k.Ignored) == 0 && k.Unknown == "" {
		return nil, nil
	}
	c := &classes{map[string]string{}, k.Unknown}
	for _, set := range []struct {
		class string
		kinds []string
	}{{ClassMaterial, k.Material}, {ClassActivity, k.Activity}, {ClassIgnored, k.Ignored}} {
		for _, kind := range set.kinds {
			if err := c.add(kind, set.class); err != nil {
				return nil, err
			}
		}
	}
	if !slices.Contains([]string{"", ClassMaterial, ClassActivity, ClassIgnored}, k.Unknown) {
		return nil, fmt.Errorf("%w event kinds: Unknown is %q; use %s, %s or %s", ErrInvalid, k.Unknown, ClassMaterial,
			ClassActivity, ClassIgnored)
	}
	return c, nil
}

func (c *classes) add(kind string, class string) error {
	switch before, twice := c.of[kind]; {
	case strings.TrimSpace(kind) == "":
		return fmt.Errorf("%w event kinds: an empty kind is %s", ErrInvalid, class)
	case strings.HasPrefix(kind, event.Prefix):
		return fmt.Errorf("%w event kinds: %s is the watchdog's own and never a signal", ErrInvalid, kind)
	case twice:
		return fmt.Errorf("%w event kinds: %s is %s and %s", ErrInvalid, kind, before, class)
	}
	c.of[kind] = class
	return nil
}
