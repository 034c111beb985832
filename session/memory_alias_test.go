package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// What a caller does to a lease that it wrote or read changes no other.
func TestMemoryLeaseIsCopied(t *testing.T) {
	ctx := t.Context()
	m := &session.Memory{}
	want := session.RowBehind{RunID: "s-1", Attempt: 1, Written: 1}
	behind := func() session.RowBehind {
		leases, err := m.ObserveLeases(ctx, nil)
		require.NoError(t, err)
		got := leases[0].Behind[0]
		leases[0].Behind[0].RunID = "read"
		return got
	}
	written := session.Lease{ID: "l-1", Beat: 1, Covered: 1, Behind: []session.RowBehind{want}}
	require.NoError(t, m.BeginLease(ctx, written))
	written.Behind[0].RunID = "written"
	require.Equal(t, want, behind())
	require.Equal(t, want, behind())
}
