package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

// An agent asks the model and does what it asks for, until it asks for nothing. A sub-agent is one in a layer.
type agent struct {
	wd     *watchdog.Watchdog
	api    api
	people *console
	said   []message
	lead   bool // it may have sub-agents and write
	yes    bool
	wrapUp bool
	over   *atomic.Bool // the run wraps up: of all agents in it
	calls  int
	loops  loop.Detector              // says that the agent repeats itself
	repeat string                     // what it repeats and was not told yet
	keep   func(said []message) error // nil keeps nothing
}

// work goes on with the conversation.
func (a *agent) work(ctx context.Context) error {
	if a.lead {
		a.over = new(atomic.Bool)
		defer a.wd.Subscribe(func(d watchdog.Directive) {
			if d.Kind == watchdog.DirectiveWrapUp {
				a.over.Store(true)
			}
		})()
	}
	for {
		if a.heed(); a.over.Load() && !a.lead {
			return errors.New("the run wraps up")
		}
		answer, err := a.api.ask(ctx, a.wd, a.said, a.tools())
		if a.refused(ctx, err) {
			continue
		}
		if err != nil {
			return err
		}
		if done, err := a.act(ctx, answer); done || err != nil {
			return err
		}
	}
}

// act does what the model asks for, and reports whether it asks for nothing.
func (a *agent) act(ctx context.Context, answer message) (done bool, err error) {
	a.say("%s", answer.text())
	calls := answer.calls()
	if err := a.add(answer); err != nil || len(calls) == 0 {
		return true, err
	}
	results := a.use(ctx, calls)
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	return false, a.add(message{Role: "user", Content: results})
}

// heed has the model know what the run asks for.
func (a *agent) heed() {
	if a.repeat != "" {
		a.tell("You repeat yourself. " + a.repeat)
		a.repeat = ""
		a.loops.Delivered()
	}
	for d := range a.wd.Pending() {
		if d.Kind == watchdog.DirectiveWrapUp {
			a.wrapUp = true
			a.say("[%s: %s]", d.Kind, d.Reason)
			a.tell("Only a reserve is left of what this may cost. Call no more tools: say what is done and what is not.")
		}
	}
}

// tell adds to what the model reads next: a task, or results.
func (a *agent) tell(text string) {
	last := &a.said[len(a.said)-1]
	last.Content = append(last.Content, block{Type: "text", Text: text})
}

// refused reports whether a call did not fit in what is not reserve, and is to be made once more, to wrap up.
func (a *agent) refused(ctx context.Context, err error) bool {
	var refused *watchdog.Refused
	return a.lead && !a.wrapUp && errors.As(err, &refused) && a.asked(ctx)
}

// asked waits for the directive that a refused call brings.
func (a *agent) asked(ctx context.Context) bool {
	came := make(chan struct{}, 1)
	defer a.wd.Subscribe(func(watchdog.Directive) { came <- struct{}{} })()
	if a.heed(); a.wrapUp {
		return true
	}
	select {
	case <-came:
	case <-ctx.Done():
	case <-time.After(watchdog.DefaultRecordTimeout):
	}
	a.heed()
	return a.wrapUp
}

// add keeps a message: a process that is killed goes on after it.
func (a *agent) add(m message) error {
	a.said = append(a.said, m)
	if a.keep == nil {
		return nil
	}
	return a.keep(a.said)
}

// use makes the calls of one turn at once.
func (a *agent) use(ctx context.Context, calls []block) []block {
	var all sync.WaitGroup
	results, turn := make([]block, len(calls)), make([]loop.Step, len(calls))
	for i, b := range calls {
		a.calls++
		n := a.calls
		all.Go(func() {
			text, err := a.call(ctx, n, b)
			if err != nil {
				text = "error: " + err.Error()
			}
			results[i] = block{Type: "tool_result", ToolUseID: b.ID, Result: text, IsError: err != nil}
			turn[i] = loop.Step{Tool: b.Name, Input: b.Input, Outcome: []byte(text), Failed: err != nil}
		})
	}
	all.Wait()
	a.judge(turn)
	return results
}

// judge finds whether the agent repeats itself. It is told so first, and ended if it goes on.
func (a *agent) judge(turn []loop.Step) {
	v := a.loops.Step(turn...)
	switch v.Advice {
	case loop.Ask:
		a.repeat = v.String()
	case loop.End:
		_, _ = a.wd.Cancel(watchdog.Cancellation{Reason: watchdog.LoopDetected}) // the context says so
	}
	if v.New {
		a.wd.Progress()
	}
}

// delegate runs sub-agents, each in a layer: what they spend is the run's, and their end leaves it as it is.
func (a *agent) delegate(_ context.Context, n int, tasks []string) (string, error) {
	var all sync.WaitGroup
	answers := make([]string, len(tasks))
	for i, task := range tasks {
		all.Go(func() {
			layer, err := a.wd.Layer(fmt.Sprintf("agent-%d-%d", n, i+1), watchdog.Budget{WallClock: 10 * time.Minute})
			if err != nil {
				answers[i] = "not begun: " + err.Error()
				return
			}
			defer func() { _ = layer.Close() }()
			sub := &agent{wd: layer, api: a.api, people: a.people, over: a.over, said: []message{says("user", task)}}
			if err := sub.work(layer.Context()); err != nil {
				answers[i] = "not done: " + err.Error()
				return
			}
			answers[i] = sub.said[len(sub.said)-1].text()
		})
	}
	all.Wait()
	text, err := json.Marshal(answers)
	return string(text), err
}

func (a *agent) say(format string, args ...any) {
	who := "agent"
	if !a.lead {
		who = a.wd.ID()[len(a.wd.Parent())+1:]
	}
	a.people.say("%s: %s", who, fmt.Sprintf(format, args...))
}
