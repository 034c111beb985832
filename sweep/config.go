package sweep

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// The defaults of a [Config].
const (
	DefaultInterval         = 5 * time.Minute
	DefaultStalledThreshold = 10 * time.Minute
	DefaultMinAge           = 2 * time.Minute
	DefaultStartupDelay     = 30 * time.Second
	DefaultMaxCancellations = 10
	DefaultStopTimeout      = 30 * time.Second
)

// A Config says how sessions are swept. Its zero value sweeps with every default. It is copied.
type Config struct {
	// Disabled has [Sweeper.Run] do nothing but wait, and [Sweeper.Sweep] refuse.
	Disabled bool
	// Interval is the time from the end of a pass to the beginning of the next. Zero means [DefaultInterval].
	Interval time.Duration
	// StalledThreshold is how long a session may be without an event that has no threshold of its own. Zero means [DefaultStalledThreshold].
	// With [watchdog.NoLimit] only sessions that have a threshold of their own are judged.
	StalledThreshold time.Duration
	// MinAge is how old a session has to be, at least. Zero means [DefaultMinAge], [watchdog.None] no age.
	MinAge time.Duration
	// StartupDelay is how long Run waits before its first pass. Zero means [DefaultStartupDelay], [watchdog.None] no delay.
	StartupDelay time.Duration
	// MaxCancellationsPerRun is how many sessions a pass cancels at most, and how many it warns. Zero means
	// [DefaultMaxCancellations], [watchdog.NoLimit] no cap.
	MaxCancellationsPerRun int64
	// Grace has a session warned by an event first, and cancelled only if it has had none when a pass comes back that long after. The [Canceller] has to append events then, as a
	// [session.Store] does. Zero means no warning and no grace.
	Grace time.Duration
	// StopHook stops what works on a session, right before its cancel; a session that wakes up after that is spared though its agents are stopped. Its error is reported and does not keep
	// the session from being cancelled. Nil means that there is nothing to stop.
	StopHook func(ctx context.Context, s session.Session) error
	// StopTimeout bounds each call of a func of the host's: the context ends then, and a second later the call is left behind. Zero means [DefaultStopTimeout].
	StopTimeout time.Duration
	// RecordTimeout bounds each call of the [Finder] and the [Canceller] in the same way. Zero means [watchdog.DefaultRecordTimeout].
	RecordTimeout time.Duration
	// Resume has cancelled sessions resumed.
	Resume ResumePolicy
	// Alert tells of many cancels.
	Alert Alert
	// DryRun judges and changes nothing: no hook, no warning, no cancel.
	DryRun bool
	// OnPass is given every pass when it is over, before the next one can begin.
	OnPass func(p Pass)
	// Logger gets what no caller is returned. Nil means [slog.Default].
	Logger *slog.Logger
}

// A ResumePolicy says what is resumed. The zero value resumes nothing.
type ResumePolicy struct {
	// Max is how often a run is resumed at most, by whatever sweeper: its [session.Session].Resumes.
	Max int
	// Start resumes a run that was cancelled a moment ago, such as by having a worker call [watchdog.Resume]. What it starts must not need the context longer. If it fails, that was one of the
	// run's times.
	Start func(ctx context.Context, s session.Session) error
}

// An Alert tells of many cancels. The zero value never does.
type Alert struct {
	// Count is how many cancels of this sweeper are not worth an alert yet, Within the time in which they are counted, up to now.
	Count  int
	Within time.Duration
	// Func is called when a cancel makes more than Count, with how many there are, and again only after there were no more than Count for a while.
	Func func(ctx context.Context, cancels int)
}

// merged is the config with its defaults.
func (c Config) merged() Config {
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.StalledThreshold = cmp.Or(c.StalledThreshold, DefaultStalledThreshold)
	c.MinAge = cmp.Or(c.MinAge, DefaultMinAge)
	c.StartupDelay = cmp.Or(c.StartupDelay, DefaultStartupDelay)
	c.MaxCancellationsPerRun = cmp.Or(c.MaxCancellationsPerRun, DefaultMaxCancellations)
	c.StopTimeout = cmp.Or(c.StopTimeout, DefaultStopTimeout)
	c.RecordTimeout = cmp.Or(c.RecordTimeout, watchdog.DefaultRecordTimeout)
	return c
}

// most is how many sessions a pass cancels at most.
func (c Config) most() int { return int(min(c.MaxCancellationsPerRun, math.MaxInt)) }

// flaw says what is wrong with a config that is merged, or nothing.
func (c Config) flaw() string {
	for _, length := range []struct {
		name     string
		value    time.Duration
		noneIsOK bool
	}{
		{"Interval", c.Interval, false}, {"StalledThreshold", c.StalledThreshold, false}, {"MinAge", c.MinAge, true},
		{"StartupDelay", c.StartupDelay, true}, {"Grace", c.Grace, false}, {"StopTimeout", c.StopTimeout, false},
		{"RecordTimeout", c.RecordTimeout, false}, {"Alert.Within", c.Alert.Within, false},
	} {
		switch {
		case length.value >= 0:
		case length.noneIsOK && length.value == watchdog.None:
		case length.noneIsOK:
			return fmt.Sprintf("%s is %v; use a positive duration, 0 for the default, or watchdog.None", length.name, length.value)
		default:
			return fmt.Sprintf("%s is %v; use a positive duration, or 0", length.name, length.value)
		}
	}
	return cmp.Or(c.countFlaw(), c.pairFlaw())
}

func (c Config) countFlaw() string {
	for _, count := range []struct {
		name  string
		value int64
	}{{"MaxCancellationsPerRun", c.MaxCancellationsPerRun}, {"Resume.Max", int64(c.Resume.Max)}, {"Alert.Count", int64(c.Alert.Count)}} {
		if count.value < 0 {
			return fmt.Sprintf("%s is %d; use a positive number, or 0", count.name, count.value)
		}
	}
	return ""
}

// pairFlaw says what could never take effect.
func (c Config) pairFlaw() string {
	switch {
	case c.MinAge == watchdog.NoLimit:
		return "MinAge is without limit; no session would ever be old enough"
	case (c.Resume.Max > 0) != (c.Resume.Start != nil):
		return "of Resume only one of Max and Start is set; set both, or none"
	case (c.Alert.Within > 0) != (c.Alert.Func != nil):
		return "of Alert only one of Within and Func is set; set both, or none"
	case c.Alert.Count > 0 && c.Alert.Func == nil:
		return "Alert.Count is set without Alert.Func; set both, or none"
	}
	return ""
}
