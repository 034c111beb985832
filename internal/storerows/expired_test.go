package storerows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

func TestExpiredLease(t *testing.T) {
	lease := storerows.ExpiredLease{ID: "lease-1", Looks: 4, RenewedAt: time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)}
	t.Run("what was written is read, with a name that has spaces and a time that is none", func(t *testing.T) {
		for _, want := range []storerows.ExpiredLease{lease, {ID: " a b  c"}, {ID: "9", Looks: 1, RenewedAt: lease.RenewedAt}} {
			require.Equal(t, want, storerows.ParseExpired(want.String()))
		}
	})
	t.Run("a text of another program says nothing", func(t *testing.T) {
		for _, text := range []string{"", "4", "4 5", "x 5 lease", "4 x lease", `{"a":1}`} {
			require.Zero(t, storerows.ParseExpired(text), text)
		}
	})
}
