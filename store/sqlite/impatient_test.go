package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// TestImpatientCallers protects, under the race detector, that what a call returns whose context ends while it is being
// written is not written any more, as the named result of a function was to which the write belonged.
func TestImpatientCallers(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	require.NoError(t, s.BeginLease(t.Context(), session.Lease{ID: "lease", Promise: time.Minute}))
	_, attached, err := s.Attach(t.Context(), session.Session{RunID: "run-0"})
	require.NoError(t, err)
	for name, call := range map[string]func(ctx context.Context, n int) (answer any, err error){
		"attach": func(ctx context.Context, n int) (any, error) {
			_, after, err := s.Attach(ctx, session.Session{RunID: fmt.Sprint("run-", n)})
			return after, err
		},
		"claim": func(ctx context.Context, _ int) (any, error) {
			return s.Claim(ctx, attached, session.ClaimRequest{By: "sweeper"})
		},
		"expire a lease": func(ctx context.Context, n int) (any, error) {
			expired, _, err := s.ExpireLease(ctx, session.Lease{ID: fmt.Sprint("lease-", n)})
			return expired, err
		},
		"observe leases": func(ctx context.Context, _ int) (any, error) {
			return s.ObserveLeases(ctx, []string{"lease"})
		},
		"the ends of a lease": func(ctx context.Context, _ int) (any, error) {
			return s.Ended(ctx, "lease", []session.AttemptID{{RunID: "run-0", Attempt: 1}})
		},
		"freshen": func(ctx context.Context, _ int) (any, error) {
			skipped, err := s.Freshen(ctx, "lease", []session.Freshness{{RunID: "run-0", Attempt: 1}})
			return skipped.Gone, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(int(2*time.Millisecond))))
				answer, err := call(ctx, n)
				cancel()
				if err != nil {
					require.Empty(t, answer)
				}
			}
		})
	}
}
