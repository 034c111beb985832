package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A message is one of a conversation, as Anthropic Messages has it.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// A block is text, a call of a tool, or what came back.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Result    string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

func says(role, text string) message { return message{role, []block{{Type: "text", Text: text}}} }

func (m message) text() string {
	var all []string
	for _, b := range m.Content {
		if b.Type == "text" {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n")
}

// calls are those of tools that the message asks for.
func (m message) calls() (calls []block) {
	for _, b := range m.Content {
		if b.Type == "tool_use" {
			calls = append(calls, b)
		}
	}
	return calls
}

// An api is where the model is. Its client charges each call to the run of the context.
type api struct {
	base, model, key string
	client           *http.Client
}

// ask has the model answer, and returns when its stream has ended.
func (a api) ask(ctx context.Context, said []message, tools []tool) (message, error) {
	body, err := json.Marshal(map[string]any{
		"model": a.model, "max_tokens": 1024, "stream": true, "messages": said, "tools": tools,
	})
	if err != nil {
		return message{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("X-Api-Key", a.key)
	resp, err := a.client.Do(req)
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return message{}, fmt.Errorf("the model's server says %s: %s", resp.Status, why)
	}
	return read(resp.Body)
}

// read puts the pieces of a stream together.
func read(stream io.Reader) (message, error) {
	answer := message{Role: "assistant"}
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		var e struct {
			Type  string
			Index int
			Block block `json:"content_block"`
			Delta struct {
				Text  string
				Input string `json:"partial_json"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return message{}, fmt.Errorf("read the model's answer: %w", err)
		}
		switch {
		case e.Type == "content_block_start":
			e.Block.Input = nil // it comes in pieces
			answer.Content = append(answer.Content, e.Block)
		case e.Type == "content_block_delta" && e.Index < len(answer.Content):
			b := &answer.Content[e.Index]
			b.Text += e.Delta.Text
			b.Input = append(b.Input, e.Delta.Input...)
		case e.Type == "message_stop":
			return answer, nil
		}
	}
	if err := lines.Err(); err != nil {
		return message{}, err
	}
	return message{}, io.ErrUnexpectedEOF
}
