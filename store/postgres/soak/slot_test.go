//go:build linux

package soak_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/sweep"
)

// A pattern is how a run behaves.
type pattern string

const (
	busy      pattern = "busy"       // it is signalled all the time
	seldom    pattern = "seldom"     // it is signalled a few times in a threshold
	silent    pattern = "silent"     // it is never signalled
	once      pattern = "once"       // it is signalled once, and then swept
	holds     pattern = "holds"      // it is in a hold for longer than the threshold, again and again
	completes pattern = "completes"  // it completes, and is resumed
	closes    pattern = "closes"     // its watchdog is closed, and another attaches
	wallClock pattern = "wall clock" // its own wall clock stops it, and it is resumed
)

var patterns = []pattern{busy, seldom, silent, once, holds, completes, closes, wallClock}

// A slot is a run that is begun again whenever it has ended.
type slot struct {
	host    *host
	id      string
	index   int // of the host's runs
	pattern pattern
	random  *rand.Rand
	resume  bool // its window has ended
}

// between draws a length of time.
func (s *slot) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

func (s *slot) live(ctx context.Context) {
	pause(ctx, s.between(0, promise))
	for s.goesOn(ctx) {
		if w := s.begin(ctx); w != nil {
			s.guard(ctx, w)
		}
		pause(ctx, s.between(promise/10, promise))
	}
}

func (s *slot) goesOn(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.host.finish:
		return false
	default:
		return true
	}
}

// begin attaches to the run, or resumes it if it has ended. It returns nil after an error.
func (s *slot) begin(ctx context.Context) *watchdog.Watchdog {
	select {
	case s.host.turns <- struct{}{}:
		defer func() { <-s.host.turns }()
	case <-ctx.Done():
		return nil
	}
	start := watchdog.New
	if s.resume {
		start = watchdog.Resume
	}
	// Not ctx: a host that leaves closes its runs.
	w, err := start(context.WithoutCancel(ctx), watchdog.Run{ID: s.id, StartedAt: s.host.job.StartedAt}, s.config())
	if err != nil {
		s.resume = s.resume || errors.Is(err, watchdog.ErrComplete)
		return nil
	}
	s.host.book.write(entry{
		What: attached, Run: s.id, Window: w.StartedAt(), Attempt: w.Attempt().Number, Cohort: s.cohortName(),
	})
	return w
}

func (s *slot) config() watchdog.Config {
	cfg := watchdog.Config{
		Store: s.host.store, Keeper: s.host.keeper, RecordTimeout: recordTimeout, Logger: logger(),
		Budget: watchdog.Budget{WarnAt: []float64{}},
	}
	if s.pattern == wallClock {
		cfg.Budget.WallClock = s.between(promise, 3*promise)
	}
	return cfg
}

// cohort returns the cohort of the run, nil if it is in none.
func (s *slot) cohort() *cohort {
	switch s.pattern {
	case silent, once, holds:
		return nil
	case seldom:
		return s.host.seldoms[s.index%len(s.host.seldoms)]
	default:
		return s.host.busy
	}
}

func (s *slot) cohortName() string {
	if c := s.cohort(); c != nil {
		return c.name
	}
	return ""
}

// guard lets the run live by its pattern until it has ended, or the host leaves.
func (s *slot) guard(ctx context.Context, w *watchdog.Watchdog) {
	if c := s.cohort(); c != nil {
		c.add(w)
		defer c.remove(w)
	}
	living, stop := context.WithCancel(ctx)
	defer stop()
	written := make(chan struct{})
	context.AfterFunc(w.Context(), func() {
		defer close(written)
		s.writeEnd(w)
		stop()
	})
	s.act(living, w)
	s.close(ctx, w)
	<-written
	cause := context.Cause(w.Context())
	s.resume = !errors.Is(cause, watchdog.ErrClosed)
}

// act does what the run's pattern says until the context ends, with the run or as the host leaves, or the run is to be
// closed.
func (s *slot) act(ctx context.Context, w *watchdog.Watchdog) {
	switch s.pattern {
	case once:
		pause(ctx, s.between(0, promise))
		s.host.book.write(entry{What: signalled, Run: s.id})
		w.Activity()
	case holds:
		s.holdOften(ctx, w)
	case completes:
		s.pauseUntilFinish(ctx)
		s.complete(ctx, w)
	case closes:
		s.pauseUntilFinish(ctx)
		return
	}
	<-ctx.Done()
}

func (s *slot) pauseUntilFinish(ctx context.Context) {
	timer := time.NewTimer(s.between(promise, 5*promise))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.host.finish:
	case <-ctx.Done():
	}
}

func (s *slot) holdOften(ctx context.Context, w *watchdog.Watchdog) {
	for ctx.Err() == nil {
		s.host.book.write(entry{What: held, Run: s.id})
		h, err := w.Hold(ctx, "call", watchdog.HoldLimit{})
		if err != nil {
			return // it has ended
		}
		pause(ctx, s.between(threshold/2, 2*threshold))
		s.host.book.write(entry{What: released, Run: s.id})
		h.Close()
		w.Activity()
		pause(ctx, s.between(promise/10, promise))
	}
}

// complete completes the run, however often the store fails.
func (s *slot) complete(ctx context.Context, w *watchdog.Watchdog) {
	for ctx.Err() == nil {
		err := w.Complete()
		switch {
		case err == nil:
			s.host.book.write(entry{What: completed, Run: s.id})
			return
		case errors.Is(err, watchdog.ErrEnded):
			return
		}
		pause(ctx, promise/4)
	}
}

// close closes the watchdog. A cancel that could not be recorded is tried again, unless the host leaves.
func (s *slot) close(ctx context.Context, w *watchdog.Watchdog) {
	for w.Close() != nil {
		if ctx.Err() != nil {
			return
		}
		pause(ctx, promise/4)
	}
	if w.Stop() != nil {
		s.host.book.write(entry{What: recorded, Run: s.id})
	}
}

// writeEnd writes how the run has ended.
func (s *slot) writeEnd(w *watchdog.Watchdog) {
	cause := context.Cause(w.Context())
	var code string
	var stop *watchdog.Stop
	switch {
	case errors.As(cause, &stop):
		code = string(stop.Code)
	case errors.Is(cause, watchdog.ErrComplete):
		code = string(completes)
	case errors.Is(cause, watchdog.ErrClosed):
		code = string(closes)
	default:
		code = cause.Error()
	}
	s.host.book.write(entry{What: ended, Run: s.id, Cause: code})
}

// What an entry of a journal is about.
const (
	attached  = "attached"  // a watchdog guards the run
	signalled = "signalled" // the run gives a sign of life, or the runs of a cohort do
	held      = "held"      // the run opens a hold
	released  = "released"  // it closes the hold, which is a sign of life
	completed = "completed" // Complete returned without an error
	ended     = "ended"     // the run's context is done
	recorded  = "recorded"  // Close returned without an error, so that the store has a stop of the window
	swept     = "swept"     // a sweeper was told that it cancelled the run
	unwritten = "unwritten" // the witness of the process could not write since then
)

// An entry is one line of a journal.
type entry struct {
	At      time.Duration
	What    string
	Run     string        `json:",omitempty"`
	Window  time.Time     `json:",omitzero"` // its start
	Attempt int           `json:",omitempty"`
	Cohort  string        `json:",omitempty"` // of the runs that are signalled together
	Cause   string        `json:",omitempty"`
	Since   time.Duration `json:",omitempty"`
}

// A journal is a file to which a process appends what it does. What was written is there also after a SIGKILL.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file: file}, err
}

// write appends an entry with the time. A journal that cannot be written ends the process: the judge could not trust
// it.
func (j *journal) write(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.At = sinceBoot()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "write the journal:", err)
		os.Exit(1)
	}
}

// A journalReader reads a journal that still grows.
type journalReader struct {
	path    string
	offset  int64
	entries []entry
}

// read returns all complete entries.
func (r *journalReader) read() ([]entry, error) {
	file, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the process was killed before it made one
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		return nil, err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r.entries, nil // a line without an end is read again
		}
		if err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, fmt.Errorf("read %s at %d: %w", r.path, r.offset, err)
		}
		r.offset += int64(len(line))
		r.entries = append(r.entries, e)
	}
}

// sweepAll is a sweeper without a cap.
func sweepAll(ctx context.Context, j job, book *journal) error {
	store := openStore(ctx, j)
	if store == nil {
		return nil
	}
	defer store.Close()
	sweeper, err := sweep.New(store, store, sweep.Config{
		Interval: sweepInterval, StalledThreshold: threshold, MinAge: watchdog.None, StartupDelay: watchdog.None,
		MaxCancellationsPerRun: watchdog.NoLimit, RecordTimeout: recordTimeout,
		OnPass: func(p sweep.Pass) { writeSwept(book, p) }, Logger: logger(),
	})
	if err != nil {
		return err
	}
	return sweeper.Run(ctx)
}

func writeSwept(book *journal, p sweep.Pass) {
	for _, c := range p.Cases {
		if c.Handling == sweep.CaseCancelled {
			book.write(entry{What: swept, Run: c.Session.RunID, Window: c.Session.StartedAt, Attempt: c.Session.Attempt})
		}
	}
}

// openStore opens the store of a child, as soon as the database can be reached. It returns nil if ctx ends before.
func openStore(ctx context.Context, j job) *postgres.Store {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, recordTimeout)
		store, err := postgres.Open(attempt, j.DSN, postgres.Config{})
		cancel()
		if err == nil {
			return store
		}
		logger().Warn("the database cannot be opened", "error", err)
		pause(ctx, promise/5)
	}
	return nil
}

// pause waits for a while, or until the context ends.
func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// witness writes to the database without the library until ctx ends, and notes what it could not write within a
// promise: its process could not then. A machine that has too much to do cuts a process off as a network does, and
// nobody else knows when. What keeps the library alone from writing is no excuse.
func witness(ctx context.Context, dsn string, book *journal) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	write := func() (err error) {
		limited, cancel := context.WithTimeout(ctx, promise)
		defer cancel()
		if conn == nil || conn.IsClosed() {
			if conn, err = pgx.Connect(limited, dsn); err != nil {
				return err
			}
		}
		_, err = conn.Exec(limited, "INSERT INTO written VALUES (now())")
		return err
	}
	for ctx.Err() == nil {
		since := sinceBoot()
		if err := write(); err != nil && ctx.Err() == nil {
			book.write(entry{What: unwritten, Since: since})
		}
		pause(ctx, promise/4)
	}
}
