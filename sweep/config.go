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
	DefaultResumeTries      = 10
)

// A Config says how sessions are swept. The zero value has every default. [New] copies it.
type Config struct {
	// Disabled turns the sweeper off: [Sweeper.Run] only waits, and [Sweeper.Sweep] returns [ErrDisabled].
	Disabled bool
	// Interval is the time from the end of a pass to the start of the next. Zero means [DefaultInterval].
	Interval time.Duration
	// StalledThreshold is how long a session without a threshold of its own may have no event. Zero means
	// [DefaultStalledThreshold]. With [watchdog.NoLimit] only sessions with a threshold of their own are judged.
	StalledThreshold time.Duration
	// MinAge is the age from which a session can be stalled. Zero means [DefaultMinAge], [watchdog.None] any age.
	MinAge time.Duration
	// StartupDelay is how long Run waits before its first pass. Zero means [DefaultStartupDelay], [watchdog.None] no
	// delay.
	StartupDelay time.Duration
	// MaxCancellationsPerRun is the largest number of sessions that only look stalled which a pass cancels, and that it
	// warns. Zero means [DefaultMaxCancellations], [watchdog.NoLimit] no cap. The next pass goes on after the interval: at
	// the defaults that is 2 a minute, and 83 hours for 10,000 sessions. See [Config.WorstTime]. A pass that Run has in
	// between because a process died may cancel what the pass before has left of the cap.
	//
	// Sessions that were lost with their process ([session.Session].Lost) do not count: a pass cancels all of them. They
	// do count with a StopHook, or if they are started again, because the host's funcs stay limited. And no session is
	// lost where a whole fleet seems to have died: see the package documentation.
	MaxCancellationsPerRun int64
	// MaxCancellationsPerMinute makes the cap a rate: this sweeper cancels at most so many sessions that count in any
	// minute, and a pass that was full is followed by the next as soon as the rate allows it, spread over the minute, and
	// not after the interval. No pass cancels more than MaxCancellationsPerRun all the same. Zero means no rate.
	MaxCancellationsPerMinute int64
	// Grace is the time from a warning event to the cancel, by the database's clock. A session that has an event in
	// between is not cancelled. The [Canceller] must have the method Warn of a [session.Store], or Append: then only
	// this sweeper knows of the warning. Zero means no warning and no grace.
	Grace time.Duration
	// StopHook stops what works on a session, right before the cancel. If the session wakes up after that, it is
	// spared although its agents are stopped. An error of the hook is reported, and is in the row and in the cancel
	// event; the session is cancelled all the same. With a [Canceller] that can Claim, one sweeper calls the hook, once
	// for each silence: if it cannot cancel the session then, the row says that the hook was called, and whether it
	// failed. Another sweeper calls it only if that one died meanwhile, or could not write that, and its claim has ended.
	// If another transaction has locked the row, neither happens. Nil means that there is nothing to stop.
	StopHook func(ctx context.Context, s session.Session) error
	// StopTimeout limits each call of a func of the host. The context ends then; a second later the sweeper gives up
	// waiting and leaves the call behind. Zero means [DefaultStopTimeout].
	StopTimeout time.Duration
	// RecordTimeout limits each call of the [Finder] and the [Canceller] in the same way. Zero means
	// [watchdog.DefaultRecordTimeout].
	RecordTimeout time.Duration
	// Resume says which cancelled sessions are started again.
	Resume ResumePolicy
	// Alert is called when there are many cancels.
	Alert Alert
	// DryRun judges sessions and writes nothing: no hook, no warning, no cancel. It observes no lease, so that it does not
	// show the sessions of hosts that died and that no sweeper has found dead yet.
	DryRun bool
	// OnPass gets every pass after its end and before the start of the next one.
	OnPass func(p Pass)
	// Logger gets what no call returns. Nil means [slog.Default].
	Logger *slog.Logger
}

// A ResumePolicy says which cancelled sessions are started again. The zero value starts none.
type ResumePolicy struct {
	// Max is how often one run is resumed, by all sweepers together: see [session.Session].Resumes. Zero starts
	// none, and is an error with Start.
	Max int
	// Tries is how often Start is called for one resume, by all sweepers together; a call counts also if its sweeper died.
	// Zero means [DefaultResumeTries]. After that an error and the log say that the run is not resumed any more.
	Tries int
	// Start resumes a run that was cancelled, for example by having a worker call [watchdog.Resume]. What it starts must
	// outlive the context. S is the row as the cancel left it, at the first call without its EndedAt.
	//
	// The cancel writes into the row that the start is wanted, and the sweeper calls Start next. If the call fails, or if
	// no attempt of the run follows it ([session.Store].Attach), Start is called again, by any sweeper with a
	// ResumePolicy, after pauses that grow from half an interval to six hours or the interval. The same holds if the
	// sweeper died. So Start is called at least once for each resume, and a call may be one again whose run is about to
	// attach: s.Start.Key is the same at each, and names the resume. A [Canceller] that keeps no [session.Starts] has it
	// called once.
	Start func(ctx context.Context, s session.Session) error
}

func (c Config) withDefaults() Config {
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.StalledThreshold = cmp.Or(c.StalledThreshold, DefaultStalledThreshold)
	c.MinAge = cmp.Or(c.MinAge, DefaultMinAge)
	c.StartupDelay = cmp.Or(c.StartupDelay, DefaultStartupDelay)
	c.MaxCancellationsPerRun = cmp.Or(c.MaxCancellationsPerRun, DefaultMaxCancellations)
	c.StopTimeout = cmp.Or(c.StopTimeout, DefaultStopTimeout)
	c.RecordTimeout = cmp.Or(c.RecordTimeout, watchdog.DefaultRecordTimeout)
	if c.Resume.Start != nil {
		c.Resume.Tries = cmp.Or(c.Resume.Tries, DefaultResumeTries)
	}
	return c
}

func (c Config) logger() *slog.Logger { return cmp.Or(c.Logger, slog.Default()) }

func (c Config) maxCancellations() int { return int(min(c.MaxCancellationsPerRun, math.MaxInt)) }

// flaw says what is wrong with a config that has its defaults, or returns "".
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
			return fmt.Sprintf("%s is %v; use a positive duration, 0 for the default, or watchdog.None",
				length.name, length.value)
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
	}{
		{"MaxCancellationsPerRun", c.MaxCancellationsPerRun},
		{"MaxCancellationsPerMinute", c.MaxCancellationsPerMinute}, {"Resume.Max", int64(c.Resume.Max)},
		{"Resume.Tries", int64(c.Resume.Tries)}, {"Alert.Count", int64(c.Alert.Count)},
	} {
		if count.value < 0 {
			return fmt.Sprintf("%s is %d; use a positive number, or 0", count.name, count.value)
		}
	}
	return ""
}

// pairFlaw says which setting could never take effect.
func (c Config) pairFlaw() string {
	switch {
	case c.MinAge == watchdog.NoLimit:
		return "MinAge is without limit; no session would ever be old enough"
	case (c.Resume.Max > 0) != (c.Resume.Start != nil):
		return "of Resume only one of Max and Start is set; set both, or none"
	case c.Resume.Tries > 0 && c.Resume.Start == nil:
		return "Resume.Tries is set without Resume.Start; set both, or none"
	case (c.Alert.Within > 0) != (c.Alert.Func != nil):
		return "of Alert only one of Within and Func is set; set both, or none"
	case c.Alert.Count > 0 && c.Alert.Func == nil:
		return "Alert.Count is set without Alert.Func; set both, or none"
	}
	return ""
}

// A Finder finds stalled sessions, as the method of a [session.Store] does. The sweeper judges again what it returns,
// and only a session that is [session.Active] can be stalled: a host whose database cannot judge may return them all.
//
// If a finder, or else the canceller, has the methods ObserveLeases and ExpireLease of [session.Leases], the sweeper
// finds out which processes have died. It calls these beside the other methods.
type Finder interface {
	Stalled(ctx context.Context, q session.Query) (session.Page, error)
}

// A Canceller ends a session that is still as it was judged, as the method of a [session.Store] does.
//
// If it has more methods of a Store, the sweeper uses them: Claim before the [Config].StopHook, so that one sweeper
// calls the hook; Warn, so that sweepers of other processes see a warning; and Session, to look up what became of a
// cancel whose answer was lost. If it keeps [session.Starts], a run of a [ResumePolicy] is started whatever becomes of
// the sweeper that cancelled it; without, that sweeper calls Start once. If it is a [session.BatchCanceller], the
// sweeper cancels the sessions of a page together, and calls Cancel for those that were not decided; those for which it
// calls a [Config].StopHook or a [ResumePolicy] it cancels one after the other.
type Canceller interface {
	Cancel(ctx context.Context, judged session.Session, c session.CancelRequest) (session.Outcome, error)
}

// What a finder or a canceller may be able to do besides.
type (
	observer interface {
		ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error)
		ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error)
	}
	claimer interface {
		Claim(ctx context.Context, judged session.Session, c session.ClaimRequest) (session.Outcome, error)
	}
	warner interface {
		Warn(ctx context.Context, judged session.Session, events []watchdog.Event) (session.Outcome, error)
	}
	appender interface {
		Append(ctx context.Context, events ...watchdog.Event) error
	}
	reader interface {
		Session(ctx context.Context, runID string) (session.Session, error)
	}
)

// abilities are nil where there is none.
type abilities struct {
	observer observer
	claimer  claimer
	warner   warner
	appender appender
	reader   reader
	batch    session.BatchCanceller
	starts   session.Starts
}

func abilitiesOf(finder Finder, canceller Canceller) abilities {
	return abilities{
		observer: firstAble[observer](finder, canceller),
		claimer:  firstAble[claimer](canceller),
		warner:   firstAble[warner](canceller),
		appender: firstAble[appender](canceller),
		reader:   firstAble[reader](canceller, finder),
		batch:    firstAble[session.BatchCanceller](canceller),
		starts:   firstAble[session.Starts](canceller),
	}
}

// firstAble returns the first value that has the methods, or nil.
func firstAble[T any](all ...any) (able T) {
	for _, one := range all {
		if able, ok := one.(T); ok {
			return able
		}
	}
	return able
}
