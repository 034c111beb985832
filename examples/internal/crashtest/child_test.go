package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog"
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
}

// A line is what a child prints: first that its database is open, then that it is attached, then how the run ended.
type line struct {
	Open bool `json:",omitempty"`
	// AttachedTo is the start of the window.
	AttachedTo time.Time `json:",omitzero"`
	// Stop is the stop, Text its error text.
	Stop *watchdog.Stop `json:",omitempty"`
	Text string         `json:",omitempty"`
}

// watchRuns is the child's main: it watches one run after another until its input ends.
func watchRuns(path string, in io.Reader, out io.Writer) error {
	store, err := sqlite.Open(context.Background(), path)
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
	if err != nil {
		return err
	}
	if err := lines.Encode(line{AttachedTo: wd.StartedAt()}); err != nil {
		return err
	}
	if j.Leave {
		return wd.Close()
	}
	if j.PollOnly {
		poll(wd)
	}
	<-wd.Context().Done()
	stop := wd.Stop()
	if err := wd.Close(); err != nil {
		return err
	}
	return lines.Encode(line{Stop: stop, Text: stop.Error()})
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

// poll calls Fired every millisecond, as a host does at its phase boundaries.
func poll(wd *watchdog.Watchdog) {
	phases := time.NewTicker(time.Millisecond)
	defer phases.Stop()
	for _, fired := wd.Fired(); !fired; _, fired = wd.Fired() {
		<-phases.C
	}
}
