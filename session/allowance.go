package session

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// allowance returns how long a run may be silent until its own limits have ended it and its row says so; 0 for none, as
// for a run whose threshold the host has set.
func (k *Keeper) allowance(w *watchdog.Watchdog, own time.Duration) time.Duration {
	if own > 0 {
		return 0
	}
	allowed := k.allowed(w)
	if allowed == 0 {
		return 0
	}
	looked := max(k.cfg.Pace, verdict.RenewAfter(min(k.cfg.Promise, DefaultPromise))) // at the longest
	return verdict.Sum(allowed, looked+k.cfg.RecordTimeout)
}

// thresholdBeside returns the threshold of a row beside its allowance. Sweepers of earlier versions know no other: they
// must end the run no sooner than they would without it.
func (k *Keeper) thresholdBeside(allowance, own time.Duration) time.Duration {
	if allowance == 0 {
		return own
	}
	return max(allowance, k.cfg.Threshold)
}

// warnOfThreshold has the log say, once, that the host has runs ended before their own limits do it.
func (k *Keeper) warnOfThreshold(w *watchdog.Watchdog, own time.Duration) {
	allowed := k.allowance(w, 0)
	if own == 0 || allowed <= own {
		return
	}
	k.mu.Lock()
	told := k.toldShort
	k.toldShort = true
	k.mu.Unlock()
	if !told {
		k.logger().Warn("RunThreshold is shorter than what the limits of a run allow: sweepers end the run before these do",
			"run", w.ID(), "threshold", own, "allowed", allowed)
	}
}

// rose reports whether the row allows less silence than the run's limits do now.
func (k *Keeper) rose(r *keptRun) bool { return k.allowance(r.run, r.own) > r.allowance }

// allowedBy returns how long a run may be silent until its own limits have ended it, and that is recorded; 0 if none
// does. At each rung the host is asked, and the store has to answer.
func allowedBy(w *watchdog.Watchdog) time.Duration {
	run := handle.Of(w.Context()).Settings()
	if run.Disabled || run.ObserveOnly {
		return 0
	}
	return verdict.AllowedSilence(run.Limits, run.RecordTimeout+watchdog.BusyTimeout)
}
