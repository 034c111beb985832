package migrating_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/examples/migrating"
)

// limit is how long the agent of a test may be silent. A ticker looks every ten seconds.
const limit time.Duration = 100 * time.Second

// A host runs an agent under a limit of silence.
type host func(ctx context.Context, a *agent, limit time.Duration) error

// consumer is a host of an agent that sends on a channel.
func consumer(consume func(context.Context, <-chan migrating.Message, time.Duration) error) host {
	return func(ctx context.Context, a *agent, limit time.Duration) error {
		return consume(ctx, a.channel(ctx), limit)
	}
}

// starter is a host that begins an agent itself.
func starter(run func(context.Context, migrating.Agent, time.Duration) error) host {
	return func(ctx context.Context, a *agent, limit time.Duration) error {
		begin := func(ctx context.Context) (<-chan migrating.Message, error) { return a.channel(ctx), nil }
		return run(ctx, begin, limit)
	}
}

// client is a host of an agent that answers over HTTP.
func client(read func(context.Context, migrating.API, time.Duration) error) host {
	return func(ctx context.Context, a *agent, limit time.Duration) error {
		api := migrating.API{Transport: a, URL: "http://agent.example/answer", Decode: a.decode}
		return read(ctx, api, limit)
	}
}

// An agent says what the script of a test has it say. What its host has not taken yet waits.
type agent struct {
	t    *testing.T
	kind kind

	mu       sync.Mutex // guards the rest
	messages []migrating.Message
	sent     chan int // the index of each message
	ended    chan struct{}
	err      error
	after    time.Duration
}

// start runs a host with an agent in the bubble of the test.
func start(ctx context.Context, t *testing.T, k kind, run host, limit time.Duration) *agent {
	t.Helper()
	a := &agent{t: t, kind: k, sent: make(chan int, 100), ended: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(a.ended)
		a.err = run(ctx, a, limit)
		a.after = time.Since(began)
	}()
	synctest.Wait()
	return a
}

// send sends a message that takes a time in which it says nothing, unless the context ends.
func (a *agent) send(silence, takes time.Duration) {
	a.do(silence, func(ctx context.Context, _ func()) error { return sleep(ctx, takes) })
}

// say sends a text, which takes no time.
func (a *agent) say() { a.send(a.kind.text, 0) }

func (a *agent) do(silence time.Duration, handle func(context.Context, func()) error) {
	a.mu.Lock()
	a.messages = append(a.messages, migrating.Message{Silence: silence, Handle: handle})
	a.sent <- len(a.messages) - 1
	a.mu.Unlock()
	synctest.Wait()
}

// someBytes stands for bytes of an answer that are no whole line.
const someBytes = -1

// sendBytes sends some.
func (a *agent) sendBytes() {
	a.sent <- someBytes
	synctest.Wait()
}

// end ends what the agent says, waits for the host, and returns what it returned.
func (a *agent) end() error {
	close(a.sent)
	return a.wait()
}

func (a *agent) wait() error {
	<-a.ended
	return a.err
}

// hasEnded reports whether the host has.
func (a *agent) hasEnded() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

func (a *agent) message(i int) migrating.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.messages[i]
}

// channel is what the agent says, for a host that takes one message at a time.
func (a *agent) channel(ctx context.Context) <-chan migrating.Message {
	messages := make(chan migrating.Message, cap(a.sent))
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.ended:
				return
			case i, more := <-a.sent:
				if !more {
					close(messages)
					return
				}
				a.tell(ctx, messages, a.message(i))
			}
		}
	}()
	return messages
}

// tell sends a message. An agent that runs its tools itself sends what these say as texts.
func (a *agent) tell(ctx context.Context, messages chan<- migrating.Message, message migrating.Message) {
	if !a.kind.pairs || message.Silence == a.kind.text {
		messages <- message
		return
	}
	nothing := func(context.Context, func()) error { return nil }
	messages <- migrating.Message{Call: "call-1", Silence: message.Silence}
	_ = message.Handle(ctx, func() { messages <- migrating.Message{Handle: nothing} })
	messages <- migrating.Message{Result: "call-1"}
}

// RoundTrip implements [http.RoundTripper]. The body heeds the context, as that of a real one does.
func (a *agent) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	body, w := io.Pipe()
	go func() {
		defer w.Close()
		for i := range a.sent {
			line := fmt.Sprintln(i)
			if i == someBytes {
				line = " "
			}
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	}()
	stop := context.AfterFunc(req.Context(), func() { _ = body.CloseWithError(req.Context().Err()) })
	answer := &http.Response{StatusCode: http.StatusOK, Body: streamed{body, stop}, Request: req}
	return answer, nil
}

// A streamed body lets its request's context go when it is closed.
type streamed struct {
	*io.PipeReader
	stop func() bool
}

// Close implements [io.Closer].
func (b streamed) Close() error {
	b.stop()
	return b.PipeReader.Close()
}

func (a *agent) decode(line []byte) migrating.Message {
	i, err := strconv.Atoi(strings.TrimSpace(string(line)))
	require.NoError(a.t, err)
	return a.message(i)
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
