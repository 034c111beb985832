package migrating

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A Session is what a host of sessions is given to do. Work signals by the run, and asks a person in a hold of it.
type Session struct {
	ID    string
	Work  func(ctx context.Context, run *watchdog.Watchdog) error
	Ended func(error)
}

// A Database is that of a host of sessions: its own tables, and the events of its runs.
type Database struct {
	SQL   *sql.DB
	Store session.Store
}

// begin attaches a run to the session. One that is kept has no limit of silence of its own: a sweeper leaves a live run
// to that, if it is longer. By hand there is one, because without it signs of life are not counted.
func (s Session) begin(ctx context.Context, config watchdog.Config) (*watchdog.Watchdog, error) {
	config.Budget = watchdog.Budget{WallClock: watchdog.NoLimit, Idle: watchdog.NoLimit}
	if config.Keeper == nil {
		config.Budget.Idle = 30 * 24 * time.Hour
	}
	run, err := watchdog.New(ctx, watchdog.Run{ID: s.ID, StartedAt: time.Now()}, config)
	run.Activity() // one that never signals is not silent
	return run, err
}

// do has the work done in the run, and returns why it ended.
func (s Session) do(run *watchdog.Watchdog) (err error) {
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := s.Work(run.Context(), run); err != nil {
		return errors.Join(err, context.Cause(run.Context()))
	}
	return run.Complete()
}

// A host runs sessions, and what sweeps them in the background until the last one has ended.
type host struct {
	stop                context.CancelFunc // the background
	background, running sync.WaitGroup
}

// newHost also returns the context of what runs in the background.
func newHost(ctx context.Context) (serving context.Context, h *host) {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	return serving, &host{stop: stop}
}

func (h *host) close() {
	h.running.Wait()
	h.stop()
	h.background.Wait()
}

//migrating:before

// A table keeps a row for each session.
type table struct {
	db    *sql.DB
	stale *sql.Stmt
	log   *slog.Logger
	mu    sync.Mutex // guards live
	live  map[string]*watchdog.Watchdog
}

func newTable(ctx context.Context, db *sql.DB) (*table, error) {
	const schema = `CREATE TABLE IF NOT EXISTS sessions
		(id TEXT PRIMARY KEY, status TEXT NOT NULL, last_event_at INTEGER NOT NULL)`
	_, err := db.ExecContext(ctx, schema)
	return &table{db: db, log: slog.Default(), live: map[string]*watchdog.Watchdog{}}, err
}

func (t *table) begin(ctx context.Context, run *watchdog.Watchdog) error {
	_, err := t.db.ExecContext(ctx, `INSERT INTO sessions VALUES (?, 'active', ?)
		ON CONFLICT (id) DO UPDATE SET status = 'active', last_event_at = excluded.last_event_at`,
		run.ID(), time.Now().UnixNano())
	if err != nil {
		return fmt.Errorf("insert session %s: %w", run.ID(), err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live[run.ID()] = run
	return nil
}

func (t *table) end(ctx context.Context, id string) {
	t.mu.Lock()
	delete(t.live, id)
	t.mu.Unlock()
	_, err := t.db.ExecContext(ctx, `UPDATE sessions SET status = 'finished' WHERE id = ? AND status = 'active'`, id)
	if err != nil {
		t.log.ErrorContext(ctx, "could not finish a session", "id", id, "error", err)
	}
}

// runs are those that are live.
func (t *table) runs() []*watchdog.Watchdog {
	t.mu.Lock()
	defer t.mu.Unlock()
	var runs []*watchdog.Watchdog
	for _, run := range t.live {
		runs = append(runs, run)
	}
	return runs
}

// touch writes when each live run had its last activity, and ends those that somebody has cancelled.
func (t *table) touch(ctx context.Context) error {
	for _, run := range t.runs() {
		result, err := t.db.ExecContext(ctx, `UPDATE sessions SET last_event_at = ? WHERE id = ? AND status = 'active'`,
			time.Now().Add(-run.SinceActivity()).UnixNano(), run.ID())
		if err != nil {
			return fmt.Errorf("touch session %s: %w", run.ID(), err)
		}
		if touched, err := result.RowsAffected(); err == nil && touched == 0 {
			_ = run.Interrupt("swept") // it has ended meanwhile, or the interrupt could not be recorded
		}
	}
	return nil
}

// prepare prepares the sweep.
func (t *table) prepare(ctx context.Context) error {
	stale, err := t.db.PrepareContext(ctx, `UPDATE sessions SET status = 'cancelled'
		WHERE status = 'active' AND last_event_at < ?`)
	t.stale = stale
	return err
}

// sweep cancels the sessions that were silent for longer than the limit.
func (t *table) sweep(ctx context.Context, limit time.Duration) error {
	_, err := t.stale.ExecContext(ctx, time.Now().Add(-limit).UnixNano())
	return err
}

// repeat touches and sweeps at an interval.
func (t *table) repeat(ctx context.Context, limit, every time.Duration) {
	defer func() { _ = t.stale.Close() }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := errors.Join(t.touch(ctx), t.sweep(ctx, limit), t.touch(ctx)); err != nil {
				t.log.ErrorContext(ctx, "could not sweep sessions", "error", err)
			}
		}
	}
}

// StatusSweepBefore runs the sessions that come, and sweeps those that are silent, whoever runs them.
func StatusSweepBefore(ctx context.Context, db Database, limit, every time.Duration, sessions <-chan Session) error {
	limit, store := cmp.Or(limit, watchdog.NoLimit), db.Store
	serving, h := newHost(ctx)
	defer h.close()
	rows, err := newTable(ctx, db.SQL)
	if err != nil {
		return err
	}
	err = rows.prepare(ctx)
	if err != nil {
		return err
	}
	h.background.Go(func() { rows.repeat(serving, limit, every) })
	config := watchdog.Config{Store: store}
	for s := range sessions {
		run, err := s.begin(ctx, config)
		if err == nil {
			err = rows.begin(serving, run)
		}
		if err != nil {
			s.Ended(err)
			continue
		}
		h.running.Go(func() {
			defer rows.end(serving, run.ID())
			s.Ended(s.do(run))
		})
	}
	return nil
}

//migrating:after

// StatusSweepAfter runs the sessions that come, and sweeps those that are silent, whoever runs them.
func StatusSweepAfter(ctx context.Context, db Database, limit, every time.Duration, sessions <-chan Session) error {
	limit, store := cmp.Or(limit, watchdog.NoLimit), db.Store
	serving, h := newHost(ctx)
	defer h.close()
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: store, Threshold: limit})
	if err != nil {
		return err
	}
	sweeper, err := sweep.New(store, store, sweep.Config{StalledThreshold: limit, Interval: every, MinAge: watchdog.None})
	if err != nil {
		return err
	}
	h.background.Go(func() { _ = keeper.Run(serving) })
	h.background.Go(func() { _ = sweeper.Run(serving) })
	config := watchdog.Config{Store: store, Keeper: keeper}
	for s := range sessions {
		run, err := s.begin(ctx, config)
		if err != nil {
			s.Ended(err)
			continue
		}
		h.running.Go(func() {
			s.Ended(s.do(run))
		})
	}
	return nil
}

//migrating:end
