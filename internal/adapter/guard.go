package adapter

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/loop"
)

// DefaultGrace is how long a tool has to return after its limit, where nothing else is set.
const DefaultGrace = 10 * time.Second

// Limits bound one call of a tool.
type Limits struct {
	// Limit is how long a call may take, in real time; then its context ends. Zero means [bound.DefaultTick], half an
	// hour; [watchdog.NoLimit] means no limit.
	Limit time.Duration
	// Idle is how long a call may give no sign of life: its context's run has the signs, and an answer that streams gives
	// one with each piece. Zero and [watchdog.NoLimit] mean no limit.
	Idle time.Duration
	// Grace is how long a call has to return once its context has ended; then it is abandoned, and the model is answered
	// without it. Zero means [DefaultGrace]. That of Tools in a [Config] is also the grace of a call of a model.
	Grace time.Duration
}

// Config says how the calls of an agent are guarded. The zero value bounds every tool by half an hour and counts.
type Config struct {
	// Tools bounds every tool but those that Tool names.
	Tools Limits
	// Tool has the limits of single tools by name. A field that is zero there is that of Tools.
	Tool map[string]Limits
	// Class returns what a tool does, for the detector of loops. Nil, and an unknown class, mean that it is not known. It
	// is called when a call has ended, on its goroutine: it must be quick, and a panic of it is one of the call.
	Class func(tool string) loop.Class
	// MaxOutput is the most tokens of an answer of the model where its request names none. Zero means that such a call is
	// admitted without its output, which counts when it is known.
	MaxOutput int64
	// Cost returns what a call of a model may cost at most, or has cost. Nil counts no cost. As with Class it must be
	// quick; if it panics when a call has ended, that has cost the most that it could.
	Cost func(model string, used watchdog.Amount) watchdog.Money
	// Logger gets what no caller is returned. Nil means that of the run, or [slog.Default].
	Logger *slog.Logger
}

// A Guard guards the calls of one or more agents. It is safe for concurrent use.
type Guard struct {
	cfg   Config
	calls atomic.Uint64 // makes the names of layers
	seed  maphash.Seed  // of the digests of what is said

	mu    sync.Mutex
	turns map[*watchdog.Watchdog]*turns
	heard [1024]uint64 // digests of what was said lately, and of its runs and invocations
	next  int
}

// New returns a guard. It keeps nothing of a run that has ended.
func New(cfg Config) *Guard {
	return &Guard{cfg: cfg, seed: maphash.MakeSeed(), turns: map[*watchdog.Watchdog]*turns{}}
}

func (g *Guard) limits(tool string) Limits {
	own, all := g.cfg.Tool[tool], g.cfg.Tools
	return Limits{
		Limit: cmp.Or(own.Limit, all.Limit, bound.DefaultTick), Idle: cmp.Or(own.Idle, all.Idle),
		Grace: cmp.Or(own.Grace, all.Grace, DefaultGrace),
	}
}

// settle settles a charge, and tells the log what could not be charged: no caller is returned that.
func (g *Guard) settle(wd *watchdog.Watchdog, charge watchdog.Charge, used watchdog.Amount) {
	err := charge.Settle(used)
	if err == nil {
		return
	}
	defer func() { _ = recover() }() // there is nobody to tell of the log's own panic
	log := cmp.Or(g.cfg.Logger, handle.LoggerOf(wd.Context()))
	log.Error("what a call used is not charged as it was used", "run", wd.ID(), "error", err)
}

// TurnIfIdle tells a run of the turn that has ended, for an adapter that sees no calls of a model: calls that overlap
// are a turn. It does nothing while a call of the run is under way, unless the turn is long, and on a nil run.
func (g *Guard) TurnIfIdle(wd *watchdog.Watchdog) loop.Advice {
	t := g.turn(wd, "")
	if wd == nil || !t.over() {
		return loop.Go
	}
	return t.tell()
}

// Turn tells a run of the turn that has ended, of an agent as in a [ModelRequest], and returns what the run asks of the
// model by now.
func (g *Guard) Turn(ctx context.Context, wd *watchdog.Watchdog, agent string) []string {
	t := g.turn(wd, agentIn(ctx, agent))
	turn, apart := t.tell(), t.agent()
	if apart == nil {
		return MessagesAfter(ctx, wd, turn)
	}
	return append(MessagesAfter(ctx, apart, turn), Messages(wd)...)
}

// Attempt makes one call of a model that [Guard.Model] has admitted. The work's context ends with ctx, with the run of
// ctx, and when the run asks for it to be done again or in another way; once it has ended, the work has the grace of
// the guard's Tools to return, and is then abandoned: its result and its panic are dropped.
//
// The error is the work's, with why its context has ended. A [*watchdog.Directive] in it says that the call should be
// made again if nothing of its answer was used, with [ModelRequest].Again. A panic of the work passes through as a
// [*bound.CallPanic].
func Attempt[T any](ctx context.Context, g *Guard, work func(context.Context) (T, error)) (result T, err error) {
	var panicked *bounded.PanicError
	err = watchdog.FromContext(ctx).Try(ctx, func(ctx context.Context) error {
		wait, stop := later(ctx, g.limits("").Grace)
		defer stop()
		var failed error
		result, failed = bounded.Do(wait, func() (T, error) { return work(ctx) })
		errors.As(failed, &panicked)
		return failed
	})
	if panicked != nil {
		panic(&bound.CallPanic{Value: panicked.Value, Stack: panicked.Stack})
	}
	return result, err
}

// later returns a context that ends the grace after ctx has, for its cause.
func later(ctx context.Context, grace time.Duration) (_ context.Context, stop func()) {
	wait, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, func() {
		alarm := time.NewTimer(grace)
		defer alarm.Stop()
		select {
		case <-alarm.C:
			end(context.Cause(ctx))
		case <-wait.Done():
		}
	})
	return wait, func() {
		unlink()
		end(nil)
	}
}
