package replay

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// check returns the first flaw of a trace, with the position of its signal: what no run can have recorded.
func check(trace []watchdog.Signal) error {
	c := checker{held: map[verdict.HoldID]bool{}, made: map[int]bool{}}
	for i, s := range trace {
		if ofLayer(&s, c.run) {
			continue
		}
		if flaw := c.flaw(s); flaw != "" {
			return fmt.Errorf("%w trace: signal %d (%s at %v) %s", watchdog.ErrInvalid, i, s.Kind, s.At, flaw)
		}
		c.run, c.last, c.ended = cmp.Or(c.run, s.Run), s.At, s.Kind == watchdog.SignalEnd
	}
	return nil
}

// A checker knows of a trace what it needs to judge the next signal.
type checker struct {
	run   string
	last  time.Duration
	ended bool
	held  map[verdict.HoldID]bool
	made  map[int]bool // the calls that are open, by their serials
}

// ofLayer reports whether the signal is that of a layer of the run.
func ofLayer(s *watchdog.Signal, run string) bool {
	return run != "" && strings.HasPrefix(s.Run, run+"/")
}

// flaw says what is wrong with the next signal, or nothing.
func (c *checker) flaw(s watchdog.Signal) string {
	switch {
	case c.run != "" && s.Run != "" && s.Run != c.run:
		return fmt.Sprintf("is of run %q, and the trace of %q; replay each run by itself", s.Run, c.run)
	case s.Version < 0 || s.Version > watchdog.TraceVersion:
		return fmt.Sprintf("is of version %d of traces, and this one reads up to %d; replay it with the release of this "+
			"module that wrote it, or a later one", s.Version, watchdog.TraceVersion)
	case s.At < 0:
		return "is before the window's start"
	case s.At == verdict.Never:
		return "is later than a window can last"
	case s.At < c.last:
		return fmt.Sprintf("is earlier than the one before, at %v", c.last)
	case c.ended && s.Kind != watchdog.SignalAttach:
		return "comes after the run's end"
	}
	if flaw := flawOfNumbers(s); flaw != "" {
		return flaw
	}
	return c.flawOfKind(s)
}

func flawOfNumbers(s watchdog.Signal) string {
	switch {
	case s.Length < 0:
		return fmt.Sprintf("has the length %v; use 0 or more", s.Length)
	case s.Warned < 0:
		return fmt.Sprintf("has %d warnings; use 0 or more", s.Warned)
	case s.From < 0 || s.From > s.At:
		return fmt.Sprintf("counts from %v; use 0 or more, and no more than its own time", s.From)
	case s.Rung < 0:
		return fmt.Sprintf("has the rung %d; use 0 or more", s.Rung)
	case s.Idle < 0:
		return fmt.Sprintf("has the idle %v; use 0 or more", s.Idle)
	}
	return ""
}

func (c *checker) flawOfKind(s watchdog.Signal) string {
	switch s.Kind {
	case watchdog.SignalAttach:
		clear(c.held)
		clear(c.made)
	case watchdog.SignalHold, watchdog.SignalHeld:
		return c.open(s)
	case watchdog.SignalRelease:
		if !c.held[holdOf(s)] {
			return fmt.Sprintf("releases %q, which is not held", s.Key)
		}
		delete(c.held, holdOf(s))
	case watchdog.SignalTakeOver:
		if !c.held[holdOf(s)] {
			return fmt.Sprintf("takes over %q, which is not held", s.Key)
		}
	case watchdog.SignalAdmit, watchdog.SignalSettle, watchdog.SignalVoid, watchdog.SignalSpent:
		return c.spend(s)
	case watchdog.SignalLoop:
		if s.Usage == nil {
			return "names no limit"
		}
	case watchdog.SignalActivity, watchdog.SignalProgress, watchdog.SignalExtend, watchdog.SignalEnd,
		watchdog.SignalNotBusy, watchdog.SignalIncomplete, watchdog.SignalPause, watchdog.SignalUnpause,
		watchdog.SignalRung, watchdog.SignalAttached:
	default:
		return "is of no kind that this version knows"
	}
	return ""
}

func (c *checker) spend(s watchdog.Signal) string {
	switch {
	case s.Kind == watchdog.SignalSpent && s.Usage == nil:
		return "names no limit"
	case s.Kind == watchdog.SignalSpent:
		return ""
	case s.Kind != watchdog.SignalVoid && s.Amount == nil:
		return "has no amount"
	case s.Kind != watchdog.SignalAdmit && !c.made[s.Serial]:
		return fmt.Sprintf("is of call %d, which is not open", s.Serial)
	case s.Kind == watchdog.SignalAdmit && c.made[s.Serial]:
		return fmt.Sprintf("admits call %d, which is open", s.Serial)
	}
	if s.Kind == watchdog.SignalAdmit && !s.NotMade {
		c.made[s.Serial] = true
	} else {
		delete(c.made, s.Serial)
	}
	return ""
}

func (c *checker) open(s watchdog.Signal) string {
	switch {
	case s.Length == 0:
		return "has no cap; that of a hold without one is NoLimit"
	case c.held[holdOf(s)]:
		return fmt.Sprintf("opens %q, which is held", s.Key)
	}
	c.held[holdOf(s)] = true
	return ""
}

func holdOf(s watchdog.Signal) verdict.HoldID { return verdict.HoldID{Key: s.Key, Serial: s.Serial} }

// signalOf is the signal as the machine takes it.
func signalOf(s watchdog.Signal) machine.Signal {
	told := machine.Signal{Signal: verdict.Signal{
		Kind: verdict.SignalKind(s.Kind), At: s.At, Key: s.Key, Serial: s.Serial, Length: s.Length, Warned: s.Warned,
		Wrapped: s.Wrapped, From: s.From, Rung: s.Rung, Idle: s.Idle, Refused: s.NotMade, More: s.More,
	}}
	if s.Amount != nil {
		told.Use = useOf(s.Amount)
	}
	if u := s.Usage; u != nil {
		told.Of = verdict.CountID{Kind: verdict.KindOf(u.Limit), Tool: u.Tool}
		told.Count = u.Used
		told.Spend = &record.Spend{
			Limit: u.Limit, Tool: u.Tool, Used: record.Number(u.Used), Allowed: record.Number(u.Allowed),
		}
		if s.Kind == watchdog.SignalLoop {
			told.Key = u.Pattern
		}
	}
	return told
}

func useOf(a *watchdog.Amount) (u verdict.Use) {
	u.Tool, u.Result = a.Tool, verdict.Result(a.Result)
	fields := reflect.ValueOf(a).Elem()
	for kind := range u.Counts {
		if field := fields.FieldByName(verdict.Kind(kind).Field()); field.CanInt() {
			u.Counts[kind] = field.Int()
		}
	}
	u.Counts[verdict.KindCost] = a.Cost.Micros
	u.Counts.SumTokens()
	return u
}
