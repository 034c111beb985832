package drive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen"
	"github.com/seed62658d38/watchdog/oracle/frozen/loop"
	"github.com/seed62658d38/watchdog/oracle/history"
)

// ask takes directives from a run.
func (w *world) ask(g *guard, rng *rand.Rand) {
	wd := g.wd
	switch n := rng.IntN(8); {
	case n < 2:
		w.call("Poll "+g.name, func() string {
			d, ok := wd.Poll()
			return fmt.Sprint(ok, " ", directiveText(&d))
		})
	case n < 4:
		w.call("Pending "+g.name, func() string {
			var b strings.Builder
			for d := range wd.Pending() {
				fmt.Fprintf(&b, "| %s", directiveText(&d))
			}
			return b.String()
		})
	case n < 7 || len(g.readers) == 0:
		w.subscribe(g, rng)
	default:
		w.say(history.Did, "a subscriber of %s leaves", g.name)
		g.readers[0]()
		g.readers = g.readers[1:]
	}
}

func (w *world) subscribe(g *guard, rng *rand.Rand) {
	wd, p, l := g.wd, g.proc, g.proc.life
	name, odd := w.label(g.name+" reader"), rng.IntN(12)
	w.say(history.Did, "%s subscribes, odd %d", name, odd)
	g.readers = append(g.readers, wd.Subscribe(func(d watchdog.Directive) {
		p.hear(l, history.Told, name, directiveText(&d))
		switch odd {
		case 0:
			panic("a subscriber that panics")
		case 1:
			wd.Progress()
		case 2:
			_, fired := wd.Fired()
			p.hear(l, history.Told, name, fmt.Sprint("fired ", fired))
		case 3:
			p.w.sleep(time.Minute)
		}
	}))
}

// try begins work that a directive can end, or ends it.
func (w *world) try(g *guard, rng *rand.Rand) {
	if len(g.tries) > 0 && chance(rng, 3) {
		t := g.tries[0]
		g.tries = g.tries[1:]
		err := pick(rng, nil, errWork)
		w.say(history.Did, "the work of a try of %s ends with %v", g.name, err)
		if !t.closed {
			t.closed = true
			t.free <- err
			close(t.free)
		}
		return
	}
	t := &tried{free: make(chan error, 1)}
	g.tries = append(g.tries, t)
	wd := g.wd
	w.call("Try "+g.name, func() string {
		return errText(wd.Try(context.Background(), func(ctx context.Context) error {
			select {
			case err := <-t.free:
				return err
			case <-ctx.Done():
				return fmt.Errorf("it ended: %w", ctx.Err())
			}
		}))
	})
}

// turn tells of one turn of the agent, or of the same a few times.
func (w *world) turn(g *guard, rng *rand.Rand) {
	if w.setup.instant { // a store that cannot be made to forget what Step remembers
		return
	}
	wd, n := g.wd, pick(rng, 1, 1, 3)
	s := loop.Step{
		Tool: pick(rng, "grep", "edit"), Class: pick(rng, loop.Look, loop.Change, ""),
		Input: fmt.Appendf(nil, `{"for":"word %d"}`, rng.IntN(2)), Outcome: []byte(pick(rng, "none", "error: no such file")),
		Failed: chance(rng, 5), Refused: chance(rng, 9),
	}
	for range n {
		w.call(fmt.Sprintf("Step %s %s %s %s", g.name, s.Tool, s.Input, s.Outcome), func() string {
			return fmt.Sprintf("%+v", wd.Step(s))
		})
	}
}

// wrongInput makes a call that is refused, or one on no run.
func (w *world) wrongInput(g *guard, rng *rand.Rand) {
	wd := g.wd
	if chance(rng, 4) {
		wd = nil
	}
	w.call("wrong input to "+g.name, func() string {
		switch rng.IntN(10) {
		case 0:
			return errText(wd.Extend(-time.Second))
		case 1:
			return errText(wd.Interrupt("a\x00b"))
		case 2:
			_, err := wd.Layer("a/b", watchdog.Budget{})
			return errText(err)
		case 3:
			_, err := wd.Layer("a", watchdog.Budget{Idle: -1})
			return errText(err)
		case 4:
			_, err := wd.Hold(context.Background(), "a\tb", watchdog.HoldLimit{})
			return errText(err)
		case 5:
			_, err := wd.Admit(context.Background(), "", watchdog.Amount{Requests: -1})
			return errText(err)
		case 6:
			return errText(wd.ExtendSpend(watchdog.Spend{Errors: -1}))
		case 7:
			ended, end := context.WithCancel(context.Background())
			end()
			_, err := wd.Admit(ended, "", watchdog.Amount{Requests: 1})
			return errText(err)
		case 8:
			_, err := watchdog.New(context.Background(), watchdog.Run{ID: g.session}, g.proc.cfg)
			return errText(err)
		default:
			_, err := watchdog.New(context.Background(),
				watchdog.Run{ID: g.session, StartedAt: w.now().Add(time.Hour)}, g.proc.cfg)
			return errText(err)
		}
	})
}

// guardedLoop is Do.
func (w *world) guardedLoop(p *process, rng *rand.Rand) {
	run := watchdog.Run{ID: w.label("d"), StartedAt: w.now()}
	kind := rng.IntN(5)
	w.call(fmt.Sprintf("Do %s %d", run.ID, kind), func() string {
		return errText(watchdog.Do(p.inner, run, p.cfg, func(ctx context.Context, wd *watchdog.Watchdog) error {
			switch kind {
			case 0:
				return nil
			case 1:
				return errWork
			case 2:
				<-ctx.Done()
				return ctx.Err()
			case 3:
				panic("the loop panics")
			default:
				_, err := wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
				return err
			}
		}))
	})
}
