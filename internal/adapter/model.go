package adapter

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

// A ModelRequest is what a call of a model sends, in numbers.
type ModelRequest struct {
	// Model is the model's name.
	Model string
	// Bytes are those of all text, Parts the number of messages and tools.
	Bytes, Parts int
	// MaxOutput is the most tokens of the answer that the request allows, 0 for none.
	MaxOutput int64
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
// does not fit in a limit, or the cause of the run's end; then the call must not be made.
func (g *Guard) Model(ctx context.Context, req ModelRequest) (_ *ModelCall, messages []string, err error) {
	wd := watchdog.FromContext(ctx)
	if wd == nil {
		return nil, nil, nil
	}
	wd.Activity()
	messages = MessagesAfter(ctx, wd, g.Turn(wd))
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
	used := watchdog.Amount{InputTokens: u.Input, OutputTokens: u.Output, Requests: 1, Turns: 1}
	switch {
	case u.Input+u.Output > 0:
		if c.guard.cfg.Cost != nil {
			used.Cost = c.guard.cfg.Cost(c.model, used)
		}
	case u.Err == nil || c.answered:
		used = c.most
	}
	switch {
	case u.Err == nil:
		used.Result = watchdog.ResultOK
	case u.Retry:
		used.Result = watchdog.ResultRetry
	default:
		used.Result = watchdog.ResultError
	}
	_ = c.charge.Settle(used)
}

// Messages takes the directives that the run has pending and returns what they say to the model.
func Messages(wd *watchdog.Watchdog) (messages []string) {
	for d := range wd.Pending() {
		if text := Text(d); text != "" {
			messages = append(messages, text)
		}
	}
	return messages
}

// MessagesAfter is Messages after a turn. If that asks the run to leave a loop, or ends it in one, it waits for that,
// which comes once its record was tried, because the model should read it before it does the same again.
func MessagesAfter(ctx context.Context, wd *watchdog.Watchdog, turn loop.Advice) []string {
	if turn == loop.Go {
		return Messages(wd)
	}
	return messagesSoon(ctx, wd)
}

func messagesSoon(ctx context.Context, wd *watchdog.Watchdog) (messages []string) {
	ctx, cancel := context.WithTimeout(ctx, watchdog.DefaultRecordTimeout)
	defer cancel()
	defer wd.Subscribe(func(watchdog.Directive) { cancel() })()
	if messages = Messages(wd); len(messages) > 0 {
		return messages
	}
	select {
	case <-ctx.Done():
	case <-wd.Context().Done():
	}
	return Messages(wd)
}

// Text is what a directive says to the model, empty for one that asks nothing of it.
func Text(d watchdog.Directive) string {
	switch d.Kind {
	case watchdog.DirectiveRetry:
		return "The last step took too long or was cut off (" + string(d.Reason) + "). Do it again, in smaller parts."
	case watchdog.DirectiveUnstuck:
		if d.Reason == watchdog.LoopDetected {
			return "You repeat the same calls and get the same answers. Stop that: say what you know, " +
				"find out why it does not get further, and do something else."
		}
		return "You have not got further for a while (" + string(d.Reason) + "). Leave that and try another way."
	case watchdog.DirectiveWrapUp:
		return fmt.Sprintf("Only little is left of what this run may use (%s). Call no more tools: "+
			"say now what is done, what is not, and how to go on.", d.Reason)
	}
	return ""
}
