package watchdoghttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// stalledModel stands in for a server that streams two tokens and then says nothing more.
func stalledModel(*http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	go func() {
		io.WriteString(write, "data: Hello\n\ndata: wor\n\n")
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: read}, nil
}

// A client whose responses are activity of the run in the request's context, and that does not wait for a silent server.
func ExampleTransport() {
	client := &http.Client{Transport: &watchdoghttp.Transport{
		Base: based(stalledModel),   // nil is the network
		Idle: 20 * time.Millisecond, // minutes, elsewhere
	}}
	wd, _ := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: time.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{Idle: 10 * time.Minute}, // begun anew by every chunk
		Logger: slog.New(slog.DiscardHandler),
	})
	defer wd.Close()

	req, _ := http.NewRequestWithContext(wd.Context(), http.MethodPost, "https://model.example/v1/chat?key=secret", nil)
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if lines.Text() != "" {
			fmt.Println(lines.Text())
		}
	}
	var silence *watchdoghttp.SilenceError
	if errors.As(lines.Err(), &silence) {
		fmt.Println(silence.Host, "was silent, in the middle of its answer:", silence.Answered)
	}
	// Output:
	// data: Hello
	// data: wor
	// model.example was silent, in the middle of its answer: true
}
