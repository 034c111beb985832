package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

func TestSessionHostLost(t *testing.T) {
	active, expired := session.Session{Status: session.Active}, session.ExpiredLease{ID: "lease-1"}
	for name, c := range map[string]struct {
		change func(s *session.Session)
		want   bool
	}{
		"its lease expired":             {func(s *session.Session) { s.Expired = expired }, true},
		"a sweeper saw its process die": {func(s *session.Session) { s.Lost = true }, true},
		"it never had a lease":          {func(*session.Session) {}, false},
		"it has a lease":                {func(s *session.Session) { s.Lease = "lease-2" }, false},
		"it has another lease": {func(s *session.Session) {
			s.Lease, s.Expired, s.Lost = "lease-2", expired, true
		}, false},
		"it has ended": {func(s *session.Session) { s.Status, s.Expired = session.Finished, expired }, false},
	} {
		s := active
		c.change(&s)
		require.Equal(t, c.want, s.HostLost(), name)
	}
}
