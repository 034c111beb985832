package clients_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// An upstream is a server in the place of all model APIs. It follows a script, and bills each call: the tokens of the
// request by a fixed tokenizer, with a hidden prompt, and those of its answer, of which it says the same as usage.
type upstream struct {
	*httptest.Server
	script  script
	environ []string // by which it is reached

	mu     sync.Mutex
	keys   int // calls that came with the key and the prompt
	served []served
	other  []string // requests that are no call of a model, once each
}

// A script is what the models do.
type script struct {
	// turns is how many times a conversation calls a tool before it ends.
	turns int
	// agents is how many sub-agents the first turn starts, of a client that has them.
	agents int
	// fills is the maximum of output below which an answer in the main conversation is longer than that. Clients ask for
	// more themselves.
	fills int64
	// fail returns how to answer the n-th call instead, from 1, or nil.
	fail func(n int) *failure
}

// A failure is an answer that is none.
type failure struct {
	status int
	header map[string]string
	body   string // %s is the API's own form if it is empty
}

// A served is a call of a model that came.
type served struct {
	path          string
	status        int
	input, output int64
	streamed, cut bool
	ended         time.Time
}

// billed are the tokens of the call.
func (s served) billed() int64 { return s.input + s.output }

// hidden are the tokens of the prompt that a model has besides what is in a request, as for tools.
const hidden = 300

// tokensOf is the tokenizer.
func tokensOf(text string) int64 { return int64(len(text)+3) / 4 }

// An ask is what a request asks for.
type ask struct {
	api      wire
	model    string
	streamed bool
	most     int64 // of its output, 0 if it does not say
	thinks   bool
	tools    []string
	results  int  // of tools, in its history
	main     bool // it is no sub-agent's, or on the side
	input    int64
	usage    bool   // it asks for the usage of a stream
	form     object // the schema of its answer, if it has one
}

// A wire is the form of one API.
type wire struct {
	read   func(path string, body map[string]any, a *ask)
	whole  func(a *ask, said answer) any
	stream func(a *ask, said answer, send func(event string, data any))
	done   string // what ends a stream
	failed func(status int) any
}

// wireOf returns the form of the API of a path.
func wireOf(method, path string) (wire, bool) {
	if method != http.MethodPost {
		return wire{}, false
	}
	switch {
	case path == "/v1/messages":
		return anthropic, true
	case path == "/v1/responses":
		return responses, true
	case path == "/v1/chat/completions":
		return chat, true
	case strings.HasPrefix(path, "/v1beta/models/") && strings.HasSuffix(path, "enerateContent"):
		return gemini, true
	}
	return wire{}, false
}

// serve has an upstream at an address that the variables of the APIs name.
func serve(t *testing.T, s script) *upstream {
	t.Helper()
	u := &upstream{script: s}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() { u.CloseClientConnections(); u.Close() })
	for _, base := range []string{"ANTHROPIC_BASE_URL=", "OPENAI_BASE_URL=", "GOOGLE_GEMINI_BASE_URL="} {
		u.environ = append(u.environ, base+u.URL)
	}
	u.environ[1] += "/v1"
	return u
}

// ServeHTTP implements [http.Handler].
func (u *upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client is gone
	}
	api, known := wireOf(req.Method, req.URL.Path)
	if !known {
		u.aside(w, req, body)
		return
	}
	a := &ask{api: api, main: bytes.Contains(body, []byte(mainPrompt)), input: tokensOf(string(body)) + hidden}
	var has map[string]any
	if err := json.Unmarshal(body, &has); err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	api.read(req.URL.Path, has, a)
	n := u.begin(req, body, a)
	if u.script.fail != nil {
		if f := u.script.fail(n); f != nil {
			u.failed(w, n, f, api)
			return
		}
	}
	said, cut := u.next(a).within(a.most)
	said.cut = cut
	u.bill(n, a.input, said.tokens(), cut)
	if !a.streamed {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.whole(a, said))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	api.stream(a, said, func(event string, data any) {
		text, _ := json.Marshal(data)
		if event != "" {
			_, _ = fmt.Fprintf(w, "event: %s\n", event)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	})
	_, _ = io.WriteString(w, api.done)
}

// begin notes a call, and returns its number.
func (u *upstream) begin(req *http.Request, body []byte, a *ask) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if strings.Contains(fmt.Sprint(req.Header), keyCanary) && bytes.Contains(body, []byte(promptCanary)) {
		u.keys++
	}
	u.served = append(u.served, served{path: req.URL.Path, streamed: a.streamed, status: http.StatusOK})
	return len(u.served)
}

func (u *upstream) bill(n int, input, output int64, cut bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &u.served[n-1]
	s.input, s.output, s.cut, s.ended = input, output, cut, time.Now()
}

func (u *upstream) failed(w http.ResponseWriter, n int, f *failure, api wire) {
	u.mu.Lock()
	u.served[n-1].status = f.status
	u.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for name, value := range f.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.status)
	if f.body != "" {
		_, _ = io.WriteString(w, f.body)
		return
	}
	_ = json.NewEncoder(w).Encode(api.failed(f.status))
}

// aside answers what is no call of a model.
func (u *upstream) aside(w http.ResponseWriter, req *http.Request, body []byte) {
	u.mu.Lock()
	if what := req.Method + " " + req.URL.Path; !slices.Contains(u.other, what) {
		u.other = append(u.other, what)
	}
	u.mu.Unlock()
	if strings.HasSuffix(req.URL.Path, "/count_tokens") || strings.HasSuffix(req.URL.Path, ":countTokens") {
		n := tokensOf(string(body)) + hidden
		_ = json.NewEncoder(w).Encode(object{"input_tokens": n, "totalTokens": n})
		return
	}
	if req.Header.Get("Upgrade") != "" {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	http.NotFound(w, req)
}

// calls returns what was served until now.
func (u *upstream) calls() []served {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]served(nil), u.served...)
}

type object = map[string]any
