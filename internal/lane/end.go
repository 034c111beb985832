package lane

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A stop is a trip as it is recorded.
type stop struct {
	event fold.Event
	own   *record.Cancel
}

func (r *Recorder) stopOf(t *machine.Trip) stop {
	event, own := t.CancelEvent(&r.run.Machine().Name)
	return stop{event, own}
}

// unlessKnown decides on the cancel event, unless the store knows better.
func (s *stop) unlessKnown(t *machine.Trip) journal.Decide {
	return func(known *fold.Window) []fold.Event {
		if known.TakesBack(&t.Trip) {
			return nil
		}
		return []fold.Event{s.event}
	}
}

// recordTrip appends the event of the trip, unless the store knows better, and returns what the store has then. What
// cannot be read does not hold up a stop. What the store lacks of the run's pauses goes before the event: whoever reads
// that finds why it came when it did.
func (r *Recorder) recordTrip(e *Ending, limit time.Duration) (fold.Window, error) {
	s := r.stopOf(e.Trip)
	done, err := r.Transact(r.run.Values(), limit, r.missingPauses(), s.unlessKnown(e.Trip))
	return r.recordedTrip(done, err, &s)
}

// recordedTrip is what the store has after the exchange about a trip. An event that the store did not take is kept.
func (r *Recorder) recordedTrip(done journal.Result, err error, s *stop) (fold.Window, error) {
	switch {
	case err != nil:
		err = fmt.Errorf("append cancel event: %w", err)
		r.Keep(err, s.event)
		return fold.Window{Stop: s.own}, err
	case done.Kept == nil:
		return *done.Known, nil
	}
	r.recorded(done.Before, &s.event)
	return r.Journal.End(done, &s.event, s.own), nil
}

// RecordComplete appends the event that the run is complete and returns what the store has then.
func (r *Recorder) RecordComplete(t *machine.Trip) (known fold.Window, err error) {
	event := t.CompleteEvent(&r.run.Machine().Name)
	done, err := r.Transact(r.run.Values(), r.Place().Timeout, nil, func(known *fold.Window) []fold.Event {
		if known.Complete() {
			return nil
		}
		return []fold.Event{event}
	})
	if err == nil {
		known, err = r.EndAfter(done)
	}
	if err != nil {
		return fold.Window{}, fmt.Errorf("append complete event: %w", err)
	}
	return known, nil
}

// RecordExtension appends the event, unless the window is over, and returns what the store says then. It asks the
// store, because a trip or a Sync may have found the event there and counted it already. What cannot be read does not
// hold up the extension.
func (r *Recorder) RecordExtension(event fold.Event, d time.Duration) (known fold.Window, err error) {
	var before time.Duration
	r.locked(func() { before = r.run.Machine().Seen().Extended })
	done, err := r.Transact(r.run.Values(), r.Place().Timeout, nil, func(known *fold.Window) []fold.Event {
		if known.Over() {
			return nil
		}
		return []fold.Event{event}
	})
	switch {
	case err != nil:
		return known, err
	case done.Kept == nil:
		return *done.Known, nil
	}
	r.Appended(1)
	r.CheckpointSoon()
	known = r.After(done)
	known.Extended = max(known.Extended, verdict.Sum(before, d))
	return known, nil
}
