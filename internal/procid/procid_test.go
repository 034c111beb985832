package procid_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/procid"
	"github.com/seed62658d38/watchdog/internal/record"
)

func TestMain(m *testing.M) {
	if os.Getenv("WATCHDOG_PROCID_CHILD") != "" {
		time.Sleep(time.Minute)
		return
	}
	goleak.VerifyTestMain(m)
}

// known reports whether something is known of other processes here.
const known = runtime.GOOS == "linux" || runtime.GOOS == "darwin"

// child starts a process, and returns it as the opener of a hold.
func child(t *testing.T) (*exec.Cmd, *record.Opener) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WATCHDOG_PROCID_CHILD=1")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	o := *procid.Attach(0)
	procid.Detach(&o)
	o.PID, o.Attach = record.Count(cmd.Process.Pid), "child"
	o.Started = startOf(t, cmd.Process.Pid, o.Started)
	return cmd, &o
}

// TestGone protects which openers are known to be gone.
func TestGone(t *testing.T) {
	self, other := procid.Attach(0), procid.Attach(0)
	gone := func(o *record.Opener) bool { return procid.Gone(o, self) }
	with := func(o *record.Opener, change func(o *record.Opener)) *record.Opener {
		changed := *o
		change(&changed)
		return &changed
	}
	t.Run("nobody knows of one of before, or without oneself", func(t *testing.T) {
		require.False(t, gone(nil))
		require.False(t, procid.Gone(self, nil))
	})
	t.Run("an attach of this process is until it has ended", func(t *testing.T) {
		require.NotEqual(t, self.Attach, other.Attach)
		require.False(t, gone(self))
		require.False(t, gone(other))
		procid.Detach(nil)
		procid.Detach(other)
		require.True(t, gone(other))
		require.False(t, gone(with(other, func(o *record.Opener) { o.Boot = "another" })))
	})
	t.Run("an earlier attempt is", func(t *testing.T) {
		third := with(self, func(o *record.Opener) { o.Attempt = 3 })
		elsewhere := record.Opener{Boot: "another", PID: self.PID, Attach: "elsewhere"}
		for attempt, want := range map[record.Count]bool{0: false, 2: true, 3: false, 4: false} {
			elsewhere.Attempt = attempt
			require.Equal(t, want, procid.Gone(&elsewhere, third), attempt)
			require.False(t, procid.Gone(&elsewhere, self), "nobody counts them")
		}
		require.False(t, procid.Gone(with(self, func(o *record.Opener) { o.Attempt = 2 }), third), "it lives in this process")
	})
	t.Run("a process is until it has ended, and not what has its PID then", func(t *testing.T) {
		cmd, o := child(t)
		require.False(t, gone(o))
		require.Equal(t, runtime.GOOS == "linux", gone(with(o, func(o *record.Opener) { o.Started++ })))
		require.False(t, gone(with(o, func(o *record.Opener) { o.Boot += "2" })))
		require.NoError(t, cmd.Process.Kill())
		if runtime.GOOS == "linux" {
			require.Eventually(t, func() bool { return gone(o) }, time.Minute, time.Millisecond, "nobody has waited for it")
		}
		_ = cmd.Wait()
		require.Equal(t, known, gone(o))
	})
	t.Run("no process has a PID like these", func(t *testing.T) {
		for _, pid := range []record.Count{0, -1} {
			require.False(t, gone(with(self, func(o *record.Opener) { o.PID, o.Attach = pid, "x" })))
		}
	})
}
