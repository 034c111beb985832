package storeflow_test

import (
	"errors"
	"testing"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/session"
)

// The first that holds decides: what was done, that the session is another, that it is locked, that it is claimed.
func TestJudged(t *testing.T) {
	for judged, want := range map[storeflow.Judged]session.Outcome{
		{AsJudged: true, Locked: true, Free: true, Done: true}: session.Done,
		{AsJudged: true, Locked: true, Free: true}:             "",
		{AsJudged: true, Locked: true}:                         session.Taken,
		{Locked: true, Free: true}:                             session.Changed,
		{}:                                                     session.Changed,
	} {
		if got, err := judged.Outcome(); got != want || err != nil {
			t.Errorf("%+v: %q, %v, want %q", judged, got, err, want)
		}
	}
	if got, err := (storeflow.Judged{AsJudged: true}).Outcome(); got != "" || !errors.Is(err, session.ErrLocked) {
		t.Errorf("locked: %q, %v", got, err)
	}
}
