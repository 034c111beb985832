package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

const attachRow = `INSERT INTO main.watchdog_sessions
		(run_id, parent, threshold, started_at, host, status, created_at, last_event_at, attempt, lease, state, allowance)
	VALUES (?1, ?2, ?3, ?4, ?5, 'active', ?6, ?6, ?7, ?8, ?9, ?10)
	ON CONFLICT (run_id) DO UPDATE SET parent = ?2, threshold = ?3, started_at = ?4, host = ?5,
		status = 'active', reason = '', last_event_at = ?6, attempt = ?7, lease = ?8, state = ?9, allowance = ?10,
		ended = NULL, activity = NULL, quiet_since = NULL, quiet_due = NULL, claim = NULL, claimed_until = NULL,
		warned_at = NULL, stop_failed = NULL, expired_lease = NULL, lost = NULL, start_key = NULL, start_tries = NULL,
		start_due = NULL`

// Attach implements [session.Store]. If the row is unreadable, Attach leaves it as it is and returns an error that
// wraps [session.ErrUnreadable].
func (s *Store) Attach(ctx context.Context, run session.Session) (before, after session.Session, err error) {
	doing := "attach to session " + run.RunID
	rows, err := changed(ctx, s, doing, 1, func(t *transaction) [2]session.Session { return t.attach(run) })
	return rows[0], rows[1], lockedError(err)
}

func (t *transaction) attach(run session.Session) [2]session.Session {
	if run.Lease != "" {
		t.living(run.Lease)
	}
	before, err := sessionBy(t, run.RunID)
	if !errors.Is(err, session.ErrNotFound) {
		t.fail(err)
	}
	if run.Attempt > 0 && before.Attempt >= run.Attempt {
		return [2]session.Session{before, before}
	}
	if before.Status == session.Active {
		t.noteEnd(before)
	}
	lease, allowance := storeflow.LeaseOf(run)
	t.do(attachRow, run.RunID, run.Parent, int64(run.Threshold), formatTime(run.StartedAt), run.Host, formatTime(t.now()),
		max(before.Attempt+1, run.Attempt), lease, storeflow.NullJSON(run.State), allowance)
	return [2]session.Session{before, t.session(run.RunID)}
}

// The + in front of status keeps SQLite from using an index: it would prefer a host's to the primary key.
const endRow = `
	UPDATE main.watchdog_sessions SET ` + leave + `, status = ?4, reason = ?5, ended = ` + databaseMicros + `,
		stop_failed = NULL, state = coalesce(?6, state) WHERE run_id = ?1 AND attempt = ?2 AND +status = 'active'`

// End implements [session.Store]. If an ending is invalid ([session.Ending.Validate]), End writes nothing and returns
// the error. It treats locks as Freshen does.
func (s *Store) End(ctx context.Context, ends []session.Ending) (skipped session.Skipped, err error) {
	if err := storeflow.FirstInvalid(ends); err != nil {
		return session.Skipped{}, err
	}
	runOf := func(e session.Ending) string { return e.RunID }
	skipped.Failed, err = storeflow.WriteEach(ends, runOf, func(part []session.Ending) error {
		return s.change(ctx, fmt.Sprintf("end %d sessions", len(part)), len(part), func(t *transaction) {
			now := t.now()
			for _, e := range part {
				t.do(endRow, e.RunID, e.Attempt, formatTime(now.Add(-e.Age)), string(e.Status), string(e.Reason),
					storeflow.NullJSON(e.State))
			}
		})
	}, isRefusal)
	return skipped, err
}

var selectSession = `SELECT ` + sessionText + ` FROM main.watchdog_sessions WHERE run_id = ?1`

func (t *transaction) session(runID string) session.Session {
	one, err := sessionBy(t, runID)
	t.fail(err)
	return one
}

func sessionBy(on querier, runID string) (session.Session, error) {
	var text string
	switch found, err := lookUp(on, selectSession, []any{runID}, &text); {
	case err != nil:
		return session.Session{}, err
	case !found:
		return session.Session{}, fmt.Errorf("%w: run %s", session.ErrNotFound, runID)
	}
	return readSession(text)
}

// The rows to freshen are one JSON array of texts: the activity in twenty characters, whether the run is quiet, the
// attempt in ten digits, the allowance in nineteen digits, the run ID. Cutting a text by position costs a third of what
// a JSON object costs. Few have a state, so they have a statement of their own.
//
// The + in front of status keeps SQLite from using an index: it would prefer a host's to the primary key.
const (
	freshTable = `(SELECT CAST(substr(value, 1, 20) AS INTEGER) AS activity, substr(value, 21, 1) = 't' AS quiet,
		CAST(substr(value, 22, 10) AS INTEGER) AS attempt, CAST(substr(value, 32, 19) AS INTEGER) AS allowance,
		substr(value, 51) AS run_id FROM json_each(?1))`

	stateTable = `(SELECT json_extract(value, '$[0]') AS run_id, json_extract(value, '$[1]') AS attempt,
		json_extract(value, '$[2]') AS activity, json_extract(value, '$[3]') AS state FROM json_each(?1))`

	isFreshRow = `s.run_id = f.run_id AND +s.status = 'active' AND s.attempt = f.attempt`
	// The row is in the lease ?2, which must not get an earlier activity than it has; or it is not in it.
	inThisLease  = `s.lease IS NOT NULL AND s.lease = ?2`
	isLater      = `f.activity >= coalesce(s.activity, -1)`
	outsideLease = `(s.lease IS NULL OR s.lease <> ?2)`
	rowIsQuiet   = `coalesce(s.quiet_since, s.quiet_due) IS NOT NULL`

	freshenStates = `UPDATE main.watchdog_sessions AS s SET state = f.state FROM ` + stateTable + ` AS f
		WHERE ` + isFreshRow + ` AND (` + outsideLease + ` OR ` + isLater + `)`
	// sameAllowance is whether the row has the allowance of the run, or neither has any.
	sameAllowance = `s.allowance IS nullif(f.allowance, 0)`
	// freshenBusy writes the rows of busy runs that were busy before: it changes no index.
	freshenBusy = `UPDATE main.watchdog_sessions AS s SET activity = nullif(f.activity, -1) FROM ` + freshTable + ` AS f
		WHERE ` + isFreshRow + ` AND ` + inThisLease + ` AND ` + isLater + ` AND NOT f.quiet AND NOT ` + rowIsQuiet + `
			AND ` + sameAllowance
	// ownSilence is how long the run may be silent by itself, 0 for as long as sweepers say.
	ownSilence = `CASE WHEN f.allowance > 0 THEN f.allowance ELSE s.threshold END`
	// freshenOthers writes the rows that come into the lease, and those that are or were quiet. The sum of an activity and
	// a threshold is at most the largest number.
	freshenOthers = `UPDATE main.watchdog_sessions AS s SET lease = ?2, expired_lease = NULL, lost = NULL,
			allowance = nullif(f.allowance, 0),
			activity = nullif(f.activity, -1),
			quiet_since = CASE WHEN f.quiet AND f.activity >= 0 AND ` + ownSilence + ` = 0 THEN f.activity END,
			quiet_due = CASE WHEN f.quiet AND f.activity >= 0 AND ` + ownSilence + ` > 0
				THEN f.activity + min(` + ownSilence + `, ` + noLimit + ` - f.activity) END FROM ` + freshTable + ` AS f
		WHERE ` + isFreshRow + ` AND (` + outsideLease + ` OR ` + isLater + `
				AND (f.quiet OR ` + rowIsQuiet + ` OR NOT ` + sameAllowance + `))`

	selectGone = `SELECT DISTINCT f.run_id FROM ` + freshTable + ` AS f
		WHERE NOT EXISTS (SELECT 1 FROM main.watchdog_sessions AS s WHERE ` + isFreshRow + `)`

	noLimit = `9223372036854775807` // watchdog.NoLimit
)

// Freshen implements [session.Store]. No row is locked by itself: if another program has locked the database for too
// long, that is an error.
func (s *Store) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	var skipped session.Skipped
	var err error
	runOf := func(f session.Freshness) string { return f.RunID }
	skipped.Failed, err = storeflow.WriteEach(latestOf(fresh), runOf, func(part []session.Freshness) error {
		list, states := freshJSON(part)
		doing := fmt.Sprintf("freshen %d sessions", len(part))
		gone, err := changed(ctx, s, doing, max(len(part), 1), func(t *transaction) []string {
			t.living(lease)
			if len(states) > 0 {
				t.do(freshenStates, jsonArray(states), lease)
			}
			return t.freshen(lease, list)
		})
		skipped.Gone = append(skipped.Gone, gone...)
		return err
	}, isRefusal)
	return skipped, err
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
		list[i] = fmt.Sprintf("%+020d%.1s%010d%019d%s", int64(f.Activity), strconv.FormatBool(f.Quiet), f.Attempt,
			max(int64(f.Allowance), 0), f.RunID)
		if f.State != nil {
			states = append(states, []any{f.RunID, f.Attempt, int64(f.Activity), string(f.State)})
		}
	}
	return list, states
}
