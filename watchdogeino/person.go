package watchdogeino

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog/internal/adapter"
)

// agentOf returns the name of the agent that makes a call in ctx, empty for one that works alone: in the run, or in a
// tool of another agent.
func agentOf(ctx context.Context) (name string) {
	for i, s := range outOfTools(compose.GetCurrentAddress(ctx)) {
		if s.Type == adk.AddressSegmentAgent && i > 0 {
			name = s.ID
		}
	}
	return name
}

// outOfTools is the part of an address behind the last tool with something in it.
func outOfTools(address compose.Address) compose.Address {
	for i, s := range address {
		if s.Type == adk.AddressSegmentTool && i < len(address)-1 {
			return outOfTools(address[i+1:])
		}
	}
	return address
}

// firstKey is what the context of an agent has that a person speaks to: a [sync.Once], because only what it is sent
// first are the words of the person.
type firstKey struct{}

// withFirst returns the context of an agent that begins to work. A person speaks to one that works alone: what others
// are sent may be put together by the SDK.
func withFirst(ctx context.Context) context.Context {
	address := compose.GetCurrentAddress(ctx)
	if agentOf(ctx) != "" || len(outOfTools(address)) != len(address) {
		return ctx
	}
	return context.WithValue(ctx, firstKey{}, &sync.Once{})
}

// hear tells the run of ctx, once for each time that an agent works, of the last words in the role of the user, but for
// those of directives.
func hear(ctx context.Context, g *adapter.Guard, messages []*schema.Message) {
	first, ok := ctx.Value(firstKey{}).(*sync.Once)
	if !ok {
		return
	}
	first.Do(func() {
		for _, m := range slices.Backward(messages) {
			if m == nil || m.Role != schema.User {
				continue
			}
			if words := wordsOf(m); !adapter.IsDirective(words) {
				g.Said(ctx, adapter.Said{Words: func() string { return words }})
				return
			}
		}
	})
}

func wordsOf(m *schema.Message) string {
	var words strings.Builder
	words.WriteString(m.Content)
	for _, part := range m.MultiContent {
		words.WriteString(part.Text)
	}
	for _, part := range m.UserInputMultiContent {
		words.WriteString(part.Text)
	}
	return words.String()
}
