// Tick runs two ticks, and the call of the first one does not return in time. It shows what [bound.Do] does for
// work that may ignore its context: the caller gets its answer after the limit and the grace, the next tick runs under
// the same key, and the abandoned call is listed until it ends.
//
//	go run ./examples/tick                     a call that ignores its context and ends late
//	go run ./examples/tick -call obeys         a call that returns when its context ends
//	go run ./examples/tick -call finishes      a call that returns in time
//	go run ./examples/tick -call panics        a call that panics after it was abandoned
//
// The limits are fractions of a second, short enough to watch; real ones are minutes.
//
// It exits with 0 when every tick got an answer, with 1 after an interrupt and with 2 for a wrong command line. It does
// not stop the abandoned call: nothing can.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/examples/internal/help"
)

// options are the parsed command line.
type options struct {
	call         string
	limit, grace time.Duration
	late         time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is main without os.Exit.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprint(stdout, usage())
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "tick: %v\ntick -h lists the flags\n", err)
		return 2
	}
	(&loop{ctx: ctx, opts: opts, out: stdout}).tickTwice()
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(stderr, "tick: interrupted; the abandoned call ends with the program, and nothing is kept: "+
			"run it again")
		return 1
	}
	return 0
}

func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("tick", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.call, "call", "ignores", "what the first call does, `WHAT`: ignores, obeys, finishes or panics")
	flags.DurationVar(&o.limit, "limit", 500*time.Millisecond, "how long a tick may take")
	flags.DurationVar(&o.grace, "grace", 300*time.Millisecond, "how long it may take to return after that")
	flags.DurationVar(&o.late, "late", 2*time.Second, "how long the first call really takes")
	return flags
}

// usage returns the help text.
func usage() string {
	var o options
	return help.Text{
		What:   "Tick runs two ticks, and the call of the first one does not return in time.",
		Uses:   []help.Use{{Line: "tick [FLAGS]", Flags: o.flags()}},
		Status: "0 every tick got an answer, 1 interrupted, 2 wrong command line.",
	}.String()
}

func parse(args []string) (opts options, err error) {
	flags := opts.flags()
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q; use flags only", flags.Arg(0))
	}
	if calls[opts.call] == nil {
		return opts, fmt.Errorf("-call %q: use ignores, obeys, finishes or panics", opts.call)
	}
	if opts.limit <= 0 || opts.grace <= 0 || opts.late <= 0 {
		return opts, fmt.Errorf("-limit %v, -grace %v, -late %v: use positive durations", opts.limit, opts.grace, opts.late)
	}
	return opts, nil
}

// calls are the choices for the first tick's call.
var calls = map[string]func(ctx context.Context, late time.Duration) (string, error){
	"ignores": func(ctx context.Context, late time.Duration) (string, error) {
		bound.Note(ctx, "fetch the page") // what it did last stands in the error and in the list
		time.Sleep(late)
		return "too late", nil
	},
	"obeys": func(ctx context.Context, _ time.Duration) (string, error) {
		<-ctx.Done()
		return "partial", context.Cause(ctx)
	},
	"finishes": func(context.Context, time.Duration) (string, error) { return "done", nil },
	"panics": func(ctx context.Context, late time.Duration) (string, error) {
		bound.Note(ctx, "fetch the page")
		time.Sleep(late)
		panic("after the caller left")
	},
}

// loop is the host. All ticks have one key: two overlap only if the first was abandoned.
type loop struct {
	ctx   context.Context //nolint:containedctx // of the program
	opts  options
	out   io.Writer
	calls bound.Calls
}

func (l *loop) tickTwice() {
	l.tick("first", calls[l.opts.call])
	l.list()
	l.tick("second", calls["finishes"])
	for len(l.calls.Abandoned()) > 0 && l.ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	for _, end := range l.calls.LateEnds() {
		l.say("the abandoned call ended %v after its caller left%s\n",
			end.EndedAt.Sub(end.AbandonedAt).Round(100*time.Millisecond), how(end))
	}
}

// tick makes one bounded call and prints its outcome.
func (l *loop) tick(name string, work func(context.Context, time.Duration) (string, error)) {
	out := bound.Do(l.ctx, bound.Call{
		Key: "tick", Limit: l.opts.limit, Grace: l.opts.grace, Calls: &l.calls,
		Release: func() { l.say("  released what the call held\n") },
	}, func(ctx context.Context) (string, error) { return work(ctx, l.opts.late) })
	l.say("%s tick: layer %s after %v, result %q, overran %v\n",
		name, out.Layer, out.Elapsed.Round(100*time.Millisecond), out.Result, out.Overran())
	if out.Err != nil {
		l.say("  %v\n", out.Err)
	}
}

// say ignores write errors: they must not end a tick.
func (l *loop) say(format string, args ...any) { _, _ = fmt.Fprintf(l.out, format, args...) }

func (l *loop) list() {
	for _, call := range l.calls.Abandoned() {
		l.say("abandoned: %s, since %s, in: %s\n", call.Key, call.AbandonedAt.Format(time.TimeOnly), call.Note)
	}
}

func how(end bound.LateEnd) string {
	if end.Panic == nil {
		return "; its result was dropped"
	}
	return fmt.Sprintf("; its panic was dropped: %v", end.Panic.Value)
}
