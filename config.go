package watchdog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/record"
)

// DefaultRecordTimeout is how long a call to the store may take if the [Config] does not say.
const DefaultRecordTimeout = 5 * time.Second

// A Config says how a run is guarded. It is copied; changing it later changes nothing.
type Config struct {
	// Store keeps the events. Nil keeps them in a [Memory] of this run's own, which goes with it: the run is not found
	// again after a restart, and cannot have a Keeper. A store must not call the watchdog: with PollOnly it would wait
	// for itself.
	Store EventStore
	// Budget holds the limits. The zero value is the default of each.
	Budget Budget
	// MaxStops is how often in a row guards may have stopped the run before [Resume] refuses to go on with it: one that
	// fails again and again is not helped by another window. A window that was complete ends the row. Zero and [NoLimit]
	// mean any number. Another guard's stops count, too; what the ResumePolicy of package sweep starts again is limited
	// there besides.
	MaxStops int
	// RecordTimeout bounds each exchange with the store, and so how much later than its limit a run ends when the store
	// hangs. Zero means [DefaultRecordTimeout].
	RecordTimeout time.Duration
	// PollOnly makes the watchdog do everything on the goroutine that calls it: it sets no timer, and looks at limits,
	// and tries again what the store did not take, only when [Watchdog.Fired] or another method is called. A store that
	// does not return when its context ends then holds its caller, and so does a log or a callback that blocks; the run
	// has ended before. A poll that comes late has no grace as a timer has, see [Budget].Idle: after a pause of the
	// process signal what came before polling.
	PollOnly bool
	// ObserveOnly makes the watchdog decide and record everything and cancel nothing. What would have been a cancel is an
	// [event.Warning] and a [Directive] that say so, and the run goes on. It comes once: of the wall clock and safety in a
	// window, of a hold's cap for that hold, of idle in a stretch of silence, of no progress until there is some.
	ObserveOnly bool
	// Disabled switches the guard off, for an operator who has to: the run is guarded by nothing, and so are its layers.
	// The Store, the Keeper and OnWarning are never called, no timer is set, and no limit, cap of a hold or
	// warning ever trips: [Watchdog.Remaining] is [NoLimit]. A wrong config is an error all the same, so that the guard
	// can be switched on again.
	//
	// What the host does itself has its effect and is recorded nowhere: [Watchdog.Cancel], [Watchdog.Interrupt],
	// [Watchdog.Complete] and [Watchdog.Close] end the run's context as ever, and so does its parent. New does not know
	// of a stop that is stored, and Resume opens no window: when the guard is on again, the run stands where the store
	// has it. New logs at Info that the run is not guarded.
	Disabled bool
	// Kinds classify the host's own kinds of event for [Watchdog.Observe].
	Kinds Kinds
	// Keeper, if set, keeps the run where others can see that it lives, such as a
	// [github.com/seed62658d38/watchdog/session.Keeper]. It needs a Store. Layers are not kept.
	Keeper Keeper
	// RecordInterrupts records the end of the parent context as an [event.Interrupt], after the run has ended.
	RecordInterrupts bool
	// OnWarning is called once for each warning of this watchdog, after its event was recorded or could not be: on a
	// goroutine of its own, or with PollOnly on the caller's. A panic in it is logged.
	OnWarning func(Warning)
	// Logger gets what no caller is returned: stops, warnings, and events that could not be recorded. Nil means
	// [slog.Default]. A panic in its handler is dropped.
	Logger *slog.Logger
	// Clock tells the time and sets the timer; nil is the machine's. It is for tests. If it also has a method Uptime()
	// time.Duration, a count that never goes back and goes on while the machine sleeps, elapsed time is taken from that;
	// otherwise from Now, without steps back.
	Clock Clock

	forgets bool // nobody finds the run again
}

// A Clock is what a host's tests may put in the place of the machine's clock. Its methods are Now, which returns the
// time, and AfterFunc(d, f), which calls f on a goroutine of its own after d, unless the [Timer] that it returns is
// stopped. It is called from several goroutines at once. Package watchdogtest has a mock clock.
type Clock = clocks.Clock

// A Timer is what AfterFunc of a [Clock] returns; a [time.Timer] is one. Its methods are Stop, which prevents the call,
// and Reset(d), which has it made after d from now. Each reports whether the timer was running.
type Timer = clocks.Timer

// inMemory returns the config of a run that has no store with one in memory, and the run with what it may leave out
// then. Nobody else finds that run, so that its name and its start matter to nobody else.
func (cfg *Config) inMemory(run Run, now time.Time) (*Config, Run) {
	if cfg.Store != nil || cfg.Keeper != nil {
		return cfg, run
	}
	alone := *cfg
	alone.Store, alone.forgets = &Memory{}, true
	if run.ID == "" {
		run.ID = record.NewRunID()
	}
	if run.StartedAt.IsZero() {
		run.StartedAt = now
	}
	return &alone, run
}

func (cfg *Config) check(ctx context.Context, run Run, now time.Time) error {
	if cfg.Store == nil {
		return fmt.Errorf("%w config: Keeper is set and Store is nil; set Store, where others find the events of the run "+
			"that the Keeper shows them", ErrInvalid)
	}
	if err := run.check(now); err != nil {
		return err
	}
	if err := cfg.Budget.check(); err != nil {
		return err
	}
	switch {
	case cfg.MaxStops < 0:
		return fmt.Errorf("%w config: MaxStops is %d; use a positive number, or 0 for any", ErrInvalid, cfg.MaxStops)
	case cfg.RecordTimeout < 0:
		return fmt.Errorf("%w config: RecordTimeout is %v; use a positive duration, or 0 for %v", ErrInvalid,
			cfg.RecordTimeout, DefaultRecordTimeout)
	}
	return checkParent(ctx)
}

func checkParent(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrParentEnded, context.Cause(ctx))
	}
	return nil
}

func (cfg *Config) settings(classes *classes) settings {
	return settings{
		limits: cfg.Budget.shared(), logger: cfg.Logger, onWarning: cfg.OnWarning, classes: classes,
		forgets: cfg.forgets,
	}
}

func (cfg *Config) recordTimeout() time.Duration {
	return cmp.Or(cfg.RecordTimeout, DefaultRecordTimeout)
}

func (cfg *Config) place() journal.Place {
	p := journal.Place{
		Store: journal.StoreOf(cfg.Store), Clock: cfg.Clock, Timeout: cfg.recordTimeout(),
		Inline: cfg.PollOnly || cfg.Disabled,
	}
	switch cfg.Store.(type) {
	case *Memory, nowhere: // nobody has to wait for it
		p.Instant = true
	}
	return p
}

// inForce is the valid config as it is carried out: without what must not be called for a run that nothing guards.
func (cfg *Config) inForce() *Config {
	if !cfg.Disabled {
		return cfg
	}
	off := *cfg
	off.Store, off.Keeper, off.RecordInterrupts = nowhere{}, nil, false
	return &off
}
