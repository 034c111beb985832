package watchdogadk

import (
	"context"
	"log/slog"

	"google.golang.org/adk/v2/model"

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

// log is the logger for a call under ctx.
func (g *Guard) log(ctx context.Context) *slog.Logger {
	if g.logger != nil {
		return g.logger
	}
	if run := handle.Of(ctx); run != nil {
		return run.Settings().Logger
	}
	return slog.Default()
}
