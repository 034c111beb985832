package idle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

// A stream that is silent for too long ends its context.
func ExampleWithLimit() {
	ctx, timer := idle.WithLimit(context.Background(), 10*time.Millisecond)
	defer timer.Close()
	for _, token := range []string{"Hello,", "world"} {
		timer.Alive()
		fmt.Println(token)
	}
	<-ctx.Done() // nothing more comes
	if stop, stopped := timer.Stopped(); stopped {
		fmt.Println(stop.Code, "after more than", stop.Budget)
	}
	// Output:
	// Hello,
	// world
	// watchdog_idle_exceeded after more than 10ms
}

// A host that is told of silence decides itself what to do about it.
func ExampleNew() {
	told := make(chan string, 1)
	_, timer, err := idle.New(context.Background(), idle.Config{
		Limit:  10 * time.Millisecond,
		Busy:   func() bool { return false }, // such as: whether messages wait
		Notify: func(stop *watchdog.Stop) { told <- "silent for more than " + stop.Budget.String() },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer timer.Close()
	fmt.Println(<-told)
	// Output: silent for more than 10ms
}

// While a tool is in flight silence may last longer, and whatever it says renews that.
func ExampleTimer_Widen() {
	ctx, timer := idle.WithLimit(context.Background(), time.Minute)
	defer timer.Close()
	runTool := func() { timer.Alive() }

	narrow := timer.Widen(10 * time.Minute)
	runTool()
	narrow()
	fmt.Println(ctx.Err())
	// Output: <nil>
}

// Calls and their results come as pairs of messages. Each call has a limit of its own until its result is there.
func ExampleTimer_Begin() {
	_, timer := idle.WithLimit(context.Background(), time.Minute)
	defer timer.Close()
	onMessage := func(kind, id string) {
		timer.Alive()
		switch kind {
		case "tool_call":
			timer.Begin(id, 10*time.Minute)
		case "tool_result":
			timer.End(id) // also of a call that was made before: it is ignored
		}
	}
	onMessage("tool_result", "call-0")
	onMessage("tool_call", "call-1")
	onMessage("tool_result", "call-1")
	_, stopped := timer.Stopped()
	fmt.Println(stopped)
	// Output: false
}

// A context that exists before its timer: the session is made with it, and the timer asks the session.
func ExampleConfig_cancel() {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	session := make(chan string, 8) // made with ctx
	_, timer, err := idle.New(ctx, idle.Config{
		Limit:  10 * time.Millisecond,
		Cancel: cancel,
		Busy:   func() bool { return len(session) > 0 },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer timer.Close()
	<-ctx.Done()
	fmt.Println(errors.Is(context.Cause(ctx), watchdog.IdleExceeded))
	// Output: true
}

// What comes from a channel is a sign of life, and silence ends the wait for it.
func ExampleRecv() {
	ctx, timer := idle.WithLimit(context.Background(), 10*time.Millisecond)
	defer timer.Close()
	messages := make(chan string, 1)
	messages <- "hello"
	for {
		message, ok, err := idle.Recv(ctx, messages)
		if err != nil || !ok {
			fmt.Println("ended:", err != nil)
			return
		}
		fmt.Println(message)
	}
	// Output:
	// hello
	// ended: true
}

// A reader that a host already has.
func ExampleNewReader() {
	ctx, timer := idle.WithLimit(context.Background(), time.Minute)
	defer timer.Close()
	notPing := func(chunk []byte) bool { return chunk[0] != ':' }
	text, err := io.ReadAll(idle.NewReader(ctx, strings.NewReader("data: hello"), notPing))
	fmt.Println(string(text), err)
	// Output: data: hello <nil>
}

// A response's body whose silence ends the request.
func ExampleNewBody() {
	ctx, timer := idle.WithLimit(context.Background(), time.Minute)
	defer timer.Close()
	resp := &http.Response{Body: io.NopCloser(strings.NewReader("hello"))} // of a client's Do
	resp.Body = idle.NewBody(ctx, resp.Body, nil)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Println(string(text), err)
	// Output: hello <nil>
}
