package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/seed62658d38/watchdog"
)

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

// kindOf returns what the page says of an error.
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
