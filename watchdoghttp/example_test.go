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

// A stalledModel stands in for a server that streams two tokens and then says nothing more.
type stalledModel struct{}

func (stalledModel) RoundTrip(*http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	go io.WriteString(write, "data: Hello\n\ndata: wor\n\n")
	return &http.Response{StatusCode: http.StatusOK, Body: read}, nil
}

// Responses are activity of the run in the request's context, and the client does not wait for a silent server.
func ExampleTransport() {
	client := &http.Client{Transport: &watchdoghttp.Transport{
		Base: stalledModel{},        // nil is the network
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

// A pingingModel stands in for a server that streams a token and then only pings.
type pingingModel struct{}

func (pingingModel) RoundTrip(*http.Request) (*http.Response, error) {
	read, write := io.Pipe()
	go func() {
		_, err := io.WriteString(write, "data: Hello\n\n")
		for err == nil {
			time.Sleep(time.Millisecond)
			_, err = io.WriteString(write, ": ping\n\n")
		}
	}()
	header := http.Header{"Content-Type": {"text/event-stream"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: read}, nil
}

// A model that sends pings and nothing else is silent.
func ExampleEventStream() {
	client := &http.Client{Transport: &watchdoghttp.Transport{
		Base:  pingingModel{},        // nil is the network
		Idle:  20 * time.Millisecond, // minutes, elsewhere
		Alive: watchdoghttp.EventStream,
	}}
	resp, err := client.Get("https://model.example/v1/chat")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	fmt.Println(errors.Is(err, watchdoghttp.ErrSilent))
	// Output:
	// true
}
