package sweeptest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// deadHost kills a host with many runs beside one that lives.
func deadHost(t *testing.T, db *database) {
	const runs = 250
	living, dying := newHost(db), newHost(db)
	living.Run, living.Host, living.Mute = "living", "host-b", true
	dying.More, dying.Mute = runs-1, true
	dying.Promise, living.Promise = 2*time.Second, 2*time.Second
	live, dead := start(t, living), start(t, dying)
	live.must()
	dead.must()
	dead.kill()
	dead.wait()
	died := time.Now()
	s := db.store(t)
	sweeper := newSweeper(t, s, s, sweep.Config{StalledThreshold: time.Second, MinAge: watchdog.None})
	p, err := sweeper.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, sweep.Tally{
		Checked: runs, Found: runs, Cancelled: runs, Lost: runs, LeasesExpired: 1,
	}, p.Tally)
	t.Logf("the last of %d was cancelled %v after the death", runs, time.Since(died))
	require.Len(t, db.cancels(t), runs)
	requireRow(t, db, "living", session.Session{Status: session.Active, Attempt: 1, Host: "host-b"})
	live.end()
	live.wait()
}

// longPromise kills a host while a sweeper does not know yet whether another lives, which promised five minutes.
func longPromise(t *testing.T, db *database) {
	const runs = 20
	living, dying := newHost(db), newHost(db)
	living.Run, living.Host, living.Mute, living.Promise = "living", "host-b", true, session.LongestPromise
	dying.More, dying.Mute = runs-1, true
	live, dead := start(t, living), start(t, dying)
	live.must()
	dead.must()
	sweeper := start(t, job{DSN: db.dsn, Interval: time.Second, Cap: 1000, Threshold: 2 * time.Second})
	go func() {
		for range sweeper.said {
		}
	}()
	time.Sleep(2 * time.Second) // in which the sweeper has its first look
	require.Zero(t, db.cancelled())
	dead.kill()
	dead.wait()
	died := time.Now()
	require.Eventually(t, func() bool { return db.cancelled() == runs }, time.Minute, 10*time.Millisecond)
	t.Logf("the last of %d was cancelled %v after the death", runs, time.Since(died))
	requireRow(t, db, "living", session.Session{Status: session.Active, Attempt: 1, Host: "host-b"})
	sweeper.kill()
	live.end()
	live.wait()
}
