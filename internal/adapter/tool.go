package adapter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/loop"
)

// A ToolCall is one call of a tool.
type ToolCall struct {
	// Tool is the name of the tool.
	Tool string
	// Input is what the model sends it, as JSON or text.
	Input []byte
	// Agent names the agent whose model asked for the call, as in a [ModelRequest].
	Agent string
	// Paused reports whether an error of the work says that the call waits for somebody and is made again later, such as
	// an interrupt. That is no error of the tool and no step, and counts as no call. Nil means that none does.
	Paused func(error) bool
	// Remote says that the tool runs elsewhere, such as on a server: the end of its context asks it to stop, and nobody
	// learns whether it has.
	Remote bool
}

// Do makes one call of a tool: in the run of ctx it opens a hold and a layer, counts as a call of the tool, and is a
// step of the loop detector at the next call of the model. The work's context ends at the call's limits, and with ctx
// and the run, with why as its cause.
//
// If the call was ended by its own limits, or refused because it does not fit in a limit of the run, ended says what
// the model is to be told, and err is nil: the agent goes on. Otherwise err is the work's, or why the run or ctx has
// ended. Text returns what came back, for the detector of loops; it may be nil. A panic of the work passes through,
// unless the call was abandoned.
func Do[T any](
	ctx context.Context, g *Guard, call ToolCall, work func(context.Context) (T, error), text func(T) []byte,
) (result T, ended *Ended, err error) {
	wd := watchdog.FromContext(ctx)
	charge, err := wd.Admit(ctx, "", watchdog.Amount{ToolCalls: 1, Tool: call.Tool})
	if err != nil {
		if refused := (*watchdog.Refused)(nil); errors.As(err, &refused) {
			ended = &Ended{tool: call.Tool, refused: refused}
			g.turn(wd, agentIn(ctx, call.Agent)).add(g.step(call, []byte(ended.Text()), false, true))
			err = nil
		}
		return result, ended, err
	}
	used := watchdog.Amount{ToolCalls: 1, Tool: call.Tool, Result: watchdog.ResultError}
	defer func() { g.settle(wd, charge, used) }() // also after a panic
	turn := g.turn(wd, agentIn(ctx, call.Agent))
	turn.count(1)
	defer turn.count(-1)
	result, ended, err = within(ctx, g, wd, call, work)
	switch {
	case ended != nil:
		turn.add(g.step(call, []byte(ended.Text()), true, false))
	case err != nil && call.Paused != nil && call.Paused(err):
		_ = charge.Void()
	case err != nil:
		turn.add(g.step(call, []byte(err.Error()), true, false))
	default:
		used.Result = watchdog.ResultOK
		var outcome []byte
		if text != nil {
			outcome = text(result)
		}
		turn.add(g.step(call, outcome, false, false))
	}
	return result, ended, err
}

func (g *Guard) step(call ToolCall, outcome []byte, failed, refused bool) loop.Step {
	s := loop.Step{Tool: call.Tool, Input: call.Input, Outcome: outcome, Failed: failed, Refused: refused}
	if g.cfg.Class != nil {
		s.Class = g.cfg.Class(call.Tool)
	}
	return s
}

func within[T any](
	ctx context.Context, g *Guard, wd *watchdog.Watchdog, call ToolCall, work func(context.Context) (T, error),
) (result T, ended *Ended, err error) {
	limits := g.limits(call.Tool)
	bounded := bound.Call{Limit: limits.Limit, Grace: limits.Grace, Logger: g.cfg.Logger}
	p, err := g.open(wd, call.Tool, limits)
	if err != nil {
		return result, nil, err
	}
	defer p.close()
	inside := ctx
	if p.layer != nil {
		inside = handle.Of(p.layer.Context()).Within(context.WithValue(ctx, toolKey{}, true))
	}
	out := bound.Do(inside, bounded, work)
	if !out.Overran() && p.layer.Stop() == nil {
		return out.Result, nil, because(ctx, nil, out.Err)
	}
	if _, fired := wd.Fired(); fired || ctx.Err() != nil { // perhaps at the same instant
		return out.Result, nil, because(ctx, wd.Stop(), out.Err)
	}
	ended = &Ended{
		tool: call.Tool, limits: limits, stop: p.layer.Stop(), abandoned: out.Abandoned, remote: call.Remote,
	}
	return result, ended, nil
}

// because adds to the error of a call why its context or its run has ended.
func because(ctx context.Context, stop *watchdog.Stop, err error) error {
	cause := context.Cause(ctx)
	if stop != nil {
		cause = stop
	}
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// A part is what a run has open for a call. Both fields are nil without a run, the layer also where its run ID would be
// too long: the call is bounded all the same.
type part struct {
	hold  *watchdog.Hold
	layer *watchdog.Watchdog
}

func (g *Guard) open(wd *watchdog.Watchdog, tool string, l Limits) (p part, err error) {
	if wd == nil {
		return p, nil
	}
	var name string
	if p.hold, name, err = g.hold(wd, tool); err != nil {
		return p, err
	}
	p.layer, err = wd.Layer(name, watchdog.Budget{WallClock: l.Limit, WarnAt: []float64{}, Idle: l.Idle})
	if errors.Is(err, watchdog.ErrInvalid) && l.Idle >= 0 {
		return p, nil
	}
	if err != nil {
		p.close()
	}
	return p, err
}

// hold opens a hold under a name that nobody else has, such as another guard with a tool of that name. It is open until
// the call has ended, and through its grace: it is no silence of the run. So it does not end with the call's context.
func (g *Guard) hold(wd *watchdog.Watchdog, tool string) (h *watchdog.Hold, name string, err error) {
	for {
		name = g.name(tool)
		h, err = wd.Hold(context.Background(), name, watchdog.HoldLimit{Cap: watchdog.NoLimit})
		if !errors.Is(err, watchdog.ErrHeld) {
			return h, name, err
		}
	}
}

func (g *Guard) name(tool string) string {
	var digits [20]byte
	return plain(tool) + "-" + string(strconv.AppendUint(digits[:0], g.calls.Add(1), 10))
}

func (p part) close() {
	_ = p.layer.Close()
	p.hold.Close()
}

// plain returns a tool's name as part of a run ID.
func plain(tool string) string {
	const most = 64
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == utf8.RuneError || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, tool)
	return strings.ToValidUTF8(name[:min(len(name), most)], "")
}

// An Ended says why a call of a tool was ended, or not made.
type Ended struct {
	tool      string
	limits    Limits
	stop      *watchdog.Stop
	abandoned bool
	remote    bool
	refused   *watchdog.Refused
}

// Abandoned reports whether the tool had not returned when it was answered for: it may still run.
func (e *Ended) Abandoned() bool { return e.abandoned }

// Refused returns why the call was not made, nil if it was.
func (e *Ended) Refused() *watchdog.Refused { return e.refused }

// Text is what the model is told: what happened, and what it can do. It is the same for the same limit, and holds
// nothing of the call.
func (e *Ended) Text() string {
	if e.refused != nil {
		return fmt.Sprintf("The call of the tool %q was not made: %v. Go on without it.", e.tool, e.refused)
	}
	why := fmt.Sprintf("it did not finish within its limit of %v", e.limits.Limit)
	switch {
	case e.stop == nil:
	case e.stop.Code == watchdog.IdleExceeded:
		why = fmt.Sprintf("it gave no sign of life for its limit of %v", e.limits.Idle)
	case e.stop.Budget < e.limits.Limit:
		why = "the time of the run is nearly used up"
	}
	still := "Parts of it may have been done."
	switch {
	case e.abandoned:
		still = "It did not stop when it was told to and may still be running."
	case e.remote:
		still = "It was told to stop, but may still be running."
	}
	return fmt.Sprintf("The call of the tool %q was ended: %s. %s Look at what is there before you call it again, "+
		"and then with less to do or in another way.", e.tool, why, still)
}
