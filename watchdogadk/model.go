package watchdogadk

import (
	"context"
	"errors"
	"iter"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/model"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

// Model returns the model with each of its calls guarded: in the run of its context a call is admitted with the most
// that it can use, and counts what its answer says that it used; each response, also a part of one, is a sign of life;
// and what the run asks of the model is added to the request, at its end, as the words of the user. The session does
// not hold those words.
//
// A call whose context has ended, because the run did or for another reason, ends with an error that says so; after the
// guard's grace also if the model ignores its context. That is how a stream that stalls ends with the run's idle. If
// the run's ladder asks to do it again first (RETRY, UNSTUCK), the call is made once more, with those words in it,
// unless a part of its answer is in the session already; of partial responses none is.
//
// A call that does not fit in a limit of the run is not made: its error is a [*watchdog.Refused], unless the limit has
// a reserve. Out of that it is made, with the request to wrap up.
//
// A model for live sessions can be wrapped, too: those are not guarded.
//
// [*watchdog.Refused]: https://pkg.go.dev/github.com/seed62658d38/watchdog#Refused
func (g *Guard) Model(m model.LLM) model.LLM {
	switch m.(type) {
	case *guardedModel, *googleModel, *liveModel:
		return m
	}
	own := guardedModel{m, g}
	switch m := m.(type) {
	case live:
		return &liveModel{googleModel{own}, m}
	case google:
		return &googleModel{own}
	}
	return &own
}

// What the SDK asks of a model besides.
type (
	google interface{ GetGoogleLLMVariant() genai.Backend }
	live   interface{ Client() *genai.Client }
)

type guardedModel struct {
	model.LLM
	guard *Guard
}

// GenerateContent calls the model.
func (m *guardedModel) GenerateContent(
	ctx context.Context, req *model.LLMRequest, stream bool,
) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		a := attempts{
			ctx: m.guard.within(ctx), agent: agentOf(ctx), model: m, req: req, stream: stream, yield: yield,
		}
		m.guard.hear(a.ctx, ctx)
		for again := true; again; {
			again = a.once()
		}
	}
}

// A googleModel has a backend, on which the SDK's requests depend.
type googleModel struct{ guardedModel }

// GetGoogleLLMVariant returns the model's backend.
func (m *googleModel) GetGoogleLLMVariant() genai.Backend {
	if g, ok := m.LLM.(google); ok {
		return g.GetGoogleLLMVariant()
	}
	return genai.BackendUnspecified
}

// A liveModel can be asked for live sessions.
type liveModel struct {
	googleModel
	live
}

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

type modelEnd struct {
	err      error
	panicked any
}

// read makes the call and yields what it answers. A model that ignores its context leaves the goroutine behind.
func (a *attempts) read(p *planned) (modelEnd, bool) {
	req := p.request(a.req)
	return stream(a.ctx, func(ctx context.Context, to *pipe[*model.LLMResponse]) modelEnd {
		return a.call(ctx, req, to)
	}, func(r *model.LLMResponse) bool {
		p.alive(r)
		a.kept = a.kept || !r.Partial
		return a.yield(r, nil)
	})
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
