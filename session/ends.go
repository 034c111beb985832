package session

import (
	"context"
	"errors"
	"slices"
)

// maxLookups is how many ends a write looks up at most. It is as many reads, one after the other; the next write has
// the others.
const maxLookups = 100

// An endWriter writes into the rows how runs have ended.
type endWriter struct{ roster *roster }

// write writes the rows of runs that have ended, and then drops the runs. The ends of runs in doubt come last, so that
// the reads hold up no others.
func (w *endWriter) write(ctx context.Context, ends []Ending) error {
	var sure []Ending
	var doubtful []doubtfulEnd
	for _, e := range ends {
		if r := w.roster.kept(e.RunID); r != nil && r.attempt == e.Attempt {
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

// settle returns the ends that could be looked up, and an error of one that could not.
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
