package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/seed62658d38/watchdog"
)

// Stats are what a sweeper did since it was made.
type Stats struct {
	Enabled  bool
	Interval time.Duration
	// Running tells that Run sweeps: it was called and has not returned. It is false for a disabled sweeper, and for one
	// whose host calls only [Sweeper.Sweep].
	Running bool
	// Passing tells that a pass is under way, of Run or of Sweep, also one of Sweep that waits for leases.
	Passing bool
	// Passes is the number of passes, with those that ended early because their context ended.
	Passes int
	Tally
	// Last is the last pass, without its Cases and Errs; zero before there was one.
	Last Pass
	// ConsecutiveFailures is how many passes in a row failed, up to the last. A pass that ended because its context
	// did has not failed.
	ConsecutiveFailures int
	// Next is when Run has its next pass, or planned the one that is under way, by this host's clock. It is zero while
	// Run does not run.
	Next time.Time
	// ClockSteps is how often the database's clock was set by more than a few seconds, compared with the clock of this
	// process. LastClockStep is by how much it was the last time; negative if it was set back. A machine that was
	// suspended sees a step forward.
	ClockSteps    int
	LastClockStep time.Duration
}

// Stats returns what the sweeper did so far.
func (s *Sweeper) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Running, stats.Passing = stats.Enabled && s.running.Load(), s.underWay > 0
	return stats
}

func (s *Sweeper) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay++
}

// count adds a pass that is over. It was stopped if its context ended.
func (s *Sweeper) count(p Pass, steps []time.Duration, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.stats.Passes++
	s.stats.add(p.Tally)
	switch {
	case p.Err == nil:
		s.stats.ConsecutiveFailures = 0
	case !stopped:
		s.stats.ConsecutiveFailures++
	}
	for _, step := range steps {
		s.stats.ClockSteps++
		s.stats.LastClockStep = step
	}
	p.Cases, p.Errs = nil, nil
	s.stats.Last = p
}

// setNext notes when Run has its next pass; zero means that it has none.
func (s *Sweeper) setNext(next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Next = next
}

// The statuses of the health page.
const (
	statusOK       = "ok"
	statusFailing  = "failing"
	statusOverdue  = "overdue"
	statusDisabled = "disabled"
)

// The health page. Fields are added at the end and never renamed.
type (
	health struct {
		Status              string      `json:"status"`
		Running             bool        `json:"running"`
		Passes              int         `json:"passes"`
		Checked             int         `json:"checked"`
		Found               int         `json:"found"`
		Cancelled           int         `json:"cancelled"`
		Spared              int         `json:"spared"`
		Failed              int         `json:"failed"`
		Warned              int         `json:"warned"`
		Deferred            int         `json:"deferred"`
		Resumed             int         `json:"resumed"`
		Errors              int         `json:"errors"`
		ConsecutiveFailures int         `json:"consecutive_failures"`
		LastPass            *healthPass `json:"last_pass"`
		NextPassAt          *time.Time  `json:"next_pass_at"`
		Passing             bool        `json:"passing"`
		EndStored           int         `json:"end_stored"`
		LeasesExpired       int         `json:"leases_expired"`
		ClockSteps          int         `json:"clock_steps"`
		LastClockStep       float64     `json:"last_clock_step_seconds,omitempty"`
		Lost                int         `json:"lost,omitempty"`
	}
	healthPass struct {
		StartedAt  time.Time `json:"started_at"`
		DurationMS float64   `json:"duration_ms"`
		Error      string    `json:"error,omitempty"`
		FleetDied  bool      `json:"fleet_died,omitempty"`
	}
)

// Handler serves the health of the sweeper as JSON, for GET and HEAD. The status is 503 if the last pass failed, or if
// the next pass is more than an interval late, else 200. The page can be public, so that it names only the kind of an
// error, such as a timeout. The log and [Sweeper.Stats] say more.
func (s *Sweeper) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "use GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		page := s.Stats().health(time.Now())
		text, _ := json.MarshalIndent(page, "", "  ") // cannot fail: the page has strings, numbers and times only
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if page.Status == statusFailing || page.Status == statusOverdue {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(append(text, '\n')) // nobody to tell: the client is gone
	})
}

func (s Stats) health(now time.Time) health {
	page := health{
		Status: s.status(now), Running: s.Running, Passes: s.Passes,
		Checked: s.Checked, Found: s.Found, Cancelled: s.Cancelled, Spared: s.Spared, Failed: s.Failed,
		Warned: s.Warned, Deferred: s.Deferred, Resumed: s.Resumed, Errors: s.Errors,
		ConsecutiveFailures: s.ConsecutiveFailures, Passing: s.Passing,
		EndStored: s.EndStored, LeasesExpired: s.LeasesExpired,
		ClockSteps: s.ClockSteps, LastClockStep: s.LastClockStep.Seconds(), Lost: s.Lost,
	}
	if s.Passes > 0 {
		page.LastPass = &healthPass{
			StartedAt: s.Last.StartedAt.UTC(), DurationMS: float64(s.Last.Duration.Microseconds()) / 1000,
			Error: kindOf(s.Last.Err), FleetDied: s.Last.FleetDied,
		}
	}
	if !s.Next.IsZero() {
		next := s.Next.UTC()
		page.NextPassAt = &next
	}
	return page
}

func (s Stats) status(now time.Time) string {
	switch {
	case !s.Enabled:
		return statusDisabled
	case s.ConsecutiveFailures > 0:
		return statusFailing
	case !s.Next.IsZero() && now.Sub(s.Next) > s.Interval:
		return statusOverdue
	}
	return statusOK
}

func kindOf(err error) string {
	var stop *watchdog.Stop
	switch {
	case err == nil:
		return ""
	case errors.As(err, &stop): // a time-out of the run that the sweeper is in, not of the store
		return "stopped"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "stopped"
	}
	return "failed"
}

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
