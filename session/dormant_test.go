package session_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// TestDormant protects that a run that had nothing new for long is looked at by the next flush, and not with the next
// renewal of the lease, as soon as there is a reason. No time passes, so that no renewal is due.
func TestDormant(t *testing.T) {
	for name, rouse := range map[string]func(f *fixture){
		"its lease has expired, and another begins": func(f *fixture) {
			f.expire(f.row("s-1").Lease)
			f.keeper().Renew(context.Background())
			require.Empty(f, f.row("s-1").Lease)
		},
		"its row is to be written again": func(f *fixture) { f.keeper().RecheckAll() },
	} {
		subtest(t, name, func(f *fixture) {
			f.attach("s-1")
			f.keeper().Flush(context.Background())
			f.db.takeCounts()
			rouse(f)
			f.keeper().Flush(context.Background())
			_, written := f.db.takeCounts()
			require.Equal(f, 1, written)
			require.NotEmpty(f, f.row("s-1").Lease)
			f.keeper().Flush(context.Background())
			_, written = f.db.takeCounts()
			require.Zero(f, written, "it is dormant again")
		})
	}
	subtest(t, "its row was locked when it ended", func(f *fixture) {
		wd := f.attach("s-1")
		f.keeper().Flush(context.Background())
		f.db.Locked = func(string) bool { return true }
		require.NoError(f, wd.Close())
		f.db.Locked = nil
		require.Equal(f, session.Active, f.row("s-1").Status)
		f.keeper().Flush(context.Background())
		require.Equal(f, session.Finished, f.row("s-1").Status)
	})
}
