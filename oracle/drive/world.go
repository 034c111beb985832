// Package drive has a history happen, and writes down all that a host, or another program that reads the same store,
// could see of it. Package frozendrive is the same text for the frozen package: go test ./drive -update
// writes it.
//
// It runs in a bubble of testing/synctest. Every call is made on a goroutine of its own, so that one that waits for a
// store that hangs holds up nothing.
package drive

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/oracle/history"
)

// A world is two processes on one store.
type world struct {
	h        *history.Script
	step     int
	began    time.Time
	mock     *clock.Mock // nil for the machine's clock
	ahead    time.Duration
	db       *database
	setup    setup
	procs    [2]*process
	closed   []*guard // of processes that are gone
	calls    []*call
	made     int // calls
	labels   map[string]int
	foreigns int
	ends     []func() // of contexts around runs
	asleep   atomic.Int32

	mu     sync.Mutex // guards what callbacks write
	lines  history.Transcript
	fresh  history.Transcript // of this step, which callbacks wrote
	stamps []string
}

// Live has the history happen. The caller is in a bubble of its own.
func Live(h *history.Script) history.Transcript {
	w := &world{h: h, began: time.Now(), labels: map[string]int{}}
	w.setUp(h.Rand())
	for i, s := range h.Steps {
		w.step = i + 1
		w.live(s)
	}
	w.step++
	w.end()
	w.lines.Normal()
	return w.lines
}

// live is one step.
func (w *world) live(s history.Step) {
	rng := s.Rand()
	if rng.IntN(16) > 0 {
		w.pass(time.Microsecond)
	}
	w.act(s.Op, rng)
	w.settle()
	looks := rng.IntN(w.setup.looks) == 0
	if looks {
		w.look()
	}
	if looks || !w.setup.passive {
		w.see()
	}
	w.write()
}

// say writes a line.
func (w *world) say(topic history.Topic, format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	w.lines = append(w.lines, history.Entry{Step: w.step, Topic: topic, Text: text})
}

// inTrouble marks what several goroutines of one run say in any order.
const inTrouble = " in trouble"

// hear is say for callbacks. Which of two that come at one moment, of runs that know nothing of each other, is first is
// left to chance: they are sorted by what they are of.
func (w *world) hear(topic history.Topic, of, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh = append(w.fresh, history.Entry{Topic: topic, Text: of + " " + text})
	if strings.HasSuffix(of, inTrouble) {
		of += text
	}
	w.stamps = append(w.stamps, fmt.Sprintf("%02d %16d %s", topic, w.sinceBegin(), of))
}

// write writes what callbacks heard since.
func (w *world) write() {
	w.mu.Lock()
	order := make([]int, len(w.fresh))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(w.stamps[a], w.stamps[b]) })
	for _, i := range order {
		w.fresh[i].Step = w.step
		w.lines = append(w.lines, w.fresh[i])
	}
	w.fresh, w.stamps = nil, nil
	w.mu.Unlock()
	w.db.write(w)
}

// now is what the clock shows, sinceBegin how long the history has lasted.
func (w *world) now() time.Time {
	if w.mock != nil {
		return w.mock.Now()
	}
	return time.Now()
}

func (w *world) sinceBegin() time.Duration { return w.now().Sub(w.began) }

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	if w.mock != nil {
		w.mock.Add(d)
	} else {
		time.Sleep(d)
	}
	synctest.Wait()
}

// A call is one that was made.
type call struct {
	kind   history.Topic
	number int
	what   string
	began  time.Duration
	took   time.Duration
	result string
	done   bool
	then   func()
}

// call makes a call, and waits until it has returned or waits for something.
func (w *world) call(what string, do func() string) bool { return w.callThen(what, do, nil) }

// callThen is call with what is to be done, on the goroutine of the history, once the call has returned.
func (w *world) callThen(what string, do func() string, then func()) bool {
	return w.make(&call{kind: history.Called, what: what, then: then}, do)
}

// make makes a call. It reports whether that has returned.
func (w *world) make(c *call, do func() string) bool {
	w.made++
	c.number, c.began = w.made, w.sinceBegin()
	w.calls = append(w.calls, c)
	go func() {
		result := "it exited"
		defer func() {
			if p := recover(); p != nil {
				result = fmt.Sprintf("it panicked with %v", p)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			c.result, c.done, c.took = result, true, w.sinceBegin()-c.began
		}()
		result = do()
	}()
	synctest.Wait()
	w.returned()
	return !slices.Contains(w.calls, c)
}

// returned writes what calls have returned.
func (w *world) returned() {
	var then []func()
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !c.done {
			return false
		}
		w.say(c.kind, "%d %s: %s", c.number, c.what, c.result)
		if c.took > 0 {
			w.say(history.Took, "%d took %v", c.number, c.took)
		}
		if c.then != nil {
			then = append(then, c.then)
		}
		return true
	})
	for _, do := range then {
		do()
	}
}

func (w *world) settle() {
	synctest.Wait()
	w.returned()
}

// end heals and closes everything, and lets all time pass that anything could still take.
func (w *world) end() {
	w.say(history.Did, "the end")
	for _, p := range w.procs {
		p.conn.heal()
		p.setBusy(busyNo)
	}
	w.pass(time.Minute)
	w.settle()
	w.look()
	w.see()
	w.write()
	w.step++
	for range 2 {
		for _, p := range w.procs {
			for _, g := range slices.Backward(p.runs) {
				w.close(g)
			}
		}
		w.pass(time.Minute)
		w.settle()
	}
	w.see()
	w.write()
	w.bury()
}

// bury ends what is left, which nobody looks at any more.
func (w *world) bury() {
	for _, end := range w.ends {
		end()
	}
	for _, g := range w.closed {
		g.freeAll()
		go g.wd.Close()
	}
	for _, p := range w.procs {
		for _, g := range p.runs {
			g.freeAll()
		}
	}
	w.pass(2 * time.Minute)
	w.pass(2 * time.Minute)
	for range 60 {
		if w.asleep.Load() == 0 { // a reader that takes its time for each directive
			break
		}
		w.pass(time.Minute)
	}
	time.Sleep(time.Minute)
	if len(w.calls) > 0 {
		w.returned()
		for _, c := range w.calls {
			w.say(history.Called, "%d %s never returned", c.number, c.what)
		}
	}
}

// label numbers the things of one name.
func (w *world) label(name string) string {
	w.labels[name]++
	return fmt.Sprintf("%s:%d", name, w.labels[name])
}

// pick draws one of them.
func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

func chance(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

// errText is an error as a host sees it: its text, and which of those that a host can ask for are in it.
func errText(err error) string {
	if err == nil {
		return "ok"
	}
	text := fmt.Sprintf("%q", err.Error())
	for _, known := range knownErrors {
		if known.in(err) {
			text += " " + known.name
		}
	}
	return text
}

var _ watchdog.EventStore = (*conn)(nil)
