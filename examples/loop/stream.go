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

// A reply is how the model ended what it said: what it wants next.
type reply struct{ kind, text string }

// errBrokenOff says that a stream ended before the model had said what it wants.
var errBrokenOff = errors.New("the reply broke off")

// request posts a request and reads the reply as it is streamed.
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
	defer func() { _ = answer.Body.Close() }() // what is left of it no one needs
	if answer.StatusCode != http.StatusOK {
		return reply{}, fmt.Errorf("the model answers %s", answer.Status)
	}
	return read(ctx, answer.Body, say)
}

// read takes the events of a reply up to the one that ends it. Its chunks are activity, by the client's transport; what
// the model does is progress, unless it did the same before.
func read(ctx context.Context, body io.Reader, say say) (reply, error) {
	lines := bufio.NewScanner(body)
	kind := ""
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "event":
			kind = text
		case name != "data" || kind == model.Token: // words are for the user
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
