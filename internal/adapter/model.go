package adapter

import (
	"context"
	"errors"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// A ModelRequest is what a call of a model sends, in numbers.
type ModelRequest struct {
	// Model is the model's name.
	Model string
	// Bytes are those of all text, Parts the number of messages and tools.
	Bytes, Parts int
	// Agent names the agent that makes the call if others may work in the run at the same time: what it repeats is found
	// by itself, and asked of it or ends it alone. Empty means that the run has one agent, or they take turns.
	Agent string
	// MaxOutput is the most tokens of the answer that the request allows, 0 for none.
	MaxOutput int64
	// Again is the directive that has just ended this call, see [watchdog.Watchdog.Try]; it is made again, and says so.
	// Nil for a call that is made the first time.
	Again *watchdog.Directive
}

// A ModelCall is one call of a model under way: each piece of the answer is told with Alive, and End ends it. On a nil
// ModelCall, which is one without a run, both do nothing. It is used by one goroutine at a time.
type ModelCall struct {
	guard    *Guard
	wd       *watchdog.Watchdog
	charge   watchdog.Charge
	model    string
	most     watchdog.Amount
	answered bool
}

// Model tells the run of ctx of the turn that has ended, and admits the next call of the model. Messages are what the
// run asks of the model by now, for it to read before it answers. The error is a [*watchdog.Refused] for a call that
// does not fit in a limit, or the cause of the run's end; then the call must not be made. A call whose refusal has the
// run asked to wrap up is admitted once more: it fits in the limit's reserve, and says so to the model.
func (g *Guard) Model(ctx context.Context, req ModelRequest) (_ *ModelCall, messages []string, err error) {
	wd := watchdog.FromContext(ctx)
	if wd == nil {
		return nil, nil, nil
	}
	wd.Activity()
	messages = g.Turn(ctx, wd, req.Agent)
	if stop := g.turn(wd, agentIn(ctx, req.Agent)).agent().Stop(); stop != nil {
		return nil, messages, stop
	}
	if req.Again != nil {
		soon, _ := messagesSoon(ctx, wd)
		messages = append(messages, soon...)
	}
	if req.Again != nil && !slices.Contains(messages, Text(*req.Again)) { // another call of the run has read it
		messages = append(messages, Text(*req.Again))
	}
	const perPart, envelope = 16, 1024 // as watchdoghttp counts what stands around the text
	most := watchdog.Amount{
		InputTokens: int64(req.Bytes) + int64(req.Parts)*perPart + envelope, OutputTokens: max(req.MaxOutput, 0),
		Requests: 1, Turns: 1,
	}
	if most.OutputTokens == 0 {
		most.OutputTokens = g.cfg.MaxOutput
	}
	if g.cfg.Cost != nil {
		most.Cost = g.cfg.Cost(req.Model, most)
	}
	charge, err := wd.Admit(ctx, "", most)
	if refused := (*watchdog.Refused)(nil); errors.As(err, &refused) {
		soon, wrapUp := afterRefusal(ctx, wd, refused)
		if messages = append(messages, soon...); wrapUp {
			charge, err = wd.Admit(ctx, "", most)
		}
	}
	messages = append(messages, Messages(wd)...) // also what was recorded meanwhile
	if err != nil {
		return nil, messages, err
	}
	return &ModelCall{guard: g, wd: wd, charge: charge, model: req.Model, most: most}, messages, nil
}

// Alive tells that a piece of the answer came.
func (c *ModelCall) Alive() {
	if c != nil {
		c.answered = true
		c.wd.Activity()
	}
}

// A Usage is how a call of a model ended.
type Usage struct {
	// Input and Output are the tokens that the answer says. Both are 0 where it says nothing: then what was admitted
	// counts, or nothing if the call failed before a piece of the answer came.
	Input, Output int64
	// Err is the call's error. Retry says that it is one of those that go away by themselves, such as 429 and 5xx.
	Err   error
	Retry bool
}

// End ends the call. Only the first End counts.
func (c *ModelCall) End(u Usage) {
	if c == nil {
		return
	}
	used := c.most // also if Cost panics
	defer func() { c.guard.settle(c.wd, c.charge, used) }()
	switch {
	case u.Input+u.Output > 0:
		said := watchdog.Amount{InputTokens: u.Input, OutputTokens: u.Output, Requests: 1, Turns: 1}
		if c.guard.cfg.Cost != nil {
			said.Cost = c.guard.cfg.Cost(c.model, said)
		}
		used = said
	case u.Err != nil && !c.answered:
		used = watchdog.Amount{Requests: 1, Turns: 1}
	}
	switch {
	case u.Err == nil:
		used.Result = watchdog.ResultOK
	case u.Retry:
		used.Result = watchdog.ResultRetry
	default:
		used.Result = watchdog.ResultError
	}
}
