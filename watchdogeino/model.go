package watchdogeino

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

// Model returns the model with each of its calls guarded: each piece of an answer is a sign of life, and what the run
// asks of the model is the last message of the user in the request. The history does not have it.
//
// A call that stalls ends with the run's idle. If the run's ladder says RETRY or UNSTUCK first, the call is made once
// more with those words, or, if a piece of it was passed on, the error is a [*watchdog.Directive]. In a run that has
// ended no call is made; the error wraps its [*watchdog.Stop]. A model that ignores its context is waited for.
func (g *Guard) Model(m model.ToolCallingChatModel) model.ToolCallingChatModel { return &guarded{g, m} }

type guarded struct {
	guard *Guard
	inner model.ToolCallingChatModel
}

// WithTools returns a guarded model that knows the tools.
func (m *guarded) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	inner, err := m.inner.WithTools(tools)
	return &guarded{m.guard, inner}, err
}

// IsCallbacksEnabled is for the model in it, which may call the host's callbacks by itself.
func (m *guarded) IsCallbacksEnabled() bool { return components.IsCallbacksEnabled(m.inner) }

// Generate makes one call.
func (m *guarded) Generate(
	ctx context.Context, input []*schema.Message, opts ...model.Option,
) (answer *schema.Message, err error) {
	err = m.call(ctx, input, new(bool), func(ctx context.Context, input []*schema.Message) (err error) {
		answer, err = m.inner.Generate(ctx, input, opts...)
		return err
	})
	return answer, err
}

// Stream makes one call.
func (m *guarded) Stream(
	ctx context.Context, input []*schema.Message, opts ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	return pump(func(f *flow[*schema.Message]) error {
		return m.call(ctx, input, &f.sent, func(ctx context.Context, input []*schema.Message) error {
			answer, err := m.inner.Stream(ctx, input, opts...)
			if err != nil {
				return err
			}
			return f.relay(ctx, answer)
		})
	})
}

// call has the work make one call, and another one where the run asks for that and nothing was sent.
func (m *guarded) call(
	ctx context.Context, input []*schema.Message, sent *bool, work func(context.Context, []*schema.Message) error,
) error {
	wd := watchdog.FromContext(ctx)
	for again := (*watchdog.Directive)(nil); ; {
		for _, text := range m.guard.words(wd, again) {
			input = append(slices.Clip(input), schema.UserMessage(text))
		}
		wd.Activity()
		err := wd.Try(ctx, func(ctx context.Context) error { return work(ctx, input) })
		if !errors.As(err, &again) || *sent || ctx.Err() != nil {
			return err
		}
	}
}

// A flow is an answer on its way to a reader, who may close it early.
type flow[T any] struct {
	mu    sync.Mutex // of to
	to    *schema.StreamWriter[T]
	once  sync.Once
	begun chan error // gets one value: nil once there is something to read, or why the work has failed
	sent  bool
}

// pump has work fill a flow on another goroutine, which is there until the flow is read or closed.
func pump[T any](work func(*flow[T]) error) (*schema.StreamReader[T], error) {
	reader, writer := schema.Pipe[T](1)
	reader.SetAutomaticClose() // it may be closed twice
	f := &flow[T]{to: writer, begun: make(chan error, 1)}
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil { // nobody else can recover it
				err = fmt.Errorf("panic: %v", p)
			}
			if f.once.Do(func() { f.begun <- err }); err != nil {
				f.send(*new(T), err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			writer.Close()
			reader.Close() // whoever has it may not
		}()
		err = work(f)
	}()
	return reader, <-f.begun
}

func (f *flow[T]) send(piece T, err error) (closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.to.Send(piece, err)
}

// relay passes a stream on, each piece of which is a sign of life, until it ends, the flow is closed or ctx ends: one
// that was left behind sends no more.
func (f *flow[T]) relay(ctx context.Context, in *schema.StreamReader[T]) error {
	defer in.Close()
	f.once.Do(func() { f.begun <- nil })
	for {
		piece, err := in.Recv()
		if ended := context.Cause(ctx); ended != nil || errors.Is(err, io.EOF) {
			return ended // a stream that is cut off may say nothing of it
		} else if err != nil {
			return err
		}
		watchdog.FromContext(ctx).Activity()
		idle.FromContext(ctx).Alive()
		if f.send(piece, nil) {
			return nil
		}
		f.sent = true
	}
}
