package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A job is a run that a child watches.
type job struct {
	ID        string
	StartedAt time.Time
	Budget    time.Duration
	Resume    bool
	PollOnly  bool
	// Leave makes the child close the watchdog right after the attach.
	Leave bool
	// CompleteAt is when the child completes the run; zero is never.
	CompleteAt time.Time `json:",omitzero"`
}

// A line is what a child prints: first that its database is open, then that it is attached, then how the run ended.
type line struct {
	Open bool `json:",omitempty"`
	// AttachedTo is the start of the window.
	AttachedTo time.Time `json:",omitzero"`
	// Stop is the stop, Text its error text; Complete is the other end.
	Stop     *watchdog.Stop `json:",omitempty"`
	Text     string         `json:",omitempty"`
	Complete bool           `json:",omitempty"`
}

// A closingStore is a store that is to be closed.
type closingStore interface {
	watchdog.EventStore
	io.Closer
}

// openStore opens a database: that of a connection string or of a file.
func openStore(database string) (closingStore, error) {
	if strings.HasPrefix(database, "postgres:") {
		return postgres.Open(context.Background(), database, postgres.Config{})
	}
	return sqlite.Open(context.Background(), database)
}

// watchRuns is the child's main: it watches one run after another until its input ends.
func watchRuns(database string, in io.Reader, out io.Writer) error {
	store, err := openStore(database)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	if err := lines.Encode(line{Open: true}); err != nil {
		return err
	}
	for jobs := json.NewDecoder(in); ; {
		var j job
		if err := jobs.Decode(&j); errors.Is(err, io.EOF) {
			return store.Close()
		} else if err != nil {
			return err
		}
		if err := j.watch(store, lines); err != nil {
			return err
		}
	}
}

// watch attaches to the run, waits for its end unless j.Leave is set, and prints how the run ended.
func (j job) watch(store watchdog.EventStore, lines *json.Encoder) error {
	wd, err := j.guard(store)
	if errors.Is(err, watchdog.ErrComplete) { // another child was faster
		return errors.Join(lines.Encode(line{AttachedTo: j.StartedAt}), lines.Encode(line{Complete: true}))
	}
	if err != nil {
		return err
	}
	if err := lines.Encode(line{AttachedTo: wd.StartedAt()}); err != nil {
		return err
	}
	switch {
	case j.Leave:
		return wd.Close()
	case !j.CompleteAt.IsZero():
		time.Sleep(time.Until(j.CompleteAt))
		if err := wd.Complete(); err != nil && !errors.Is(err, watchdog.ErrEnded) {
			return err
		}
	case j.PollOnly:
		poll(wd)
	}
	<-wd.Context().Done()
	ended := line{Stop: wd.Stop(), Complete: errors.Is(context.Cause(wd.Context()), watchdog.ErrComplete)}
	if ended.Stop != nil {
		ended.Text = ended.Stop.Error()
	}
	return errors.Join(wd.Close(), lines.Encode(ended))
}

func (j job) guard(store watchdog.EventStore) (*watchdog.Watchdog, error) {
	guard := watchdog.New
	if j.Resume {
		guard = watchdog.Resume
	}
	return guard(context.Background(), watchdog.Run{ID: j.ID, StartedAt: j.StartedAt}, watchdog.Config{
		Store:    store,
		Budget:   watchdog.Budget{WallClock: j.Budget, WarnAt: []float64{0.5}},
		PollOnly: j.PollOnly,
		Logger:   slog.New(slog.DiscardHandler),
	})
}

// poll calls Fired every millisecond until the run has ended, as a host does at its phase boundaries.
func poll(wd *watchdog.Watchdog) {
	phases := time.NewTicker(time.Millisecond)
	defer phases.Stop()
	for wd.Context().Err() == nil {
		wd.Fired()
		<-phases.C
	}
}
