package watchdogadk

import (
	"context"
	"errors"
	"iter"
	"strings"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

// A streaming tool answers in pieces. The SDK knows it by its methods, too.
type streaming interface {
	tool.Tool
	Declaration() *genai.FunctionDeclaration
	RunStream(ctx agent.Context, args any) iter.Seq2[string, error]
}

type guardedStream struct {
	streaming
	guard *Guard
}

// ProcessRequest has the guarded tool called instead of the one in it.
func (t *guardedStream) ProcessRequest(ctx agent.Context, req *model.LLMRequest) error {
	return process(ctx, req, t.streaming, t)
}

// DefersResponse is for the tool in it, which may leave its answer to somebody else.
func (t *guardedStream) DefersResponse() bool { return defers(t.streaming) }

type streamEnd struct {
	ended *adapter.Ended
	err   error
}

// RunStream calls the tool. The call is made on a goroutine of its own, which is left behind with a tool that ignores
// its context.
func (t *guardedStream) RunStream(ctx agent.Context, args any) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		c, call := newCall(ctx), toolCall(ctx, t, args)
		end, readAll := stream(t.guard.within(ctx), func(work context.Context, p *pipe[string]) streamEnd {
			return t.call(work, call, c, p, args)
		}, func(piece string) bool { return yield(piece, nil) })
		if end.ended == nil {
			c.merge()
		}
		switch {
		case !readAll:
		case end.ended != nil:
			yield("\n"+end.ended.Text(), nil)
		case end.err != nil:
			yield("", end.err)
		}
	}
}

func (t *guardedStream) call(
	ctx context.Context, call adapter.ToolCall, c *call, p *pipe[string], args any,
) (end streamEnd) {
	all, ended, err := adapter.Do(ctx, t.guard.calls, call, func(work context.Context) (streamed, error) {
		return t.pieces(work, c, p, args)
	}, func(s streamed) []byte { return []byte(s.text.String()) })
	if err == nil {
		err = all.asks
	}
	return streamEnd{ended, err}
}

type streamed struct {
	text *strings.Builder
	asks error
}

func (t *guardedStream) pieces(work context.Context, c *call, p *pipe[string], args any) (s streamed, err error) {
	defer func() { t.guard.returned(work, t.Name(), c, recover(), &err) }()
	s.text = &strings.Builder{}
	layer := watchdog.FromContext(work)
	for piece, err := range t.streaming.RunStream(c.context(work), copied(args)) {
		layer.Activity()
		if errors.Is(err, tool.ErrConfirmationRequired) {
			return streamed{text: s.text, asks: err}, nil
		}
		if err != nil {
			return s, err
		}
		s.text.WriteString(piece)
		if !p.send(work, piece) {
			break
		}
	}
	return s, nil
}

// A pipe hands the pieces of a stream from the goroutine of its source to that of its reader. The source waits until
// the reader has done with a piece, as one that calls yield does, so that nothing goes on behind the reader's back; but
// the reader never waits for a source whose context has ended.
type pipe[T any] struct {
	pieces chan T
	more   chan bool // whether the reader wants another piece
}

// send hands over a piece. It returns false if the reader wants no more, or ctx has ended.
func (p *pipe[T]) send(ctx context.Context, piece T) (more bool) {
	if ctx.Err() != nil {
		return false
	}
	select {
	case p.pieces <- piece:
	case <-ctx.Done():
		return false
	}
	select {
	case more = <-p.more:
		return more
	case <-ctx.Done():
		return false
	}
}

// stream has the source run on a goroutine of its own, and gives each piece to the reader until the source has ended or
// the reader wants no more. The source's context ends with the stream.
func stream[T, E any](
	ctx context.Context, source func(context.Context, *pipe[T]) E, reader func(T) bool,
) (end E, readAll bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p, ended := &pipe[T]{pieces: make(chan T), more: make(chan bool, 1)}, make(chan E, 1)
	go func() { ended <- source(ctx, p) }()
	for {
		select {
		case piece := <-p.pieces:
			more := reader(piece)
			if p.more <- more; !more {
				stop()
				return <-ended, false
			}
		case end = <-ended:
			return end, true
		}
	}
}
