package watchdogadk

import (
	"context"
	"iter"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/model"
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
