package watchdogmcp

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A failure is a result with IsError. It is an error where calls are counted, and a result for the caller.
type failure struct{ result *mcp.CallToolResult }

// Error returns what the model is told, for the detector of loops alone.
func (f *failure) Error() string { return string(outcome(f.result)) }

// failed returns a failure if the result is one.
func failed(result mcp.Result) error {
	if r, ok := result.(*mcp.CallToolResult); ok && r != nil && r.IsError {
		return &failure{r}
	}
	return nil
}

// outcome returns a result as the detector of loops compares it: a single text as it is, because it may be JSON, and
// anything else as the JSON of the protocol.
func outcome(result mcp.Result) []byte {
	r, ok := result.(*mcp.CallToolResult)
	if !ok || r == nil {
		return nil
	}
	if r.StructuredContent != nil {
		text, _ := json.Marshal(r.StructuredContent)
		return text
	}
	if len(r.Content) == 1 {
		if text, ok := r.Content[0].(*mcp.TextContent); ok {
			return []byte(text.Text)
		}
	}
	var all bytes.Buffer
	for i, content := range r.Content {
		if i > 0 {
			all.WriteByte('\n')
		}
		if text, ok := content.(*mcp.TextContent); ok {
			all.WriteString(text.Text)
			continue
		}
		text, _ := json.Marshal(content)
		all.Write(text)
	}
	return all.Bytes()
}

func texts(all ...string) (content []mcp.Content) {
	for _, text := range all {
		content = append(content, &mcp.TextContent{Text: text})
	}
	return content
}

// withMessages returns a copy of a result with messages at its end.
func withMessages(result mcp.Result, messages []string) mcp.Result {
	r, ok := result.(*mcp.CallToolResult)
	if !ok || r == nil || len(messages) == 0 {
		return result
	}
	told := *r // whose it is, a middleware knows
	told.Content = append(slices.Clip(r.Content), texts(messages...)...)
	return &told
}
