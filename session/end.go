package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// ReasonFailed is the reason by which [Lister.List] finds sessions that [Session.Failed], whose Reason is "complete".
const ReasonFailed watchdog.StopReason = record.Failed

// Failed reports whether the session is [Finished] and its command failed, as its [State] says: its run has not done
// its work, and can be resumed.
func (s Session) Failed() bool {
	var state State
	return s.Status == Finished && s.Reason == record.CompleteReason && bytes.Contains(s.State, []byte(record.Failed)) &&
		json.Unmarshal(s.State, &state) == nil && state.Outcome == record.Failed
}

// StoredState returns the [State] that the row of a session has after the event that ended it: what it says so far, and
// how the run's command ended. It returns nil if the event does not say that; the row then keeps its State. A store
// uses it as it uses [StoredEnd].
func StoredState(state json.RawMessage, e watchdog.Event) json.RawMessage {
	var p record.Complete
	if e.Type != event.Complete || json.Unmarshal(e.Payload, &p) != nil || p.Outcome == "" {
		return nil
	}
	fields := map[string]json.RawMessage{} // with those that this version does not know
	if len(state) > 0 && json.Unmarshal(state, &fields) != nil || fields == nil {
		return nil // of another program
	}
	if err := json.Unmarshal(record.JSON(p.CommandEnd), &fields); err != nil {
		return nil
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return text
}

// StoredEnd returns the status and the reason that the row of a session has after the event that ended it, a
// [event.Cancel] or a [event.Complete]: the events and the row say the same. A store uses it in Claim
// and Cancel. The reason of a cancel that cannot be read is empty.
func StoredEnd(e watchdog.Event) (Status, watchdog.StopReason) {
	if e.Type == event.Complete {
		return Finished, record.CompleteReason
	}
	return Cancelled, watchdog.StopReason(record.Code(reasonOf(e)))
}

// reasonOf returns the reason in the payload of a cancel. That of another writer may have none.
func reasonOf(e watchdog.Event) (reason string) {
	var fields map[string]json.RawMessage // the fields of a struct ignore case
	_ = json.Unmarshal(e.Payload, &fields)
	_ = json.Unmarshal(fields["reason"], &reason)
	return reason
}

// A doubtfulEnd is how a run ended as its process knows it. The store may have its window's end, another one. If nobody
// ran in the window, it may not have been opened.
type doubtfulEnd struct {
	Ending
	startedAt time.Time
	ran       bool
}

// doubted returns the end of a run with what is needed to look it up, and reports whether it has to be looked up before
// it is written.
func doubted(e Ending, run *watchdog.Watchdog) (d doubtfulEnd, doubt bool) {
	complete, resumed := handle.Of(run.Context()).InDoubt()
	if resumed {
		e.Status, e.Reason = Interrupted, ""
	}
	return doubtfulEnd{e, run.StartedAt(), !resumed}, complete || resumed
}

// asStored returns an ending that says what the end of the run's window says, if that is stored: the row and the events
// say the same. If nobody ran in the window and it never opened, it is that of a Resume which failed, and the run has
// ended as before: with the last end that is stored.
func (d doubtfulEnd) asStored(ctx context.Context, store Store) (Ending, error) {
	e := d.Ending
	events, err := store.Read(ctx, event.AggregateType, e.RunID)
	if err != nil {
		return e, fmt.Errorf("look up the end of run %s: %w", e.RunID, err)
	}
	end := record.EventID(e.RunID, event.Stamp(d.startedAt).String(), event.Cancel, record.Once)
	before, opened := e, d.ran
	var last watchdog.Event
	for _, stored := range events {
		switch {
		case stored.ID == end:
			e.Status, e.Reason = StoredEnd(stored)
			return e.withStoredState(ctx, store, stored)
		case stored.Type == event.Resume:
			opened = opened || opens(stored, d.startedAt)
		case stored.Type == event.Cancel || stored.Type == event.Complete:
			before.Status, before.Reason = StoredEnd(stored)
			last = stored
		}
	}
	if opened {
		return e, nil
	}
	return before.withStoredState(ctx, store, last)
}

// withStoredState has an ending say how the run's command ended, if the event of its end does.
func (e Ending) withStoredState(ctx context.Context, store Store, end watchdog.Event) (Ending, error) {
	if StoredState(nil, end) == nil {
		return e, nil
	}
	row, err := store.Session(ctx, e.RunID)
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
	return err == nil && time.Time(of.SessionStartedAt).Equal(event.Truncate(startedAt))
}

// maxLookups is how many ends a write looks up at most. It is as many reads, one after the other; the next write has
// the others.
const maxLookups = 100

type endWriter struct{ roster *roster }

// write writes the rows of runs that have ended, and then drops the runs. The ends of runs in doubt come last, so that
// the reads hold up no others.
func (w *endWriter) write(ctx context.Context, ends []Ending) error {
	var sure []Ending
	var doubtful []doubtfulEnd
	for _, e := range ends {
		if r := w.roster.kept(e.RunID); r != nil { // of a later attempt, the row leaves the end alone
			if d, doubt := doubted(e, r.run); doubt {
				doubtful = append(doubtful, d)
				continue
			}
		}
		sure = append(sure, e)
	}
	if err := w.writeSure(ctx, sure); err != nil {
		return err
	}
	settled, err := w.settle(ctx, doubtful)
	return errors.Join(err, w.writeSure(ctx, settled))
}

func (w *endWriter) settle(ctx context.Context, doubtful []doubtfulEnd) (settled []Ending, failed error) {
	ctx, cancel := context.WithTimeout(ctx, w.roster.cfg.RecordTimeout)
	defer cancel()
	for _, d := range doubtful[:min(len(doubtful), maxLookups)] {
		e, err := d.asStored(ctx, w.roster.cfg.Store)
		if err != nil {
			failed = err
			continue
		}
		settled = append(settled, e)
	}
	return settled, failed
}

// writeSure writes the rows, and drops the runs whose rows were written. Where the database came back older, attempts
// are counted again, so that another run of this process can have the number: that one lives, and is left alone.
func (w *endWriter) writeSure(ctx context.Context, ends []Ending) error {
	ended := map[AttemptID]*keptRun{}
	ends = slices.DeleteFunc(ends, func(e Ending) (lives bool) {
		r := w.roster.kept(e.RunID)
		if r == nil || r.attempt != e.Attempt {
			return false
		}
		ended[e.key()] = r
		return r.run.Context().Err() == nil
	})
	became, err := batch[Ending]{w.roster, ends, Ending.key, w.roster.cfg.Store.End}.writeAll(ctx)
	if err != nil {
		return err
	}
	for _, e := range ends {
		if r := ended[e.key()]; r != nil && became[e.RunID] != stayed {
			w.roster.drop(r)
		}
	}
	return nil
}

// An endQueue writes how runs have ended at once: those that end at the same time in one statement.
type endQueue struct {
	ends *endWriter

	mu      sync.Mutex
	queued  []Ending
	tried   chan struct{} // closed when it was tried to write those
	writing bool          // a goroutine does
}

// write writes an end, and returns when that was tried or ctx has ended.
func (q *endQueue) write(ctx context.Context, e Ending) {
	q.mu.Lock()
	if len(q.queued) == 0 {
		q.tried = make(chan struct{})
	}
	q.queued = append(q.queued, e)
	tried := q.tried
	if !q.writing {
		q.writing = true
		go q.writeAll(context.WithoutCancel(ctx))
	}
	q.mu.Unlock()
	select {
	case <-tried:
	case <-ctx.Done():
	}
}

func (q *endQueue) writeAll(ctx context.Context) {
	for {
		q.mu.Lock()
		ends, tried := q.queued, q.tried
		q.queued, q.writing = nil, len(ends) > 0
		q.mu.Unlock()
		if len(ends) == 0 {
			return
		}
		_ = q.ends.write(ctx, ends) // the next flush tries again, and logs that the store fails
		close(tried)
	}
}

// The shortest and the longest pause of the last write between two tries. They double.
const (
	shortestLastPause = LockWait / 8
	longestLastPause  = time.Second
)

// errSkipped is why an end is not written of a store that has answered.
var errSkipped = errors.New("the row is locked or refused, or the run's events are not stored")

// writeLast writes what there is, again and again, until the rows of all runs that have ended say how: nobody else
// knows. It returns an error if there are some that do not when ctx ends.
func (f *flusher) writeLast(ctx context.Context) (failed error) {
	for tries := 0; ; tries++ {
		err := f.writeAllEnds(ctx)
		left := f.roster.unwritten()
		if left == 0 && err == nil {
			return nil
		}
		if failed == nil || ctx.Err() == nil { // the time that is over says nothing about the store
			failed = err
		}
		pause := verdict.Doubled(shortestLastPause, longestLastPause, tries)
		select {
		case <-time.After(pause/2 + clocks.Spread(pause/2+1)): // many processes can wait for one store
		case <-ctx.Done():
			return f.unwrittenError(left, failed)
		}
	}
}

func (f *flusher) unwrittenError(left int, failed error) error {
	if failed == nil {
		failed = errSkipped
	}
	ends := fmt.Sprintf("the ends of %d runs are", left)
	switch left {
	case 0:
		return nil
	case 1:
		ends = "the end of 1 run is"
	}
	return fmt.Errorf("%s not written after %v: a sweeper finds that the process of such a run has died, and may "+
		"have it resumed: %w", ends, 2*f.roster.cfg.RecordTimeout, failed)
}

// writeAllEnds writes what there is together, also the rows that were refused, and then waits for each end whose row is
// locked.
func (f *flusher) writeAllEnds(ctx context.Context) error {
	f.roster.endPauses()
	written, err := f.writeNews(ctx)
	for _, e := range written.ends {
		if err != nil || ctx.Err() != nil {
			return err
		}
		if f.roster.isLocked(e.key()) {
			err = f.ends.write(ctx, []Ending{e})
		}
	}
	return err
}

// endPauses has the next flush write the rows that were refused, too.
func (s *roster) endPauses() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		r.skips.again = 0
	}
}

// isLocked reports whether the row of an attempt was locked when it was written last.
func (s *roster) isLocked(a AttemptID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.attempt(a)
	return r != nil && r.skips.locked
}

// unwritten returns how many runs have ended whose rows do not say how. It asks them without the mutex: a question can
// end a run with its parent, and so call the host.
func (s *roster) unwritten() (n int) {
	s.mu.Lock()
	runs := make([]*watchdog.Watchdog, 0, len(s.runs))
	for _, r := range s.runs {
		runs = append(runs, r.run)
	}
	s.mu.Unlock()
	for _, w := range runs {
		if w.Context().Err() != nil {
			n++
		}
	}
	return n
}
