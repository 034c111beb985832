package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/loop/internal/model"
)

// A reply is the last event of the model's reply: the next step of the agent.
type reply struct{ kind, text string }

// errBrokenOff says that a stream ended without a next step.
var errBrokenOff = errors.New("the reply ended early")

// request posts a request and reads the streamed reply.
func request(ctx context.Context, client *http.Client, url string, r model.Request, say say) (reply, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return reply{}, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	answer, err := client.Do(post)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = answer.Body.Close() }() // an error after reading changes nothing
	if answer.StatusCode != http.StatusOK {
		return reply{}, fmt.Errorf("the model answers %s", answer.Status)
	}
	return read(ctx, answer.Body, say)
}

// read reads the events of a reply to the one that ends it. The transport counts each chunk as activity; read reports
// each new status as progress.
func read(ctx context.Context, body io.Reader, say say) (reply, error) {
	lines := bufio.NewScanner(body)
	kind := ""
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "event":
			kind = text
		case name != "data" || kind == model.Token: // text is for the user
		case kind == model.Status:
			fresh := watchdog.FromContext(ctx).ProgressDigest(text)
			say("model: %s%s", text, map[bool]string{false: ", again"}[fresh])
		default:
			return reply{kind, text}, nil
		}
	}
	if err := lines.Err(); err != nil {
		return reply{}, err
	}
	return reply{}, errBrokenOff
}
