package watchdogadk

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"

	"github.com/seed62658d38/watchdog/internal/adapter"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// DefaultGrace is how long a tool or a model has to return once its context has ended, where nothing else is set.
const DefaultGrace = adapter.DefaultGrace

// Config says how the calls of agents are guarded. The zero value bounds each call of a tool by half an hour, and
// counts.
type Config = adapter.Config

// Limits bound one call of a tool.
type Limits = adapter.Limits

// A Guard guards the calls of one or more agents: wrap the tools and models of all agents that work together with one
// Guard, so that parallel calls are known to be one turn. It keeps nothing of a run that has ended. It is safe for
// concurrent use.
type Guard struct {
	calls  *adapter.Guard
	logger *slog.Logger

	handedOver
	invocations
}

// New returns a guard.
func New(cfg Config) *Guard {
	return &Guard{
		calls: adapter.New(cfg), logger: cfg.Logger,
		handedOver:  handedOver{requests: map[*model.LLMRequest]*planned{}, places: map[place]*planned{}},
		invocations: invocations{byID: map[string]*invocation{}},
	}
}

func (g *Guard) log(ctx context.Context) *slog.Logger { return cmp.Or(g.logger, handle.LoggerOf(ctx)) }

// agentOf names the agent of a call if others may work beside it: those of parallel agents have branches.
func agentOf(ctx context.Context) string {
	if c, ok := ctx.(interface{ Branch() string }); ok {
		return c.Branch()
	}
	return ""
}

// hear tells the run of work of what the person said to whom the call of a model with the SDK's context answers.
func (g *Guard) hear(work, sdk context.Context) {
	c, ok := sdk.(interface {
		UserContent() *genai.Content
		InvocationID() string
	})
	if !ok {
		return
	}
	g.calls.Said(work, adapter.Said{
		Session: sessionOf(sdk), Invocation: c.InvocationID(), Words: func() string { return typed(c.UserContent()) },
	})
}

// sessionOf returns the ID of a context's session. A context of a callback has the ID, and no session.
func sessionOf(ctx context.Context) string {
	switch c := ctx.(type) {
	case interface{ SessionID() string }:
		return c.SessionID()
	case interface{ Session() session.Session }:
		if s := c.Session(); s != nil {
			return s.ID()
		}
	}
	return ""
}

// typed is what a person has typed or added. An answer of a function is none.
func typed(content *genai.Content) string {
	if content == nil {
		return ""
	}
	var all strings.Builder
	for _, p := range content.Parts {
		if p == nil {
			continue
		}
		all.WriteString(p.Text)
		if p.InlineData != nil {
			all.Write(p.InlineData.Data)
		}
		if p.FileData != nil {
			all.WriteString(p.FileData.FileURI)
		}
	}
	return all.String()
}
