package sqlite

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// The rows to freshen are one JSON array of texts: the activity in twenty characters, whether the run is quiet, the
// attempt in ten digits, the allowance and the threshold beside it in nineteen digits each, the run ID. Cutting a text
// by position costs a third of what a JSON object costs. Few have a state, so states are written by a statement of
// their own.
//
// The + in front of status keeps SQLite from using an index: it would prefer a host's index on the status to the
// primary key.
const (
	freshTable = `(SELECT CAST(substr(value, 1, 20) AS INTEGER) AS activity, substr(value, 21, 1) = '1' AS quiet,
		CAST(substr(value, 22, 10) AS INTEGER) AS attempt, CAST(substr(value, 32, 19) AS INTEGER) AS allowance,
		CAST(substr(value, 51, 19) AS INTEGER) AS threshold, substr(value, 70) AS run_id FROM json_each(?1))`

	stateTable = `(SELECT json_extract(value, '$[0]') AS run_id, json_extract(value, '$[1]') AS attempt,
		json_extract(value, '$[2]') AS activity, json_extract(value, '$[3]') AS state FROM json_each(?1))`

	isFreshRow = `s.run_id = f.run_id AND +s.status = 'active' AND s.attempt = f.attempt`

	// The row is in the lease ?2, which must not get an earlier activity than it has; or it is not in it.
	inThisLease  = `s.lease IS NOT NULL AND s.lease = ?2 AND s.leased = s.attempt`
	isLater      = `f.activity >= coalesce(s.activity, -1)`
	outsideLease = `(s.lease IS NULL OR s.lease <> ?2 OR s.leased IS NOT s.attempt)`
	rowIsQuiet   = `coalesce(s.quiet_since, s.quiet_due) IS NOT NULL`

	freshenStates = `
		UPDATE main.watchdog_sessions AS s SET state = f.state FROM ` + stateTable + ` AS f
		WHERE ` + isFreshRow + ` AND (` + outsideLease + ` OR ` + isLater + `)`

	// sameAllowance is whether the row has the allowance of the run, or neither has any.
	sameAllowance = `(s.allowance IS nullif(f.allowance, 0) AND (s.allowance IS NULL OR s.allowed = s.attempt))`

	// freshenBusy writes the rows of busy runs that were busy before: it changes no index.
	freshenBusy = `
		UPDATE main.watchdog_sessions AS s SET activity = nullif(f.activity, -1) FROM ` + freshTable + ` AS f
		WHERE ` + isFreshRow + ` AND ` + inThisLease + ` AND ` + isLater + ` AND NOT f.quiet AND NOT ` + rowIsQuiet + `
			AND ` + sameAllowance

	// ownThreshold is the threshold of the row, which one with an allowance does not have.
	ownThreshold = `CASE WHEN f.allowance > 0 OR coalesce(s.allowance IS NOT NULL AND s.allowed = s.attempt, 0) THEN 0
		WHEN s.lease IS NOT NULL AND s.leased = s.attempt THEN coalesce(s.own_threshold, 0) ELSE s.threshold END`
	// ownSilence is how long the run may be silent by itself, 0 for as long as sweepers say.
	ownSilence = `CASE WHEN f.allowance > 0 THEN f.allowance ELSE ` + ownThreshold + ` END`

	// freshenOthers writes the rows that come into the lease, and those that are or were quiet. The sum of an activity and
	// a threshold is at most the largest number.
	freshenOthers = `
		UPDATE main.watchdog_sessions AS s SET lease = ?2, leased = s.attempt, expired_lease = NULL,
			own_threshold = CASE WHEN f.allowance > 0 THEN f.threshold ELSE ` + ownThreshold + ` END,
			allowance = nullif(f.allowance, 0), allowed = CASE WHEN f.allowance > 0 THEN s.attempt END,
			threshold = CASE WHEN s.threshold < 0 THEN s.threshold ELSE ` + noLimit + ` END,
			activity = nullif(f.activity, -1),
			quiet_since = CASE WHEN f.quiet AND f.activity >= 0 AND ` + ownSilence + ` = 0 THEN f.activity END,
			quiet_due = CASE WHEN f.quiet AND f.activity >= 0 AND ` + ownSilence + ` > 0
				THEN f.activity + min(` + ownSilence + `, ` + noLimit + ` - f.activity) END
		FROM ` + freshTable + ` AS f
		WHERE ` + isFreshRow + `
			AND (` + outsideLease + ` OR ` + isLater + `
				AND (f.quiet OR ` + rowIsQuiet + ` OR NOT ` + sameAllowance + `))`

	selectGone = `
		SELECT DISTINCT f.run_id FROM ` + freshTable + ` AS f
		WHERE NOT EXISTS (SELECT 1 FROM main.watchdog_sessions AS s WHERE ` + isFreshRow + `)`

	noLimit = `9223372036854775807` // watchdog.NoLimit
)

// Freshen implements [session.Store]. No row is locked by itself: if another program has locked the database for too
// long, that is an error.
func (s *Store) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (skipped session.Skipped, err error) {
	runOf := func(f session.Freshness) string { return f.RunID }
	skipped.Failed, err = storerows.WriteEach(latestOf(fresh), runOf, func(part []session.Freshness) error {
		gone, err := s.freshen(ctx, lease, part)
		skipped.Gone = append(skipped.Gone, gone...)
		return err
	}, isRefusal)
	return skipped, err
}

// freshen writes some of the rows in one transaction.
func (s *Store) freshen(ctx context.Context, lease string, part []session.Freshness) ([]string, error) {
	list, states := freshJSON(part)
	doing := fmt.Sprintf("freshen %d sessions", len(part))
	return changed(ctx, s, doing, max(len(part), 1), func(t *transaction) []string {
		t.living(lease)
		if len(states) > 0 {
			t.do(freshenStates, jsonArray(states), lease)
		}
		return t.freshen(lease, list)
	})
}

// freshen writes the rows. Runs are looked for that are gone if not all were written.
func (t *transaction) freshen(lease string, fresh []string) (gone []string) {
	list, left := jsonArray(fresh), int64(len(fresh))
	for _, statement := range []string{freshenBusy, freshenOthers} {
		if left > 0 {
			left -= t.do(statement, list, lease)
		}
	}
	if left > 0 {
		gone = rowsIn(t, scanOne[string], selectGone, list)
	}
	return gone
}

// latestOf joins what is to be written for one attempt: of two joined rows, an UPDATE takes an arbitrary one.
func latestOf(fresh []session.Freshness) []session.Freshness {
	index := make(map[session.AttemptID]int, len(fresh))
	var latest []session.Freshness
	for _, f := range fresh {
		key := session.AttemptID{RunID: f.RunID, Attempt: f.Attempt}
		at, exists := index[key]
		switch {
		case !exists:
			index[key] = len(latest)
			latest = append(latest, f)
		case f.Activity >= latest[at].Activity:
			if f.State == nil {
				f.State = latest[at].State
			}
			latest[at] = f
		}
	}
	return latest
}

// freshJSON returns the rows as freshTable reads them, and those with a state as stateTable does.
func freshJSON(fresh []session.Freshness) (list []string, states [][]any) {
	list = make([]string, len(fresh))
	for i, f := range fresh {
		quiet := 0
		if f.Quiet {
			quiet = 1
		}
		list[i] = fmt.Sprintf("%+020d%d%010d%019d%019d%s", int64(f.Activity), quiet, f.Attempt,
			max(int64(f.Allowance), 0), max(int64(f.Threshold), 0), f.RunID)
		if f.State != nil {
			states = append(states, []any{f.RunID, f.Attempt, int64(f.Activity), string(f.State)})
		}
	}
	return list, states
}
