package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog"
)

func (s *Sweeper) logger() *slog.Logger {
	if s.cfg.Logger == nil {
		return slog.Default()
	}
	return s.cfg.Logger
}

// logStart writes the settings in force when Run begins.
func (s *Sweeper) logStart() { s.logger().Debug("the sweeper starts", s.cfg.attrs()...) }

// log writes the log of a pass of Run. A pass of Sweep is returned instead.
func (s *Sweeper) log(ctx context.Context, p Pass) {
	for _, err := range p.Errs {
		s.logger().Error("something went wrong about a session", "error", err)
	}
	switch {
	case p.Err != nil && ctx.Err() == nil:
		failures := s.Stats().ConsecutiveFailures
		s.logger().Error("a pass over the sessions failed", append(p.attrs(), "failures", failures, "error", p.Err)...)
	case p.Found > 0 || p.Errors > 0 || p.Cancelled+p.Resumed+p.LeasesExpired > 0:
		s.logger().Info("a pass over the sessions is done", p.attrs()...)
	default:
		s.logger().Debug("a pass over the sessions found nothing", p.attrs()...)
	}
}

// logEnd writes what the sweeper did, since it was made, when Run returns.
func (s *Sweeper) logEnd() {
	stats := s.Stats()
	s.logger().Debug("the sweeper has ended", append([]any{"passes", stats.Passes}, stats.attrs()...)...)
}

// attrs returns the settings for the log. Of the funcs it says which there are.
func (c Config) attrs() []any {
	return []any{
		"enabled", !c.Disabled, "dry_run", c.DryRun, "interval", c.Interval,
		"stalled_threshold", limit(c.StalledThreshold, c.StalledThreshold == watchdog.NoLimit),
		"min_age", max(c.MinAge, 0), "startup_delay", max(c.StartupDelay, 0),
		"max_cancellations", limit(c.MaxCancellationsPerRun, c.MaxCancellationsPerRun == watchdog.NoLimit),
		"grace", c.Grace, "stop_hook", c.StopHook != nil, "stop_timeout", c.StopTimeout,
		"record_timeout", c.RecordTimeout, "max_resumes", c.Resume.Max, "resume_tries", c.Resume.Tries,
		"alert_count", c.Alert.Count, "alert_within", c.Alert.Within,
		"max_cancellations_per_minute", limit(c.MaxCancellationsPerMinute, c.MaxCancellationsPerMinute == 0),
	}
}

// limit returns a limit for the log, which would show the largest number for none.
func limit[T time.Duration | int64](value T, none bool) any {
	if none {
		return "no limit"
	}
	return value
}

// attrs returns the counts for the log.
func (t Tally) attrs() []any {
	all := []any{
		"checked", t.Checked, "found", t.Found, "cancelled", t.Cancelled, "spared", t.Spared, "failed", t.Failed,
		"warned", t.Warned, "deferred", t.Deferred, "resumed", t.Resumed, "errors", t.Errors,
		"end_stored", t.EndStored, "leases_expired", t.LeasesExpired,
	}
	if t.Lost > 0 {
		all = append(all, "lost", t.Lost)
	}
	return all
}

// attrs returns the pass for the log.
func (p Pass) attrs() []any {
	return append(p.Tally.attrs(), "duration", p.Duration, "dry_run", p.DryRun)
}
