package watchdogadk

import (
	"context"
	"errors"

	"google.golang.org/adk/v2/model"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

// attempts are one call of a guarded model, which is made again if the run asks for that.
type attempts struct {
	ctx    context.Context
	agent  string
	model  *guardedModel
	req    *model.LLMRequest
	stream bool
	yield  func(*model.LLMResponse, error) bool

	kept  bool                // a response that is not partial was yielded: the session has it
	asked *watchdog.Directive // why the call is made again
}

// once makes the call and reports whether it is to be made again.
func (a *attempts) once() (again bool) {
	p, err := a.model.guard.plan(a.ctx, a.agent, a.req, a.asked)
	if err != nil {
		a.yield(nil, err)
		return false
	}
	defer p.end(nil) // of a reader that left, or panicked
	end, readAll := a.read(p)
	if !readAll {
		return false
	}
	if end.panicked != nil {
		p.end(errors.New("the model panicked"))
		panic(end.panicked)
	}
	p.end(end.err)
	asked := errors.As(end.err, &a.asked)
	if end.err != nil && !asked {
		a.yield(nil, a.outward(end.err))
	}
	return asked && !a.kept // else the directive ended nothing: the answer was there before
}

// outward returns an error for the runner. While its context goes on, the SDK drops one that is [context.Canceled] and
// ends the turn without a word: then the run of the invocation has ended, and why is the error.
func (a *attempts) outward(err error) error {
	ended := context.Cause(watchdog.FromContext(a.ctx).Context())
	if ended != nil && a.ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return ended
	}
	return err
}

// A modelEnd is how one attempt ended.
type modelEnd struct {
	err      error
	panicked any
}

// read makes the call on a goroutine of its own, which is left behind with a model that ignores its context, and yields
// what it answers.
func (a *attempts) read(p *planned) (modelEnd, bool) {
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	responses, ends := newPipe[*model.LLMResponse](), make(chan modelEnd, 1)
	go func() { ends <- a.call(ctx, p.request(a.req), responses) }()
	end, readAll := read(responses, ends, func(r *model.LLMResponse) bool {
		p.alive(r)
		a.kept = a.kept || !r.Partial
		return a.yield(r, nil)
	})
	if !readAll {
		stop()
		<-ends
	}
	return end, readAll
}

func (a *attempts) call(ctx context.Context, req *model.LLMRequest, to *pipe[*model.LLMResponse]) (end modelEnd) {
	defer func() {
		if r := recover(); r != nil {
			end.panicked = r
		}
	}()
	_, end.err = adapter.Attempt(ctx, a.model.guard.calls, func(ctx context.Context) (none struct{}, _ error) {
		return none, a.responses(ctx, req, to)
	})
	return end
}

// responses hands over what the model answers.
func (a *attempts) responses(ctx context.Context, req *model.LLMRequest, to *pipe[*model.LLMResponse]) error {
	for r, err := range a.model.LLM.GenerateContent(ctx, req, a.stream) {
		if err != nil {
			return err
		}
		if !to.send(ctx, r) {
			break
		}
	}
	return context.Cause(ctx) // a model that is cut off may say nothing of it
}
