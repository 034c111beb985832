//go:build linux

package histories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

const (
	clients = 3 // goroutines of a process
	// callsOfSlot is how many calls all processes make about the same objects: this many runs.
	callsOfSlot = 80
	runsOfSlot  = 2
	// patienceOfCall is how long a client waits for an answer.
	patienceOfCall = 300 * time.Millisecond
	// retryPause is how long it waits before it asks a database again that did not answer, tries how often it begins.
	retryPause = 20 * time.Millisecond
	tries      = 1000
)

// A store is what the calls are about.
type store interface {
	session.Store
	session.BatchCanceller
}

// A job is what a child does.
type job struct {
	Name     string // of the process
	Database string // a path or a connection string
	Folder   string // of the journal and the tally
	Calls    int64  // of all processes
	Slots    int64  // how many slots there are until the first comes again
	Seed     uint64
}

func (j job) journal() string { return filepath.Join(j.Folder, j.Name+".journal") }

func (j job) tally() string { return filepath.Join(j.Folder, "tally") }

// work is the main of a child. It returns when the job is over.
func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	s, closed, err := openStore(j.Database)
	if err != nil {
		return err
	}
	return errors.Join(j.do(s), closed())
}

// do calls a store from several clients until there were enough calls.
func (j job) do(s store) error {
	book, err := openJournal(j.journal())
	if err != nil {
		return err
	}
	calls, err := openTally(j.tally())
	if err != nil {
		return errors.Join(err, book.close())
	}
	var all sync.WaitGroup
	for i := range clients {
		c := client{
			name: fmt.Sprintf("%s-%d", j.Name, i), store: s, book: book, rand: rand.New(rand.NewPCG(j.Seed, uint64(i))),
			seen: map[string]session.Session{}, beats: map[string]int64{}, told: map[string][]session.AttemptID{},
		}
		all.Go(func() {
			for n := calls.Add(1); n <= j.Calls; n = calls.Add(1) {
				c.call(n, j.Slots)
			}
		})
	}
	all.Wait()
	return errors.Join(book.close(), calls.close())
}

// A client makes one call after the other, about the objects of the current slot.
type client struct {
	name  string
	store store
	book  *journal
	rand  *rand.Rand
	// number is that of the current call, slot what it is about, and latest the number of the latest lease of its runs.
	number, slot int64
	latest       int
	// seen is the row of each run as the client knows it: it is judged by that, though the row may be another by now.
	seen map[string]session.Session
	// beats are those that the client wrote last into leases, and told what each lease said last that others ended.
	beats map[string]int64
	told  map[string][]session.AttemptID
	// failed tells that the last call had no answer.
	failed bool
}

// call makes a call with a number that no other has. Some begin a lease of each run.
func (c *client) call(number, slots int64) {
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfCall)
	defer cancel()
	c.failed = false
	c.number, c.slot = number, number/callsOfSlot%slots
	within := number/callsOfSlot/slots*callsOfSlot + number%callsOfSlot // of those about the same objects
	c.latest = 1 + int(within/callsOfLease)
	runs := c.runs()
	switch {
	case within%callsOfLease == 0 && c.latest <= leasesOfRun:
		for _, run := range runs {
			c.beginLease(ctx, run, c.latest)
		}
	default:
		c.end(ctx, runs[c.rand.IntN(len(runs))])
	}
	if c.failed {
		c.untilAnswered()
	}
}

// runs returns those that the current call is about, or one of them.
func (c *client) runs() (all []string) {
	for i := range runsOfSlot {
		all = append(all, fmt.Sprintf("run-%d-%d", c.slot, i))
	}
	return all
}

// untilAnswered waits until the database answers. Each call that it does not answer doubles what the judge looks at.
func (c *client) untilAnswered() {
	answers := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patienceOfCall)
		defer cancel()
		_, err := c.store.Session(ctx, "nobody's")
		return errors.Is(err, session.ErrNotFound)
	}
	for !answers() {
		time.Sleep(retryPause)
	}
}

// quiet is the logger of runs, whose stores fail.
var quiet = slog.New(slog.DiscardHandler)
