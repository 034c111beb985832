package watchdogadk

import (
	"context"
	"errors"
	"iter"
	"slices"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/model"

	"github.com/seed62658d38/watchdog"
)

// Model returns the model with each of its calls guarded: each response, also a part of one, is a sign of life, and
// what the run asks of the model is the last text of the user in the request. The session does not have it.
//
// A stream that stalls ends with the run's idle. If the run's ladder says RETRY or UNSTUCK first, the call is made once
// more with those words, unless a response came that is not partial. In a run that has ended no call is made; the error
// wraps the watchdog's Stop. A model that ignores its context is waited for.
func (g *Guard) Model(m model.LLM) model.LLM { return &guardedModel{m, g} }

type guardedModel struct {
	model.LLM
	guard *Guard
}

// GetGoogleLLMVariant returns the model's backend, on which the SDK's requests depend.
func (m *guardedModel) GetGoogleLLMVariant() genai.Backend {
	if g, ok := m.LLM.(interface{ GetGoogleLLMVariant() genai.Backend }); ok {
		return g.GetGoogleLLMVariant()
	}
	return genai.BackendUnspecified
}

// GenerateContent calls the model.
func (m *guardedModel) GenerateContent(
	ctx context.Context, req *model.LLMRequest, stream bool,
) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		wd, own := watchdog.FromContext(ctx), *req
		for again := (*watchdog.Directive)(nil); ; {
			own.Contents = slices.Clip(own.Contents)
			for _, text := range m.guard.words(wd, again) {
				own.Contents = append(own.Contents, genai.NewContentFromText(text, genai.RoleUser))
			}
			answered := false // the session has a response
			wd.Activity()
			err := wd.Try(ctx, func(ctx context.Context) error {
				for r, err := range m.LLM.GenerateContent(ctx, &own, stream) {
					if err != nil {
						return err
					}
					wd.Activity()
					answered = answered || !r.Partial
					if !yield(r, nil) {
						return nil
					}
				}
				return context.Cause(ctx) // a model that is cut off may say nothing of it
			})
			switch asked := errors.As(err, &again) && ctx.Err() == nil; {
			case asked && !answered:
				continue
			case err != nil && !asked: // else the directive has ended nothing
				yield(nil, err)
			}
			return
		}
	}
}
