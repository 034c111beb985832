package crashtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A command is what a host child is asked to do. The child answers each.
type command struct {
	Do     string
	After  time.Duration // it waits so long before
	Run    watchdog.Run
	Budget watchdog.Budget
	Key    string        // of a hold or layer, or the kind of event to wait for
	Cap    time.Duration // of a hold that stops the wall clock
}

// An answer says where the run stands after a command.
type answer struct {
	AttachedTo time.Time              `json:",omitzero"`
	Remaining  time.Duration          `json:",omitempty"`
	Asked      watchdog.DirectiveKind `json:",omitempty"`
	Stop       *watchdog.Stop         `json:",omitempty"`
	// Err is the error of the command. Complete, Ended and Held tell what it wraps.
	Err                   string `json:",omitempty"`
	Complete, Ended, Held bool   `json:",omitempty"`
}

// A host is a child that does what it is told with one run.
type host struct {
	store watchdog.EventStore
	wd    *watchdog.Watchdog
	hold  *watchdog.Hold
	known map[string]int // the number of events of each kind at the attach
}

// hostRun is the main of a child that carries out commands until its input ends.
func hostRun(database string, in io.Reader, out io.Writer) error {
	store, err := openStore(database)
	if err != nil {
		return err
	}
	h := &host{store: store}
	answers := json.NewEncoder(out)
	for commands := json.NewDecoder(in); ; {
		var c command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return store.Close()
		} else if err != nil {
			return err
		}
		time.Sleep(c.After)
		if err := answers.Encode(h.answer(c)); err != nil {
			return err
		}
	}
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

func (h *host) answer(c command) (a answer) {
	do := map[string]func(*host, command, *answer) error{
		"attach": (*host).attach, "resume": (*host).attach, "layer": (*host).layer, "hold": (*host).open,
		"release": (*host).release, "progress": (*host).progress, "ask": (*host).ask, "await": (*host).await,
		"complete": (*host).complete, "sync": (*host).sync, "end": (*host).end, "look": (*host).look,
	}[c.Do]
	if do == nil {
		return answer{Err: "unknown command " + c.Do}
	}
	if err := do(h, c, &a); err != nil {
		a.Err, a.Complete = err.Error(), errors.Is(err, watchdog.ErrComplete)
		a.Ended, a.Held = errors.Is(err, watchdog.ErrEnded), errors.Is(err, watchdog.ErrHeld)
	}
	if h.wd != nil {
		a.AttachedTo, a.Remaining, a.Stop = h.wd.StartedAt(), h.wd.Remaining(), h.wd.Stop()
	}
	return a
}

// attach attaches to the run, or resumes it.
func (h *host) attach(c command, _ *answer) (err error) {
	guard := watchdog.New
	if c.Do == "resume" {
		guard = watchdog.Resume
	}
	if h.known, err = h.count(c.Run.ID); err != nil {
		return err
	}
	h.wd, err = guard(context.Background(), c.Run, watchdog.Config{
		Store: h.store, Budget: c.Budget, Logger: slog.New(slog.DiscardHandler),
	})
	return err
}

// layer goes on with a layer of the run instead of the run.
func (h *host) layer(c command, _ *answer) error {
	layer, err := h.wd.Layer(c.Key, c.Budget)
	if err == nil {
		h.wd, h.known = layer, nil
	}
	return err
}

// open opens a hold that stops the wall clock.
func (h *host) open(c command, _ *answer) error {
	hold, err := h.wd.Hold(context.Background(), c.Key, watchdog.HoldLimit{Cap: c.Cap, PausesWallClock: true})
	if err == nil {
		h.hold = hold
	}
	return err
}

func (h *host) release(command, *answer) error {
	if !h.hold.Close() {
		return errors.New("the hold was closed already")
	}
	return nil
}

// progress signals progress and looks, which has it recorded where it puts a ladder back.
func (h *host) progress(command, *answer) error {
	h.wd.Progress()
	h.wd.Fired()
	return nil
}

// ask waits for the next directive and until its event is stored.
func (h *host) ask(_ command, a *answer) error {
	for {
		if d, asked := h.wd.Poll(); asked {
			a.Asked = d.Kind
			return h.await(command{Key: "runtime.watchdog." + string(d.Kind)}, a)
		}
		time.Sleep(time.Millisecond)
	}
}

// await waits until the store has more events of a kind than when the run was attached.
func (h *host) await(c command, a *answer) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		now, err := h.count(h.wd.ID())
		if err != nil {
			return err
		}
		if now[c.Key] > h.known[c.Key] || a.Asked == watchdog.DirectiveCancel {
			return nil
		}
		h.wd.Fired()
	}
	return fmt.Errorf("no new event %s was stored within a minute", c.Key)
}

func (h *host) count(id string) (map[string]int, error) {
	events, err := h.store.Read(context.Background(), watchdog.AggregateType, id)
	n := map[string]int{}
	for _, e := range events {
		n[e.Type]++
	}
	return n, err
}

func (h *host) complete(command, *answer) error { return h.wd.Complete() }

func (h *host) sync(command, *answer) error {
	_, err := h.wd.Sync(context.Background())
	return err
}

// end waits for the end of the run's context and returns its cause.
func (h *host) end(command, *answer) error {
	<-h.wd.Context().Done()
	return context.Cause(h.wd.Context())
}

func (h *host) look(command, *answer) error { return nil }
