package notify

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// alertType is the aggregate type of an alert.
const alertType = "sweeper"

// An alert that cannot be put is tried so often in all, so long after one another.
const alertTries, alertPause = 3, time.Second

// Alert returns a func for the alert of a sweeper that counts cancels within a time: it puts a notice into the outbox,
// with the number of cancels and that time only. Unlike the end of a run it is in no transaction: a process that dies
// first puts none. What cannot be put is tried three times, and is then an error in the log; nil is [slog.Default].
func Alert(outbox session.Outbox, within time.Duration, logger *slog.Logger) func(ctx context.Context, cancels int) {
	if logger == nil {
		logger = slog.Default()
	}
	return func(ctx context.Context, cancels int) {
		n := session.Notice{
			ID: rand.Text(), AggregateType: alertType, AggregateID: fmt.Sprintf(alertFormat, cancels, within), Type: TypeAlert,
		}
		if err := putAlert(ctx, outbox, n); err != nil {
			logger.ErrorContext(ctx, "an alert of many cancels could not be put into the outbox, and nobody is told",
				"cancels", cancels, "within", within, "error", err)
		}
	}
}

func putAlert(ctx context.Context, outbox session.Outbox, n session.Notice) (err error) {
	for range alertTries {
		_, err = onStore(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, outbox.PutNotices(ctx, n) })
		if err == nil || !pause(ctx, alertPause) {
			return err
		}
	}
	return err
}
