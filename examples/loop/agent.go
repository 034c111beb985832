package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
)

// An agent asks the model, does what it wants, and asks again.
type agent struct {
	wd       *watchdog.Watchdog
	client   *http.Client
	url      string
	tools    toolbox
	steering *steering
	say      say

	turn, approach int
	directives     []watchdog.DirectiveKind // that were polled
}

// work runs the agent under its watchdog until it is done or stopped, and takes note of every directive.
func (a *agent) work() error {
	cancelled := make(chan struct{})
	defer a.wd.Subscribe(func(d watchdog.Directive) {
		a.steering.tell(d)
		if d.Kind == watchdog.DirectiveCancel {
			close(cancelled)
		}
	})()
	ctx := a.wd.Context()
	err := a.run(ctx)
	if _, fired := a.wd.Fired(); fired {
		<-cancelled // it comes a moment after the run's end
		_ = a.heed(ctx)
	}
	return err
}

// run is the loop. It returns nil when the model says that the work is done, and the run's [watchdog.Stop] when it was stopped.
func (a *agent) run(ctx context.Context) error {
	for a.turn = 1; ; {
		if err := a.heed(ctx); err != nil {
			return err
		}
		reply, err := a.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errDirected):
			continue
		case err != nil:
			return err
		case reply.kind == model.Final:
			return nil
		}
		if err := a.act(ctx, reply); err != nil {
			return err
		}
	}
}

// heed does what the watchdog asks for: at each boundary, until there is nothing.
func (a *agent) heed(ctx context.Context) error {
	for d, ok := a.wd.Poll(); ok; d, ok = a.wd.Poll() {
		a.steering.heeded(d)
		a.directives = append(a.directives, d.Kind)
		switch d.Kind {
		case watchdog.DirectiveRetry:
			a.say("%s: asking for turn %d again", d.Kind, a.turn)
		case watchdog.DirectiveUnstuck:
			a.approach++
			a.say("%s: trying approach %d", d.Kind, a.approach)
		}
	}
	return context.Cause(ctx)
}

// ask has the model reply, and ends the request when there is a directive to heed.
func (a *agent) ask(ctx context.Context) (reply, error) {
	ctx, done := a.steering.steer(ctx)
	defer done()
	watchdog.FromContext(ctx).Note(fmt.Sprintf("model: turn %d", a.turn))
	r, err := request(ctx, a.client, a.url, model.Request{Turn: a.turn, Approach: a.approach, Prompt: a.prompt()}, a.say)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return reply{}, cause
	}
	return r, err
}

// prompt is what the model is told: something else with each approach.
func (a *agent) prompt() string {
	if a.approach == 0 {
		return "Fix the bug."
	}
	return fmt.Sprintf("You do not get anywhere. Leave that and start from the error message. This is approach %d.", a.approach)
}

// act does what the model wants and goes on to the next turn.
func (a *agent) act(ctx context.Context, r reply) error {
	var err error
	switch r.kind {
	case model.Again:
		return nil
	case model.Tool:
		err = a.tools.call(ctx, r.text, a.say)
	case model.Ask:
		err = a.tools.approve(ctx, r.text, a.say)
	}
	a.turn++
	return err
}
