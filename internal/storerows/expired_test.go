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
			require.Equal(t, want, storerows.ParseExpired("12 "+want.String(), 12))
		}
	})
	t.Run("it is void for another attempt", func(t *testing.T) {
		for _, attempt := range []int{1, 13} {
			require.Zero(t, storerows.ParseExpired("12 "+lease.String(), attempt))
		}
	})
	t.Run("a text of another program says nothing", func(t *testing.T) {
		for _, text := range []string{"", "12", "12 ", "12 4", "12 4 5", "12 x 5 lease", "12 4 x lease", `{"a":1}`} {
			require.Zero(t, storerows.ParseExpired(text, 12), text)
		}
	})
}
