package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/seed62658d38/watchdog"
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

// An api is where the model is, and what it costs.
type api struct {
	base, model, key string
	price            price
	client           *http.Client
}

// A price is what a million tokens cost, in units of the currency: so many millionths of a unit for each.
type price struct{ in, out float64 }

const currency = "USD"

// of is what a call with so many tokens uses.
func (p price) of(in, out int64) watchdog.Amount {
	micros := int64(math.Ceil(float64(in)*p.in + float64(out)*p.out))
	return watchdog.Amount{Cost: watchdog.Money{Micros: micros, Currency: currency}}
}

// maxTokens is the most that an answer has.
const maxTokens = 1024

// ask has the model answer, and returns when its stream has ended. The call is charged to the run before it is made,
// with the most that it can cost, and afterwards with what it did: no cap is exceeded, however many agents call at
// once. What breaks off stays charged with the most, because it may be billed.
func (a api) ask(ctx context.Context, wd *watchdog.Watchdog, said []message, tools []tool) (message, error) {
	body, err := json.Marshal(map[string]any{
		"model": a.model, "max_tokens": maxTokens, "stream": true, "messages": said, "tools": tools,
	})
	if err != nil {
		return message{}, err
	}
	charge, err := wd.Admit(ctx, "", a.price.of(int64(len(body)), maxTokens)) // a token has at least a byte
	if err != nil {
		return message{}, err
	}
	answer, used, err := a.send(ctx, body)
	if err != nil {
		return message{}, err
	}
	return answer, charge.Settle(a.price.of(used.In, used.Out))
}

// tokens are what the response says that it used.
type tokens struct {
	In  int64 `json:"input_tokens"`
	Out int64 `json:"output_tokens"`
}

func (a api) send(ctx context.Context, body []byte) (message, tokens, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return message{}, tokens{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("X-Api-Key", a.key)
	resp, err := a.client.Do(req)
	if err != nil {
		return message{}, tokens{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return message{}, tokens{}, fmt.Errorf("the model's server says %s: %s", resp.Status, why)
	}
	return read(resp.Body)
}

// read puts the pieces of a stream together.
func read(stream io.Reader) (answer message, used tokens, err error) {
	answer.Role = "assistant"
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		var e struct {
			Type    string
			Index   int
			Message struct{ Usage tokens } // at the start: what it took in
			Usage   tokens                 // near the end: what it gave out
			Block   block                  `json:"content_block"`
			Delta   struct {
				Text  string
				Input string `json:"partial_json"`
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return message{}, tokens{}, fmt.Errorf("read the model's answer: %w", err)
		}
		switch {
		case e.Type == "message_start":
			used.In = e.Message.Usage.In
		case e.Type == "message_delta":
			used.Out = e.Usage.Out
		case e.Type == "content_block_start":
			e.Block.Input = nil // it comes in pieces
			answer.Content = append(answer.Content, e.Block)
		case e.Type == "content_block_delta" && e.Index < len(answer.Content):
			b := &answer.Content[e.Index]
			b.Text += e.Delta.Text
			b.Input = append(b.Input, e.Delta.Input...)
		case e.Type == "message_stop":
			return answer, used, nil
		}
	}
	if err := lines.Err(); err != nil {
		return message{}, tokens{}, err
	}
	return message{}, tokens{}, io.ErrUnexpectedEOF
}
