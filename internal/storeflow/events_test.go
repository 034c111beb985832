package storeflow_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// Follow waits as long as each poll asks, and tells nothing more once the store is closed: the next poll fails at once.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errClosed, closed, began := errors.New("closed"), false, time.Now()
		var polls []time.Duration
		var told []string
		err := storeflow.Follow(t.Context(), time.Second, func() bool { return closed }, func(e watchdog.Event) {
			told = append(told, e.ID)
			closed = e.ID == "2"
		}, func(context.Context) ([]watchdog.Event, time.Duration, error) {
			polls = append(polls, time.Since(began))
			switch {
			case closed:
				return nil, 0, errClosed
			case len(polls) == 1:
				return []watchdog.Event{{ID: "1"}}, 5 * time.Second, nil
			}
			return []watchdog.Event{{ID: "2"}, {ID: "3"}}, time.Hour, nil
		})
		if !errors.Is(err, errClosed) || len(told) != 2 {
			t.Errorf("Follow returned %v and told %q", err, told)
		}
		if len(polls) != 3 || polls[0] != time.Second || polls[1] != 6*time.Second || polls[2] != 6*time.Second {
			t.Errorf("the polls were at %v", polls)
		}
	})
}
