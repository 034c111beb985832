package notify_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// hookSecret comes from the environment or a file in a real program.
const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// A store keeps events and their notices, as one of store/sqlite or store/postgres that was opened with Outbox.
type store interface {
	watchdog.EventStore
	session.Outbox
}

// tell sends what the store has, and what comes, until ctx ends.
func tell(ctx context.Context, s store, url string) error {
	sender, err := notify.New(s, s, notify.Config{URL: url, Secrets: []string{hookSecret}})
	if err != nil {
		return err
	}
	return sender.Run(ctx)
}

func ExampleSender_Run() {
	// a receiver
	ctx, cancel := context.WithCancel(context.Background())
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
		if err == nil {
			_, err = notify.Verify(r.Header, body, hookSecret)
		}
		if err != nil {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		fmt.Println("told of an alert")
		w.WriteHeader(http.StatusNoContent)
		cancel() // the example is over
	}))
	defer receiver.Close()

	s := &box{}
	alert := sweep.Alert{Count: 10, Within: time.Hour, Func: notify.Alert(s, time.Hour, nil)}
	alert.Func(ctx, 11) // a sweeper calls it

	if err := tell(ctx, s, receiver.URL); err != nil {
		fmt.Println(err)
	}
	// Output: told of an alert
}
