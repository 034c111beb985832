// Tick is a loop of ticks, one of whose calls does not come back: what [bound.Do] does for a host whose work may ignore its
// context. The tick's caller has its answer when the limit and the grace are over, the next tick runs under the same key, and the call that was
// abandoned is listed until it ends.
//
//	go run ./examples/tick                     a call that ignores its context, and ends late
//	go run ./examples/tick -call heeds         one that returns when its context ends
//	go run ./examples/tick -call finishes      one that is done in time
//	go run ./examples/tick -call panics        one that panics after it was abandoned
//
// The limits are fractions of a second, so that it can be watched; real ones are minutes.
//
// It exits with 0 when every tick was answered, and with 2 for a command line that cannot be meant. It does not stop
// the abandoned call: nothing can.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed62658d38/watchdog/bound"
)

// options are the command line.
type options struct {
	call         string
	limit, grace time.Duration
	late         time.Duration
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program, less what ends the process.
func run(args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	(&loop{opts: opts, out: stdout}).tickTwice()
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("tick", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.call, "call", "ignores", "what the first call does: ignores, heeds, finishes or panics")
	flags.DurationVar(&opts.limit, "limit", 500*time.Millisecond, "how long a tick may take")
	flags.DurationVar(&opts.grace, "grace", 300*time.Millisecond, "how long it has to return after that")
	flags.DurationVar(&opts.late, "late", 2*time.Second, "how long the first call really takes")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if calls[opts.call] == nil {
		return opts, fmt.Errorf("-call %q: use ignores, heeds, finishes or panics", opts.call)
	}
	if opts.limit <= 0 || opts.grace <= 0 || opts.late <= 0 {
		return opts, fmt.Errorf("-limit %v, -grace %v, -late %v: use positive durations", opts.limit, opts.grace, opts.late)
	}
	return opts, nil
}

// calls are what the first tick may do. Each returns what it found.
var calls = map[string]func(ctx context.Context, late time.Duration) (string, error){
	"ignores": func(_ context.Context, late time.Duration) (string, error) {
		time.Sleep(late)
		return "too late", nil
	},
	"heeds": func(ctx context.Context, _ time.Duration) (string, error) {
		<-ctx.Done()
		return "partial", context.Cause(ctx)
	},
	"finishes": func(context.Context, time.Duration) (string, error) { return "done", nil },
	"panics": func(_ context.Context, late time.Duration) (string, error) {
		time.Sleep(late)
		panic("after everybody left")
	},
}

// loop is the host: it ticks under one key, so that two ticks never overlap unless one was abandoned.
type loop struct {
	opts  options
	out   io.Writer
	calls bound.Calls
}

func (l *loop) tickTwice() {
	l.tick("first", calls[l.opts.call])
	l.list()
	l.tick("second", calls["finishes"])
	for len(l.calls.Abandoned()) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	for _, end := range l.calls.LateEnds() {
		l.say("the abandoned call ended %v after its caller had left%s\n",
			end.EndedAt.Sub(end.AbandonedAt).Round(100*time.Millisecond), how(end))
	}
}

// tick makes one bounded call and says what became of it.
func (l *loop) tick(name string, work func(context.Context, time.Duration) (string, error)) {
	out := bound.Do(context.Background(), bound.Call{
		Key: "tick", Limit: l.opts.limit, Grace: l.opts.grace, Calls: &l.calls,
		Release: func() { l.say("  released what the call held\n") },
	}, func(ctx context.Context) (string, error) { return work(ctx, l.opts.late) })
	l.say("%s tick: layer %s after %v, result %q, overran %v\n",
		name, out.Layer, out.Elapsed.Round(100*time.Millisecond), out.Result, out.Overran())
	if out.Err != nil {
		l.say("  %v\n", out.Err)
	}
}

// say prints; a reader that has gone changes nothing about the ticks.
func (l *loop) say(format string, args ...any) { _, _ = fmt.Fprintf(l.out, format, args...) }

func (l *loop) list() {
	for _, call := range l.calls.Abandoned() {
		l.say("abandoned: %s, since %s\n", call.Key, call.AbandonedAt.Format(time.TimeOnly))
	}
}

func how(end bound.LateEnd) string {
	if end.Panic == nil {
		return ", and its result went to nobody"
	}
	return fmt.Sprintf(", in a panic that went to nobody: %v", end.Panic.Value)
}
