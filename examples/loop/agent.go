package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
)

// An agent asks the model, does what the reply asks for, and repeats.
type agent struct {
	wd       *watchdog.Watchdog
	client   *http.Client
	url      string
	tools    toolbox
	steering *steering
	say      say

	turn, approach int
	directives     []watchdog.DirectiveKind // the polled ones
}

// work runs the agent under its watchdog until it finishes or is stopped, and records every directive.
func (a *agent) work() error {
	cancelled := make(chan struct{})
	defer a.wd.Subscribe(func(d watchdog.Directive) {
		a.steering.notify(d)
		if d.Kind == watchdog.DirectiveCancel {
			close(cancelled)
		}
	})()
	ctx := a.wd.Context()
	err := a.run(ctx)
	if _, fired := a.wd.Fired(); fired {
		<-cancelled // the directive comes shortly after the run's end
		_ = a.handleDirectives(ctx)
	}
	return err
}

// run is the loop. It returns nil when the model is done, and the run's [watchdog.Stop] when the run was stopped.
func (a *agent) run(ctx context.Context) error {
	for a.turn = 1; ; {
		if err := a.handleDirectives(ctx); err != nil {
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

// handleDirectives polls all directives and acts on them. The loop calls it at each boundary.
func (a *agent) handleDirectives(ctx context.Context) error {
	for d, ok := a.wd.Poll(); ok; d, ok = a.wd.Poll() {
		a.steering.polled(d)
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

// ask sends a request to the model. A directive ends the request.
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

// prompt returns the prompt, another one for each approach.
func (a *agent) prompt() string {
	if a.approach == 0 {
		return "Fix the bug."
	}
	return fmt.Sprintf("You do not get anywhere. Leave that and start from the error message. This is approach %d.",
		a.approach)
}

// act does what the reply asks for and goes on to the next turn.
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
