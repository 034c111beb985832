package main_test

import (
	"compress/gzip"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Each call of a model uses so many tokens.
const (
	tokensIn, tokensOut = 30, 20
	tokensEach          = tokensIn + tokensOut
)

// answers are what the models say, whole and streamed.
var answers = map[string][2]string{
	"/v1/messages": {
		`{"type":"message","model":"m","content":"ANSWER","usage":{"input_tokens":30,"output_tokens":20}}`,
		`data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":30,"output_tokens":1}}}

data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"ANSWER"}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20}}

`,
	},
	"/v1/chat/completions": {
		`{"model":"m","choices":[{"message":{"content":"ANSWER"}}],"usage":{"prompt_tokens":30,"completion_tokens":20}}`,
		`data: {"model":"m","choices":[{"delta":{"content":"ANSWER"}}]}

data: {"model":"m","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":20}}

data: [DONE]

`,
	},
	"/v1/responses": {
		`{"object":"response","status":"completed","model":"m","output":["ANSWER"],"usage":{"input_tokens":30,"output_tokens":20}}`,
		`data: {"type":"response.output_text.delta","delta":"ANSWER"}

data: {"type":"response.completed","response":{"status":"completed","model":"m","usage":{"input_tokens":30,"output_tokens":20}}}

`,
	},
	"/v1/models": {"{}"},
	"/v1beta/models/m:generateContent": {
		`{"candidates":[{"content":"ANSWER"}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":20}}`,
	},
	"/v1beta/models/m:streamGenerateContent": {
		"", `data: {"candidates":[{"content":"ANSWER","finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":20}}

`,
	},
}

// A models is a server in the place of all model APIs.
type models struct {
	*httptest.Server
	*testing.T

	served, proto atomic.Int64
	wait          chan struct{} // an answer ends when it is closed, if it is not nil
	waiting       chan struct{}
}

func serveModels(t *testing.T, changes ...func(*models)) *models {
	t.Helper()
	m := &models{T: t, waiting: make(chan struct{}, 1000)}
	m.Server = httptest.NewUnstartedServer(http.HandlerFunc(m.serve))
	for _, change := range changes {
		change(m)
	}
	if m.URL == "" {
		m.Start()
	}
	t.Cleanup(func() { m.CloseClientConnections(); m.Close() })
	return m
}

// waiting has each answer wait after its first event.
func waiting(m *models) { m.wait = make(chan struct{}) }

func (m *models) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the run has ended meanwhile
	}
	said, known := answers[req.URL.Path]
	if !known || !strings.Contains(string(body), promptCanary) || !strings.Contains(fmt.Sprint(req.Header), keyCanary) {
		m.Errorf("a call of %s came with %v", req.URL, req.Header)
	}
	m.served.Add(1)
	m.proto.Store(int64(req.ProtoMajor))
	text := said[0]
	if text == "" || strings.Contains(string(body), `"stream":true`) {
		text = said[1]
		w.Header().Set("Content-Type", "text/event-stream")
	}
	var out io.Writer = w
	if req.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		defer zipped.Close()
		out = zipped
	}
	for chunk := range strings.SplitAfterSeq(strings.ReplaceAll(text, "ANSWER", answerCanary), "\n\n") {
		_, _ = io.WriteString(out, chunk)
		w.(http.Flusher).Flush()
		if m.wait != nil {
			m.waiting <- struct{}{}
			select {
			case <-m.wait:
			case <-req.Context().Done():
				return
			}
		}
	}
}

// metered returns run with a meter of the models, more flags, and a command of these steps.
func (f *fixture) metered(m *models, flags string, steps ...string) *exec.Cmd {
	f.Helper()
	return f.at(m.URL, f.cmd("--meter "+flags, f.child(steps...)...))
}

// at has the program find the APIs at a server, and no proxy.
func (f *fixture) at(url string, cmd *exec.Cmd) *exec.Cmd {
	f.Helper()
	cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL="+url, "OPENAI_BASE_URL="+url+"/v1", "GOOGLE_GEMINI_BASE_URL="+url,
		"HTTP_PROXY=", "HTTPS_PROXY=", "http_proxy=", "https_proxy=", "ALL_PROXY=", "all_proxy=", "NO_PROXY=", "no_proxy=")
	return cmd
}

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// What a command sends to a model, and gets from it, and must be nowhere else.
const (
	keyCanary    = "sk-canary-key-4711"
	promptCanary = "canary-prompt-4712"
	answerCanary = "canary-answer-4713"
)

// A dialect is how clients of an API call a model.
type dialect struct {
	variable, path, header, body string
}

// dialects have calls of at most 100 tokens of output, but for the open one, which has no maximum.
var dialects = map[string]dialect{
	"anthropic": {
		"ANTHROPIC_BASE_URL", "/v1/messages", "X-Api-Key",
		`{"model":"m","max_tokens":100,STREAM"messages":[{"role":"user","content":"` + promptCanary + `"}]}`,
	},
	"chat": {
		"OPENAI_BASE_URL", "/chat/completions", "Authorization",
		`{"model":"m","max_completion_tokens":100,STREAM"messages":[{"role":"user","content":"` + promptCanary + `"}]}`,
	},
	"responses": {
		"OPENAI_BASE_URL", "/responses", "Authorization",
		`{"model":"m","max_output_tokens":100,STREAM"input":"` + promptCanary + `"}`,
	},
	"open":   {"OPENAI_BASE_URL", "/responses", "Authorization", `{"model":"m",STREAM"input":"` + promptCanary + `"}`},
	"stored": {"OPENAI_BASE_URL", "/responses", "Authorization", `{"model":"m",STREAM"previous_response_id":"r","input":"` + promptCanary + `"}`},
	"models": {"OPENAI_BASE_URL", "/models", "Authorization", promptCanary},
	"gemini": {
		"GOOGLE_GEMINI_BASE_URL", "/v1beta/models/m:generateContent", "X-Goog-Api-Key",
		`{"contents":[{"parts":[{"text":"` + promptCanary + `"}]}],"generationConfig":{"maxOutputTokens":100}}`,
	},
}

// request is a call, of a word such as "chat" or "chat+stream+gzip".
func request(about string) *http.Request {
	name, how, _ := strings.Cut(about, "+")
	d := dialects[name]
	path, stream := d.path, ""
	if strings.Contains(how, "stream") {
		path, stream = strings.Replace(path, ":generateContent", ":streamGenerateContent?alt=sse", 1), `"stream":true,`
		if name == "chat" {
			stream += `"stream_options":{"include_usage":true},`
		}
	}
	body := strings.NewReader(strings.Replace(d.body, "STREAM", stream, 1))
	req, err := http.NewRequest(http.MethodPost, os.Getenv(d.variable)+path, body)
	if err != nil {
		panic(err) // the variable is no URL
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(d.header, keyCanary)
	if strings.Contains(how, "gzip") {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	return req
}

var plainClient = &http.Client{Transport: &http.Transport{
	Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: 100,
}}

// askModel makes a call and prints its status, and then all that it got in quotes. A quiet one prints
// nothing.
func askModel(about string) error {
	resp, err := plainClient.Do(request(about))
	if err != nil {
		_, err = fmt.Println("no answer")
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		_, err = fmt.Println(resp.StatusCode, "broken off")
		return err
	}
	if strings.Contains(about, "quiet") {
		return nil
	}
	_, err = fmt.Printf("%d %s %q\n", resp.StatusCode, resp.Header.Get("X-Should-Retry"), text)
	return err
}

// askAll:CALL makes calls in many goroutines until each was refused, and prints ready.
func askAll(about string) error {
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			for {
				resp, err := plainClient.Do(request(about))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return
				}
			}
		})
	}
	all.Wait()
	_, err := fmt.Println("all were refused")
	return err
}

// breakOff:CALL reads the first bytes of an answer, and goes away.
func breakOff(about string) error {
	resp, err := plainClient.Do(request(about))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = resp.Body.Read(make([]byte, 10))
	return err
}
