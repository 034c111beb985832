package main_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

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
func request(about string) (*http.Request, error) {
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
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(d.header, keyCanary)
	if strings.Contains(how, "gzip") {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	return req, nil
}

var plainClient = &http.Client{Transport: &http.Transport{
	Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: 100,
}}

// askModel makes a call and prints its status, and then all that it got in quotes. A quiet one prints
// nothing.
func askModel(about string) error {
	req, err := request(about)
	if err != nil {
		return err
	}
	resp, err := plainClient.Do(req)
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
				req, err := request(about)
				if err != nil {
					panic(err)
				}
				resp, err := plainClient.Do(req)
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
	req, err := request(about)
	if err != nil {
		return err
	}
	resp, err := plainClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = resp.Body.Read(make([]byte, 10))
	return err
}
