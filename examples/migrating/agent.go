package migrating

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// ErrSilent is what the guards that are written by hand end their work with.
var ErrSilent = errors.New("the agent was silent for too long")

// A Message is one of those that an agent sends to its host.
type Message struct {
	// Silence is how long the tool may give no sign of life; 0 is no limit, as while a person is asked.
	Silence time.Duration
	// Handle does what the message asks for: it prints a text, runs a tool, asks a person. What a tool says in between
	// is told by alive, from any goroutine.
	Handle func(ctx context.Context, alive func()) error
	// Call is the ID of a tool that the agent has begun itself, Result that of one that has ended. Both have no Handle.
	Call, Result string
}

// An Agent begins in a context, and sends messages until that ends.
type Agent func(ctx context.Context) (<-chan Message, error)

// An API is an agent behind HTTP: a line of the response is a message.
type API struct {
	Transport http.RoundTripper
	URL       string
	Decode    func(line []byte) Message
}

// Stream calls handle with each message until the channel is closed, as the libraries of model APIs do. It returns the
// first error of handle, or that of a context that is done, together with the context's cause.
func Stream(ctx context.Context, messages <-chan Message, handle func(Message) error) error {
	for {
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), context.Cause(ctx))
		case message, open := <-messages:
			if !open {
				return nil
			}
			if err := handle(message); err != nil {
				return errors.Join(err, context.Cause(ctx))
			}
		}
	}
}
