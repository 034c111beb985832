//go:build linux

package soak_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/testrun"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// beat is how often the busy runs of a host are signalled. A host whose journal is silent for much longer was not
// running.
const beat = promise / 5

// attaches is how many runs of a host attach at once.
const attaches = 6

// A host is a process with many runs.
type host struct {
	job    job
	book   *journal
	store  *postgres.Store
	keeper *session.Keeper
	turns  chan struct{} // whoever attaches has filled one
	finish <-chan struct{}
	// The runs of a cohort are signalled together.
	busy    *cohort
	seldoms []*cohort
}

// keepAll is the main of a host. When finish is closed the runs that would end by themselves do so, and are not begun
// again; the others go on until ctx ends.
func keepAll(ctx context.Context, finish <-chan struct{}, j job, book *journal) error {
	store := openStore(ctx, j)
	if store == nil {
		return nil
	}
	defer store.Close()
	keeper, err := session.NewKeeper(keeperConfig(store, j.Host))
	if err != nil {
		return err
	}
	h := &host{
		job: j, book: book, store: store, keeper: keeper, turns: make(chan struct{}, attaches), finish: finish,
		busy: newCohort("busy", beat),
	}
	for i, length := range []time.Duration{threshold / 5, threshold / 4, threshold / 3} {
		h.seldoms = append(h.seldoms, newCohort(fmt.Sprint("seldom ", i), length))
	}
	return h.keep(ctx)
}

func keeperConfig(store session.Store, name string) session.KeeperConfig {
	return session.KeeperConfig{
		Store: store, Host: name, Promise: promise, Threshold: threshold, Pace: promise / 4, Poll: promise / 2,
		RecordTimeout: promise, Logger: logger(),
	}
}

// keep runs the keeper, the cohorts and all runs until ctx ends and all are closed.
func (h *host) keep(ctx context.Context) error {
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	var keeper, runs sync.WaitGroup
	defer keeper.Wait()
	defer stopKeeping()
	keeper.Go(func() { _ = h.keeper.Run(keeping) }) // it returns nil
	keeper.Go(func() { witness(keeping, h.job.DSN, h.book) })
	for _, c := range append(h.seldoms, h.busy) {
		runs.Go(func() { c.run(ctx, h.book) })
	}
	for i := range h.job.Runs {
		r := &slot{
			host: h, id: fmt.Sprintf("%s-run-%d", h.job.Host, i), index: i, pattern: patterns[i%len(patterns)],
			random: rand.New(rand.NewPCG(h.job.Seed, uint64(i))),
		}
		runs.Go(func() { r.live(ctx) })
	}
	runs.Wait()
	return nil
}

// A cohort is runs that are signalled together.
type cohort struct {
	name string
	pace time.Duration
	mu   sync.Mutex
	runs map[*watchdog.Watchdog]bool
}

func newCohort(name string, pace time.Duration) *cohort {
	return &cohort{name: name, pace: pace, runs: map[*watchdog.Watchdog]bool{}}
}

func (c *cohort) add(w *watchdog.Watchdog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[w] = true
}

func (c *cohort) remove(w *watchdog.Watchdog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, w)
}

// run signals until ctx ends. A signal is in the journal before it is given, so that a silence is never longer than the
// journal says.
func (c *cohort) run(ctx context.Context, book *journal) {
	tick := time.NewTicker(c.pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			book.write(entry{What: signalled, Cohort: c.name})
			c.signal()
		case <-ctx.Done():
			return
		}
	}
}

func (c *cohort) signal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.runs {
		w.Activity()
	}
}

// asChild makes the test binary a host or a sweeper. Its value is a job as JSON.
const asChild = "WATCHDOG_SOAK_CHILD"

// A job is what a child does.
type job struct {
	Sweeper   bool   // else a host
	Name      string // of the process
	Host      string // names the runs
	DSN       string
	Journal   string
	Runs      int
	StartedAt time.Time // of all runs
	Seed      uint64
}

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testrun.InMemory()
	goleak.VerifyTestMain(m)
}

// work is the main of a child. It returns when the child's input ends and all is closed.
func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	book, err := openJournal(j.Journal)
	if err != nil {
		return err
	}
	defer book.file.Close()
	ctx, finish := listen(os.Stdin)
	if j.Sweeper {
		return sweepAll(ctx, j, book)
	}
	return keepAll(ctx, finish, j, book)
}

// listen returns a context that ends with the input, and a channel that is closed when there is a byte to read.
func listen(input *os.File) (context.Context, <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	finish := make(chan struct{})
	go func() {
		defer cancel()
		one := make([]byte, 1)
		if _, err := input.Read(one); err != nil {
			return
		}
		close(finish)
		_, _ = input.Read(one) // nothing more comes
	}()
	return ctx, finish
}

// patience bounds every wait for a child and for the database.
const patience = time.Minute

// A process is a child of the test, as the parent knows it.
type process struct {
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser
	book  journalReader
	done  chan struct{} // closed when it has ended and was waited for
	err   error         // of Wait

	mu     sync.Mutex
	away   []span        // it was stopped, or cut off
	late   []span        // it could write, and may not have heard
	stray  []span        // what it wrote was lost
	killed time.Duration // or has ended; 0 if it lives
}

// spawn starts a child, which cannot outlive the test. The caller has to end it.
func spawn(folder string, j job) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	j.Journal = filepath.Join(folder, j.Name+".journal")
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(j.Journal); err != nil { // of another soak
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, j.Name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: j.Name, cmd: exec.Command(self), book: journalReader{path: j.Journal}, done: make(chan struct{})}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr, p.cmd.Stdout = log, log
	// SIGKILL, because a process that is stopped does nothing else.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it fails if the process has ended

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
	p.noteEnd()
}

func (p *process) noteEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed == 0 {
		p.killed = sinceBoot()
	}
}

// note adds a stretch to some of those that are known of the process.
func (p *process) note(known *[]span, s span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*known = append(*known, s)
}

// finish has a host let the runs end that end by themselves.
func (p *process) finish() error {
	_, err := p.input.Write([]byte("\n"))
	return err
}

// leave has the process close all and exit.
func (p *process) leave() error {
	_ = p.input.Close() // it fails if the process has ended
	select {
	case <-p.done:
		p.noteEnd()
		if p.err != nil {
			return fmt.Errorf("%s: %w", p.name, p.err)
		}
		return nil
	case <-time.After(patience):
		p.kill()
		return errors.New(p.name + " does not end")
	}
}

// record is what is known of the process up to now.
func (p *process) record() (processRecord, error) {
	entries, err := p.book.read()
	p.mu.Lock()
	defer p.mu.Unlock()
	return processRecord{
		name: p.name, entries: entries, away: slices.Clone(p.away), late: slices.Clone(p.late),
		stray: slices.Clone(p.stray), killed: p.killed,
	}, err
}
