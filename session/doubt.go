package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
)

// maxLookups is how many ends a write looks up at most. It is as many reads, one after the other; the next write has
// the others.
const maxLookups = 100

// end writes the rows of runs that have ended, and then drops the runs. The ends of runs in doubt come last, so that
// the reads hold up no others.
func (k *Keeper) end(ctx context.Context, ends []Ending) error {
	var sure []Ending
	var doubtful []doubtfulEnd
	for _, e := range ends {
		if d, doubt := k.doubts(e); doubt {
			doubtful = append(doubtful, d)
			continue
		}
		sure = append(sure, e)
	}
	if err := k.writeEnds(ctx, sure); err != nil {
		return err
	}
	settled, err := k.settle(ctx, doubtful)
	return errors.Join(err, k.writeEnds(ctx, settled))
}

// A doubtfulEnd is how a run ended as its process knows it. The store may have its window's end, another one. If nobody
// ran in the window, it may not have been opened.
type doubtfulEnd struct {
	Ending
	startedAt time.Time
	ran       bool
}

// doubts reports whether an end has to be looked up before it is written.
func (k *Keeper) doubts(e Ending) (d doubtfulEnd, doubt bool) {
	r := k.kept(e.RunID)
	if r == nil || r.attempt != e.Attempt {
		return d, false
	}
	complete, resumed := handle.Of(r.run.Context()).InDoubt()
	if resumed {
		e.Status, e.Reason = Interrupted, ""
		return doubtfulEnd{e, r.run.StartedAt(), false}, true
	}
	return doubtfulEnd{e, r.run.StartedAt(), true}, complete
}

// settle returns the ends that could be looked up, and an error of one that could not.
func (k *Keeper) settle(ctx context.Context, doubtful []doubtfulEnd) (settled []Ending, failed error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.RecordTimeout)
	defer cancel()
	for _, d := range doubtful[:min(len(doubtful), maxLookups)] {
		e, err := k.asStored(ctx, d.Ending, d.startedAt, d.ran)
		if err != nil {
			failed = err
			continue
		}
		settled = append(settled, e)
	}
	return settled, failed
}

// asStored returns an ending that says what the end of the run's window says, if that is stored: the row and the events
// say the same. If nobody ran in the window and it never opened, it is that of a Resume which failed, and the run has
// ended as before: with the last end that is stored.
func (k *Keeper) asStored(ctx context.Context, e Ending, startedAt time.Time, ran bool) (Ending, error) {
	events, err := k.cfg.Store.Read(ctx, watchdog.AggregateType, e.RunID)
	if err != nil {
		return e, fmt.Errorf("look up the end of run %s: %w", e.RunID, err)
	}
	end := record.EventID(e.RunID, record.Stamp(startedAt).String(), watchdog.EventCancel, record.Once)
	before, opened := e, ran
	var last watchdog.Event
	for _, event := range events {
		switch {
		case event.ID == end:
			e.Status, e.Reason = StoredEnd(event)
			return k.withStoredState(ctx, e, event)
		case event.Type == watchdog.EventResume:
			opened = opened || opens(event, startedAt)
		case event.Type == watchdog.EventCancel || event.Type == watchdog.EventComplete:
			before.Status, before.Reason = StoredEnd(event)
			last = event
		}
	}
	if opened {
		return e, nil
	}
	return k.withStoredState(ctx, before, last)
}

// withStoredState has an ending say how the run's command ended, if the event of its end does.
func (k *Keeper) withStoredState(ctx context.Context, e Ending, end watchdog.Event) (Ending, error) {
	if StoredState(nil, end) == nil {
		return e, nil
	}
	row, err := k.cfg.Store.Session(ctx, e.RunID)
	if err != nil && !permanent(err) {
		return e, fmt.Errorf("look up the row of run %s: %w", e.RunID, err)
	}
	e.State = StoredState(row.State, end)
	return e, nil
}

// opens reports whether a resume opened the window that began then. Its ID is named by the window before.
func opens(resume watchdog.Event, startedAt time.Time) bool {
	var of record.Window
	err := json.Unmarshal(resume.Payload, &of)
	return err == nil && time.Time(of.SessionStartedAt).Equal(record.Truncate(startedAt))
}

// writeEnds writes the rows, and drops the runs whose rows were written. Where the database came back older, attempts
// are counted again, so that another run of this process can have the number: that one lives, and is left alone.
func (k *Keeper) writeEnds(ctx context.Context, ends []Ending) error {
	ended := map[AttemptID]*keptRun{}
	ends = slices.DeleteFunc(ends, func(e Ending) (lives bool) {
		r := k.kept(e.RunID)
		if r == nil || r.attempt != e.Attempt {
			return false
		}
		ended[e.key()] = r
		return r.run.Context().Err() == nil
	})
	skipped, err := batch[Ending]{k, ends, Ending.key, k.cfg.Store.End}.writeAll(ctx)
	if err != nil {
		return err
	}
	for _, e := range ends {
		if r := ended[e.key()]; r != nil && skipped[e.RunID] != stayed {
			k.drop(r)
		}
	}
	return nil
}
