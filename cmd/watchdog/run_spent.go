package main

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A spentRow has the row of a run say what its command has spent. The run's keeper writes that with the signs of life,
// and a command that may be silent gives none. The events are the record; the row is for those who look on.
type spentRow struct {
	db    database
	run   *watchdog.Watchdog
	known []watchdog.Usage // that the row has
}

const (
	// spentPace is the time from one look to the next.
	spentPace = 2 * time.Second
	// spentTimeout limits one write.
	spentTimeout = 2 * time.Second
)

// showSpent keeps the row until the func that it returns is called, which writes it once more. While the keeper writes
// signs of life, too, that is all: it alone knows whether the run is quiet.
func (r *runRecord) showSpent(plan *meterPlan, byKeeper bool) (last func()) {
	if plan == nil || !r.stored() {
		return func() {}
	}
	row := &spentRow{db: r.db, run: r.run, known: r.run.Usage()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !byKeeper {
			row.keep(ctx)
		}
	}()
	return func() {
		cancel()
		<-ended
		row.write(context.Background())
	}
}

// keep writes what is new until ctx ends.
func (s *spentRow) keep(ctx context.Context) {
	ticker := time.NewTicker(spentPace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.write(ctx)
		}
	}
}

// mostTries is how often one write is tried: the keeper can write a later sign of life meanwhile, and then it is lost.
const mostTries = 4

// write writes what is new, until the row has it. What cannot be written is tried again at the next look.
func (s *spentRow) write(ctx context.Context) {
	used := s.run.Usage()
	if slices.Equal(used, s.known) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, spentTimeout)
	defer cancel()
	for range mostTries {
		if has, err := s.writeOnce(ctx, used); has || err != nil {
			if has {
				s.known = used
			}
			return
		}
	}
}

// writeOnce reports whether the row has it already, and writes it if not.
func (s *spentRow) writeOnce(ctx context.Context, used []watchdog.Usage) (has bool, err error) {
	row, err := s.db.Session(ctx, s.run.ID())
	if err != nil || row.Lease == "" { // it has ended
		return row.Lease == "", err
	}
	state, changed, err := stateWith(row.State, used)
	if err != nil || !changed {
		return err == nil, err
	}
	_, err = s.db.Freshen(ctx, row.Lease, []session.Freshness{{
		RunID: row.RunID, Attempt: row.Attempt, Activity: row.Activity, State: state,
		Allowance: row.Allowance, Threshold: row.Allowance,
	}})
	return false, err
}

// stateWith is the state of a row with what is used now of the limits in it, and whether that is new.
func stateWith(text json.RawMessage, used []watchdog.Usage) (_ json.RawMessage, changed bool, err error) {
	var state session.State
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, false, err
	}
	for i := range state.Spent {
		spent := &state.Spent[i]
		for _, u := range used {
			if u.Limit == spent.Limit && u.Tool == spent.Tool && u.Scope == spent.Scope {
				changed = changed || spent.Used != u.Used || spent.Admitted != u.Admitted || spent.Allowed != u.Allowed
				spent.Used, spent.Admitted, spent.Allowed = u.Used, u.Admitted, u.Allowed
			}
		}
	}
	text, err = json.Marshal(&state)
	return text, changed, err
}
