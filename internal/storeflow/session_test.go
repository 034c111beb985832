package storeflow_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

func TestExpiredLease(t *testing.T) {
	lease := session.ExpiredLease{ID: "lease-1", Looks: 4, RenewedAt: time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)}
	t.Run("what was written is read, with a name that has spaces and a time that is none", func(t *testing.T) {
		for _, want := range []session.ExpiredLease{lease, {ID: " a b  c"}, {ID: "9", Looks: 1, RenewedAt: lease.RenewedAt}} {
			require.Equal(t, want, storeflow.ReadExpired(storeflow.ExpiredText(session.Lease{
				ID: want.ID, Looks: want.Looks, RenewedAt: want.RenewedAt,
			})))
		}
	})
	t.Run("a text of another program says nothing", func(t *testing.T) {
		for _, text := range []string{"", "4", "4 5", "x 5 lease", "4 x lease", `{"a":1}`} {
			require.Zero(t, storeflow.ReadExpired(text), text)
		}
	})
}
