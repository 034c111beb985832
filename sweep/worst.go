package sweep

import (
	"cmp"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// WorstTime returns the longest time from the last sign of life of a session to its cancel, if so many sessions stall
// at one moment and count toward the cap: they only look stalled, or a whole fleet seems to have died. For those of a
// host that dies while others live see [Config.WorstTimeLost]. It is [watchdog.NoLimit] if they are never cancelled. It
// is the sum of:
//
//   - Until a pass finds the sessions. If the process lives, that is StalledThreshold, or MinAge if that is longer; the
//     keeper's Pace and two thirds of its Promise, until its lease vouches for the silence; and the wait for a pass. If
//     it died, that is four promises, until its lease has expired, and the pass that is under way then: Run has one at
//     once. The first of the four is at least five seconds, because new leases are looked for so often. The longer one
//     counts.
//   - Grace, and the pass that is under way when it ends.
//   - Until it is the turn of the last one: a wait for each pass that is full. That is Interval, or less with
//     MaxCancellationsPerMinute.
//
// A wait is followed by a pass, which takes up to StopTimeout and a second for each StopHook and each Resume.Start. A
// sweeper whose Run goes on and a database that answers at once are assumed. An outage of the database comes on top,
// and so does the time by which its clock was set. Sessions with a threshold of their own have that instead of
// StalledThreshold.
func (c Config) WorstTime(k session.KeeperConfig, sessions int) time.Duration {
	c = c.withDefaults()
	if c.Disabled || c.DryRun || c.StalledThreshold == watchdog.NoLimit || c.MinAge == watchdog.NoLimit {
		return watchdog.NoLimit
	}
	k.Promise, k.Pace = cmp.Or(k.Promise, session.DefaultPromise), cmp.Or(k.Pace, session.DefaultPace)
	perPass := c.perPass(sessions)
	pass := times(c.hostTime(), perPass)
	worst := c.worstFound(k, pass)
	if c.Grace > 0 {
		worst = sum(worst, c.Grace, pass)
	}
	full := max(sessions-1, 0) / perPass
	return sum(worst, times(sum(c.waitFull(perPass), pass), full), pass)
}

// WorstTimeLost is WorstTime for the sessions of a host that dies while others live, and renew their leases within the
// three promises of its own: its sessions are lost, and no cap counts them. With a StopHook, or if sessions are started
// again, it is no shorter.
func (c Config) WorstTimeLost(k session.KeeperConfig, sessions int) time.Duration {
	if c.StopHook == nil && c.Resume.Max == 0 {
		c.MaxCancellationsPerRun, c.MaxCancellationsPerMinute = watchdog.NoLimit, 0
	}
	return c.WorstTime(k, sessions)
}

// worstFound returns how long it takes until a pass finds a session, if a pass takes as long as given. A wait is from
// one pass to the end of the next.
func (c Config) worstFound(k session.KeeperConfig, pass time.Duration) time.Duration {
	silent := sum(max(c.StalledThreshold, c.MinAge), k.Pace, 2*verdict.RenewAfter(k.Promise), c.Interval, pass)
	return max(silent, sum(verdict.FoundDeadWithin(k.Promise), pass))
}

// perPass returns how many of the sessions a pass cancels.
func (c Config) perPass(sessions int) int {
	most := min(max(sessions, 1), c.maxCancellations())
	if c.MaxCancellationsPerMinute > 0 {
		most = int(min(int64(most), c.MaxCancellationsPerMinute))
	}
	return most
}

// waitFull returns the time from a pass that was full to the next.
func (c Config) waitFull(perPass int) time.Duration {
	if c.MaxCancellationsPerMinute == 0 {
		return c.Interval
	}
	return min(c.Interval, spread(c.MaxCancellationsPerMinute, perPass))
}

// hostTime returns how long the host's funcs may take for one session.
func (c Config) hostTime() (d time.Duration) {
	if c.StopHook != nil {
		d = sum(d, c.StopTimeout, bounded.Lateness)
	}
	if c.Resume.Max > 0 {
		d = sum(d, c.StopTimeout, bounded.Lateness)
	}
	return d
}

func sum(lengths ...time.Duration) (all time.Duration) {
	for _, d := range lengths {
		all = verdict.Sum(all, d)
	}
	return all
}

func times(d time.Duration, n int) time.Duration {
	if n > 0 && d > watchdog.NoLimit/time.Duration(n) {
		return watchdog.NoLimit
	}
	return d * time.Duration(n)
}
