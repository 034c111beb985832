package watchdogadk

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/model"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

// A planned call of a model was admitted, and is made with the messages in its request.
// One that the plugin has admitted is kept by its request and its place.
type planned struct {
	messages []string
	req      *model.LLMRequest
	place    place

	mu    sync.Mutex // the plugin ends a call that was cut off from another goroutine
	call  *adapter.ModelCall
	used  adapter.Usage
	ended bool
}

// plan admits a call, or takes over what the plugin has admitted. Again is why it is made again, nil if it is not.
func (g *Guard) plan(
	ctx context.Context, agent string, req *model.LLMRequest, again *watchdog.Directive,
) (*planned, error) {
	if p := g.takeOver(req); p != nil {
		return p, nil
	}
	return g.admit(ctx, agent, req, again)
}

func (g *Guard) admit(
	ctx context.Context, agent string, req *model.LLMRequest, again *watchdog.Directive,
) (*planned, error) {
	size := measured(req)
	size.Agent, size.Again = agent, again
	call, messages, err := g.calls.Model(ctx, size)
	if err != nil {
		return nil, err
	}
	return &planned{call: call, messages: messages}, nil
}

// request returns the request with the messages in it. The runner's own is not changed.
func (p *planned) request(req *model.LLMRequest) *model.LLMRequest {
	own := *req
	own.Contents = said(req.Contents, p.messages)
	return &own
}

// said returns the contents with the messages at their end: nothing before them changes, so that what a provider has
// cached of the prompt stays good.
func said(contents []*genai.Content, messages []string) []*genai.Content {
	contents = slices.Clip(contents)
	for _, m := range messages {
		contents = append(contents, genai.NewContentFromText(m, genai.RoleUser))
	}
	return contents
}

// alive tells of a response. The call counts what it used as soon as that is known: the tools that the response asks
// for, and agents that it transfers to, run before the model's stream has ended.
func (p *planned) alive(r *model.LLMResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r == nil {
		return
	}
	p.call.Alive()
	if u := r.UsageMetadata; u != nil {
		p.used.Input = max(p.used.Input, int64(u.PromptTokenCount)+int64(u.ToolUsePromptTokenCount))
		p.used.Output = max(p.used.Output, int64(u.CandidatesTokenCount)+int64(u.ThoughtsTokenCount))
	}
	if !r.Partial && (r.UsageMetadata != nil || calls(r.Content)) {
		p.settle(failure(r))
	}
}

// end ends the call; only the first end counts. A nil one has ended.
func (p *planned) end(err error) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(err)
}

// settle is end. The caller holds mu.
func (p *planned) settle(err error) {
	if p.ended {
		return
	}
	p.ended, p.used.Err, p.used.Retry = true, err, passes(err)
	p.call.End(p.used)
}

func calls(c *genai.Content) bool {
	return c != nil && slices.ContainsFunc(c.Parts, func(p *genai.Part) bool { return p != nil && p.FunctionCall != nil })
}

// failure is the error of a response that is none.
func failure(r *model.LLMResponse) error {
	if r.ErrorCode == "" || r.Content != nil && len(r.Content.Parts) > 0 {
		return nil
	}
	return errors.New("the model gave no answer")
}

// passes reports whether an error goes away by itself, such as too many requests.
func passes(err error) bool {
	var api genai.APIError
	return errors.As(err, &api) && (api.Code == http.StatusTooManyRequests || api.Code >= http.StatusInternalServerError)
}

// measured returns the size of a request. A byte is at least a token, also of data that is in the request; a file that
// it only names counts as nothing.
func measured(req *model.LLMRequest) adapter.ModelRequest {
	size := adapter.ModelRequest{Model: req.Model}
	for _, c := range req.Contents {
		measureContent(&size, c)
	}
	if cfg := req.Config; cfg != nil {
		size.MaxOutput = int64(cfg.MaxOutputTokens) * int64(max(cfg.CandidateCount, 1))
		measureContent(&size, cfg.SystemInstruction)
		for _, t := range cfg.Tools {
			size.Parts, size.Bytes = size.Parts+1, size.Bytes+len(text(t))
		}
		size.Bytes += len(text(cfg.ResponseSchema)) + len(text(cfg.ResponseJsonSchema))
	}
	return size
}

func measureContent(size *adapter.ModelRequest, c *genai.Content) {
	if c == nil {
		return
	}
	for _, p := range c.Parts {
		if p != nil {
			size.Parts, size.Bytes = size.Parts+1, size.Bytes+measurePart(p)
		}
	}
}

func measurePart(p *genai.Part) int {
	bytes := len(p.Text) + len(p.ThoughtSignature)
	if p.InlineData != nil {
		bytes += len(p.InlineData.Data)
	}
	if p.FunctionCall != nil {
		bytes += len(text(p.FunctionCall))
	}
	if p.FunctionResponse != nil {
		bytes += len(text(p.FunctionResponse))
	}
	if p.ExecutableCode != nil {
		bytes += len(p.ExecutableCode.Code)
	}
	if p.CodeExecutionResult != nil {
		bytes += len(p.CodeExecutionResult.Output)
	}
	return bytes
}
