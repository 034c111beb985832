package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// The shortest and the longest pause between two tries to record that a run is complete. They double.
const (
	shortestEndPause = 100 * time.Millisecond
	longestEndPause  = time.Second
)

// close records how the run ended, and closes the store. It returns what could not be recorded. While the store fails
// it tries again, and says so: if nobody recorded how it ended, the next sweeper would take the run for a stalled one.
func (r *runRecord) close(e *ending) error {
	if r == nil {
		return nil
	}
	var err error
	if e.result != nil || e.stopped() {
		err = r.recordEnd(e)
	}
	if err = errors.Join(err, r.end()); err != nil {
		err = fmt.Errorf("record the end: %w", err)
	}
	if !r.stored() {
		return err
	}
	return errors.Join(err, tellBriefly(r.told), r.db.Close())
}

// end closes the run, and has its row say how it ended.
func (r *runRecord) end() error {
	err := r.run.Close()
	if err != nil || r.kept.live() {
		r.waits(err)
	}
	kept := r.kept.end()
	if err != nil { // the keeper may have had it recorded meanwhile
		err = r.run.Close()
	}
	return errors.Join(err, kept)
}

// recordEnd records the one end of the run, unless another process ended it: a stop, an interrupt, or that it is
// complete.
func (r *runRecord) recordEnd(e *ending) error {
	var stop *watchdog.Stop
	switch {
	case e.overspent(), e.elsewhere() != "": // the run has ended already
		return nil
	case errors.As(e.err, &stop):
		_, err := r.run.Cancel(watchdog.Cancellation{Reason: stop.Code, Elapsed: stop.Elapsed, Budget: stop.Budget})
		return err
	case e.interrupted():
		return r.run.Interrupt(signalName(e.signal))
	}
	return r.complete(e)
}

// complete records that the run is complete. While the store fails it tries again until twice the record timeout is
// over.
func (r *runRecord) complete(e *ending) error {
	began := time.Now()
	for tries := 0; ; tries++ {
		err := e.complete(r.run)
		var stop *watchdog.Stop
		switch {
		case errors.As(err, &stop) && stop.RunID == r.run.ID() && r.stored():
			return r.correct(e, stop)
		case err == nil, errors.Is(err, watchdog.ErrEnded), !r.stored():
			return err
		case time.Since(began) > 2*cmp.Or(e.cfg.RecordTimeout, watchdog.DefaultRecordTimeout):
			if e.outcome().Outcome == record.Succeeded {
				err = fmt.Errorf("%w; %s records it when the store is back", err, e.common.line("complete", r.run.ID()))
			}
			return err
		}
		r.waits(err)
		time.Sleep(verdict.Doubled(shortestEndPause, longestEndPause, tries))
	}
}

// correct has the events say that the command had ended by itself when another process stopped the run.
func (r *runRecord) correct(e *ending, stop *watchdog.Stop) error {
	handle.Of(r.run.Context()).RecordFinished()
	return fmt.Errorf("%s was stopped by another process, with %s, when its command had ended by itself: "+
		"its events say so", e.name(), string(stop.Code))
}

// waits says what the end waits for, once.
func (r *runRecord) waits(err error) {
	if !r.stored() || r.waiting {
		return
	}
	r.waiting = true
	text := fmt.Sprintf("waiting for the store to take how run %s ended", term.Plain(r.run.ID()))
	if err != nil {
		text += ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	r.note(text)
}
