package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
	"github.com/seed62658d38/watchdog/loop"
)

// An agent asks the model, does what the reply asks for, and repeats.
type agent struct {
	wd     *watchdog.Watchdog
	client *http.Client
	url    string
	tools  toolbox
	say    say

	turn, approach int
	wrapUp         bool
	heeded         []watchdog.Directive
}

// work runs the agent under its watchdog until it is done or stopped, and heeds every directive.
func (a *agent) work() error {
	cancelled := make(chan struct{})
	defer a.wd.Subscribe(func(d watchdog.Directive) {
		if d.Kind == watchdog.DirectiveCancel {
			close(cancelled)
		}
	})()
	err := a.run(a.wd.Context())
	if err == nil {
		err = a.wd.Complete()
	}
	if _, fired := a.wd.Fired(); fired {
		<-cancelled // the directive comes shortly after the run's end
		a.poll()
	}
	return err
}

// run is the loop. It returns nil when the model is done or the agent has to wrap up, and an error with the run's
// [watchdog.Stop] when the run was stopped.
func (a *agent) run(ctx context.Context) error {
	for a.turn = 1; ; {
		if a.poll(); a.wrapUp {
			a.say("%s: returning what it has before turn %d", watchdog.DirectiveWrapUp, a.turn)
			return nil
		}
		if done, err := a.tryTurn(ctx); done || err != nil {
			return err
		}
	}
}

// tryTurn makes one turn, and reports whether it was the last one. If a directive ends it, the loop makes it again.
func (a *agent) tryTurn(ctx context.Context) (done bool, err error) {
	err = a.wd.Try(ctx, func(ctx context.Context) error {
		reply, err := a.ask(ctx)
		if err != nil {
			return err
		}
		a.poll()
		done = reply.kind == model.Final
		return a.act(ctx, reply)
	})
	if asked := (*watchdog.Directive)(nil); errors.As(err, &asked) {
		a.heed(*asked)
		return false, nil
	}
	return done, err
}

// poll heeds the directives that ended no turn. The loop calls it at each boundary.
func (a *agent) poll() {
	for d, ok := a.wd.Poll(); ok; d, ok = a.wd.Poll() {
		a.heed(d)
	}
}

// heed acts on a directive, once: one that ended a turn is polled as well.
func (a *agent) heed(d watchdog.Directive) {
	d.Dropped = 0
	if slices.Contains(a.heeded, d) {
		return
	}
	a.heeded = append(a.heeded, d)
	switch d.Kind {
	case watchdog.DirectiveRetry:
		a.say("%s: asking for turn %d again", d.Kind, a.turn)
	case watchdog.DirectiveUnstuck:
		a.approach++
		a.say("%s: trying approach %d", d.Kind, a.approach)
	case watchdog.DirectiveWrapUp:
		a.wrapUp = true
	}
}

// directives returns the kinds of the directives.
func (a *agent) directives() (kinds []watchdog.DirectiveKind) {
	for _, d := range a.heeded {
		kinds = append(kinds, d.Kind)
	}
	return kinds
}

// ask sends a request to the model.
func (a *agent) ask(ctx context.Context) (reply, error) {
	watchdog.FromContext(ctx).Note(fmt.Sprintf("model: turn %d", a.turn))
	return request(ctx, a.client, a.url, model.Request{Turn: a.turn, Approach: a.approach, Prompt: a.prompt()}, a.say)
}

// prompt returns the prompt, another one for each approach.
func (a *agent) prompt() string {
	if a.approach == 0 {
		return "Fix the bug."
	}
	return fmt.Sprintf("You do not get anywhere. Leave that and start from the error message. This is approach %d.",
		a.approach)
}

// act does what the reply asks for and goes on to the next turn. If a directive came meanwhile, act returns the
// context's error, and the agent heeds it before the next request.
func (a *agent) act(ctx context.Context, r reply) error {
	var err error
	switch r.kind {
	case model.Again, model.Final:
		return nil
	case model.Tool:
		err = a.use(ctx, r.text)
	case model.Tools:
		err = a.useOften(ctx, r.text)
	case model.SubAgents:
		err = a.delegate(r.text)
	case model.Ask:
		err = a.tools.approve(ctx, r.text, a.say)
	}
	a.turn++
	return cmp.Or(err, ctx.Err())
}

// use calls a tool and tells the watchdog what came back: that is progress, or the same again.
func (a *agent) use(ctx context.Context, call string) error {
	name, input, _ := strings.Cut(call, " ")
	a.say("tool: %s", name)
	answer, err := a.tools.call(ctx, name, a.turn)
	if err != nil {
		return err
	}
	a.say("%s answers %s", name, answer)
	a.step(name, input, answer)
	return nil
}

// useOften makes many calls of a tool, one after the other, each for another file.
func (a *agent) useOften(ctx context.Context, calls string) error {
	var name string
	var times int
	if _, err := fmt.Sscan(calls, &name, &times); err != nil {
		return fmt.Errorf("%q is not a tool and a number: %w", calls, err)
	}
	leftAlone := 0
	for i := range times {
		answer, err := a.tools.call(ctx, name, a.turn)
		if err != nil {
			return err
		}
		input := fmt.Sprintf(`{"path":"file_%d.go","replace":"Size","by":"Length"}`, i)
		if a.step(name, input, answer).Advice == loop.Go {
			leftAlone++
		}
	}
	a.say("tool: %s, %d times: left alone %d times", name, times, leftAlone)
	return nil
}

// step tells the watchdog of a turn with one call of a tool.
func (a *agent) step(name, input, answer string) loop.Verdict {
	return a.wd.Step(loop.Step{Tool: name, Class: tools[name].class, Input: []byte(input), Outcome: []byte(answer)})
}
