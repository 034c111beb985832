package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
)

func ExampleSender_Run() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // from the environment or a file, in a real program
	ctx, cancel := context.WithCancel(context.Background())

	// What the receiver does.
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err == nil {
			_, err = notify.Verify(r.Header, body, secret)
		}
		if err != nil {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		var notice struct {
			Type string
			Data struct {
				RunID  string `json:"run_id"`
				Reason string
			}
		}
		_ = json.Unmarshal(body, &notice)
		fmt.Println(notice.Type, notice.Data.RunID, notice.Data.Reason)
		w.WriteHeader(http.StatusNoContent)
		cancel() // the example is over
	}))
	defer receiver.Close()

	// A store with an outbox, as one of store/sqlite or store/postgres that is opened with Outbox.
	store := &session.Memory{Outbox: true}
	wd, err := watchdog.New(ctx, watchdog.Run{ID: "nightly", StartedAt: time.Now()},
		watchdog.Config{Store: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()
	_, _ = wd.Cancel(watchdog.Cancellation{Reason: watchdog.GradeRegressing})

	// What tells the receiver, here or in another process.
	sender, err := notify.New(store, store, notify.Config{URL: receiver.URL, Secrets: []string{secret}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = sender.Run(ctx)
	// Output: watchdog.stop nightly grade_regressing
}
