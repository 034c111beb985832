package watchdogeino

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

// A guarded model tells the run of each call of the model inside it.
type guarded struct {
	guard *adapter.Guard
	inner model.BaseChatModel
	bound []*schema.ToolInfo // tools that the inner model knows of
}

// Generate makes one call. It is made again if the run asks for that while it hangs.
func (m *guarded) Generate(
	ctx context.Context, input []*schema.Message, opts ...model.Option,
) (answer *schema.Message, err error) {
	err = m.call(ctx, input, opts, func(input []*schema.Message, u *use) error {
		answer, err = adapter.Attempt(ctx, m.guard, func(ctx context.Context) (*schema.Message, error) {
			return m.inner.Generate(ctx, input, opts...)
		})
		if err == nil {
			u.piece(answer)
		}
		return err
	}, func() bool { return true })
	return answer, err
}

// Stream makes one call. It is made again if the run asks for that before a piece of the answer came.
func (m *guarded) Stream(
	ctx context.Context, input []*schema.Message, opts ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	return begin(ctx, func(ctx context.Context, out *stream[*schema.Message]) error {
		return m.call(ctx, input, opts, func(input []*schema.Message, u *use) error {
			_, err := adapter.Attempt(ctx, m.guard, func(ctx context.Context) (none struct{}, _ error) {
				in, err := m.inner.Stream(ctx, input, opts...)
				if err != nil {
					return none, err
				}
				return none, out.relay(ctx, in, u.piece)
			})
			return err
		}, func() bool { return !out.hasPiece() })
	})
}

// call admits calls and has them made, until one was not ended by what the run asks for, or must not be made again.
func (m *guarded) call(
	ctx context.Context, input []*schema.Message, opts []model.Option,
	attempt func([]*schema.Message, *use) error, repeatable func() bool,
) error {
	told := lateOf(ctx)
	req := m.request(input, opts)
	req.Agent = agentOf(ctx)
	for {
		call, messages, err := m.guard.Model(ctx, req)
		told.add(messages)
		if err != nil {
			return err
		}
		u := &use{call: call}
		err = u.during(func() error { return attempt(with(slices.Clone(input), told.all()), u) })
		if again := errors.As(err, &req.Again); !again || ctx.Err() != nil || !repeatable() {
			return err
		}
	}
}

// request is what a call sends, in numbers. Text in other places than these is not counted: what a picture or a file
// costs depends on the model.
func (m *guarded) request(input []*schema.Message, opts []model.Option) (r adapter.ModelRequest) {
	o := model.GetCommonOptions(&model.Options{Tools: m.bound}, opts...)
	if o.Model != nil {
		r.Model = *o.Model
	}
	if o.MaxTokens != nil {
		r.MaxOutput = int64(*o.MaxTokens)
	}
	tools := slices.Concat(o.Tools, o.DeferredTools)
	r.Parts = len(input) + len(tools)
	for _, message := range input {
		r.Bytes += sizeOf(message)
	}
	for _, tool := range tools {
		r.Bytes += sizeOfTool(tool)
	}
	return r
}

// A use is what one call of a model used, as far as it says. Pieces that come after its end, from a call that was left
// behind, do not count.
type use struct {
	call *adapter.ModelCall

	mu            sync.Mutex
	ended         bool
	input, output int
}

// piece counts as schema.ConcatMessages does: the last numbers are the whole ones.
func (u *use) piece(m *schema.Message) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return
	}
	u.call.Alive()
	if m != nil && m.ResponseMeta != nil && m.ResponseMeta.Usage != nil {
		u.input = max(u.input, m.ResponseMeta.Usage.PromptTokens)
		u.output = max(u.output, m.ResponseMeta.Usage.CompletionTokens)
	}
}

// during makes the call and ends it, also if it panics.
func (u *use) during(call func() error) (err error) {
	err = errPanicked
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.ended = true
		u.call.End(adapter.Usage{Input: int64(u.input), Output: int64(u.output), Err: err, Retry: passes(err)})
	}()
	return call()
}

// errPanicked is the error of a call that has none.
var errPanicked = errors.New("the model panicked")

// passes reports whether an error says that it goes away by itself, or the call was ended to be made again.
func passes(err error) bool {
	var temporary interface{ Temporary() bool }
	var directive *watchdog.Directive
	return errors.As(err, &directive) || errors.As(err, &temporary) && temporary.Temporary()
}

// with adds texts as messages of the user. They are such because not every model takes those of the system here.
func with(messages []*schema.Message, texts []string) []*schema.Message {
	for _, text := range texts {
		messages = append(messages, schema.UserMessage(text))
	}
	return messages
}

// late is what the model was asked after the messages of its call were put together. Nil is that of a model without an
// agent, and forgets.
type late struct {
	mu    sync.Mutex
	texts []string
}

type lateKey struct{}

// lateOf returns that of the call that the context is of.
func lateOf(ctx context.Context) *late {
	if l, ok := ctx.Value(lateKey{}).(*late); ok {
		return l
	}
	return &late{}
}

func (l *late) add(texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = append(l.texts, texts...)
}

func (l *late) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.texts)
}

// sizeOf is how many bytes of text a message has.
func sizeOf(m *schema.Message) int {
	if m == nil {
		return 0
	}
	size := len(m.Content) + len(m.ReasoningContent) + len(m.Name) + len(m.ToolCallID) + len(m.ToolName)
	for _, call := range m.ToolCalls {
		size += len(call.ID) + len(call.Function.Name) + len(call.Function.Arguments)
	}
	for _, part := range m.MultiContent {
		size += len(part.Text)
	}
	for _, part := range m.UserInputMultiContent {
		size += len(part.Text)
	}
	for _, part := range m.AssistantGenMultiContent {
		size += len(part.Text)
	}
	return size
}

// sizeOfTool is how many bytes describe a tool to the model.
func sizeOfTool(t *schema.ToolInfo) int {
	if t == nil {
		return 0
	}
	size := len(t.Name) + len(t.Desc)
	if t.ParamsOneOf == nil {
		return size
	}
	params, err := t.ToJSONSchema()
	if err != nil {
		return size // nor can the model be told
	}
	text, _ := json.Marshal(params) // plain data
	return size + len(text)
}
