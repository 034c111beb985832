// Package model is a model on this machine for a program that shows an agent: a server that streams answers as
// Anthropic Messages does. Its answers are made up, and follow from the conversation alone.
package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// Start starts a server on the loopback interface, which waits between two words of an answer. The caller closes it.
func Start(pace time.Duration) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var asked request
		if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		s := &stream{w: w, pace: pace, gone: req.Context().Done()}
		s.play(asked)
	}))
}

// thought are the tokens that an answer is billed besides its words, as those of a model that thinks are.
const thought = 900

// A request is what the script looks at.
type request struct {
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Tools []struct{ Name string }
}

// size is a number of tokens that grows with the conversation, as a real one's does.
func (r request) size() (tokens int) {
	for _, m := range r.Messages {
		tokens += len(m.Content) / 4
	}
	return tokens + 50*len(r.Tools)
}

// turn is how often the model has answered.
func (r request) turn() (n int) {
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// A call is one of a tool.
type call struct {
	tool  string
	input any
}

// An answer is a text and calls.
type answer struct {
	text  string
	calls []call
}

type fields map[string]any

// lead is what an agent with sub-agents says, turn by turn.
var lead = []answer{
	{"I look around first.", []call{{"sh", fields{"command": "ls | head -20"}}, {"sh", fields{"command": "pwd; date"}}}},
	{"Three agents can look at parts of it at the same time.", []call{{"delegate", fields{"tasks": []string{
		"Count the files.", "Find the largest file.", "Find the newest file.",
	}}}}},
	{"I write down what they found.", []call{{"write", fields{
		"path": "agent-note.txt", "text": "Looked at by three agents. What they found is in the run's conversation.\n",
	}}}},
	{text: "The note is in agent-note.txt. That is all."},
}

// helper is what a sub-agent says.
var helper = []answer{
	{"I look with a command.", []call{{"sh", fields{"command": "ls -t | wc -l"}}}},
	{"And once more, to be sure.", []call{{"sh", fields{"command": "ls -S | head -1"}}}},
	{text: "I have what was asked for."},
}

func (r request) next() answer {
	script := lead
	switch {
	case len(r.Tools) == 0:
		return answer{text: "I was told to wrap up: what was found so far stands above, the rest is not done."}
	case len(r.Tools) == 1:
		script = helper
	}
	return script[min(r.turn(), len(script)-1)]
}

// A stream is an answer under way.
type stream struct {
	w     http.ResponseWriter
	pace  time.Duration
	gone  <-chan struct{}
	words int
}

func (s *stream) play(asked request) {
	s.send("message_start", fields{"message": fields{"usage": fields{"input_tokens": asked.size(), "output_tokens": 1}}})
	a := asked.next()
	s.block(0, fields{"type": "text", "text": ""}, "text_delta", "text", a.text)
	for i, c := range a.calls {
		input, _ := json.Marshal(c.input)
		id := fmt.Sprintf("call-%d-%d", asked.turn(), i)
		s.block(i+1, fields{"type": "tool_use", "id": id, "name": c.tool, "input": fields{}}, "input_json_delta",
			"partial_json", string(input))
	}
	why := "end_turn"
	if len(a.calls) > 0 {
		why = "tool_use"
	}
	used := fields{"output_tokens": thought + s.words}
	s.send("message_delta", fields{"delta": fields{"stop_reason": why}, "usage": used})
	s.send("message_stop", fields{})
}

// block sends one part of an answer, word by word.
func (s *stream) block(index int, start fields, kind, key, text string) {
	s.send("content_block_start", fields{"index": index, "content_block": start})
	for _, word := range strings.SplitAfter(text, " ") {
		s.words++
		s.send("content_block_delta", fields{"index": index, "delta": fields{"type": kind, key: word}})
		select {
		case <-s.gone:
		case <-time.After(s.pace):
		}
	}
	s.send("content_block_stop", fields{"index": index})
}

func (s *stream) send(kind string, data fields) {
	data["type"] = kind
	text, _ := json.Marshal(data)
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, text)
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}
