package watchdogeino

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/cloudwego/eino/schema"
)

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
