package session

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A State is what the process of a run says about it, as JSON in the row, so that others can show a run of another
// host. Lengths are in seconds; a limit that is off is left out. Fields are added and never renamed.
type State struct {
	WallClock  float64 `json:"wall_clock_seconds,omitempty"` // with the extensions
	Safety     float64 `json:"safety_seconds,omitempty"`
	Idle       float64 `json:"idle_seconds,omitempty"`
	NoProgress float64 `json:"no_progress_seconds,omitempty"`
	Reserve    float64 `json:"reserve_seconds,omitempty"`
	// WarnAt holds the fractions of the wall clock at which the run is warned. Nil means [watchdog.DefaultWarnAt], an
	// empty slice no warnings.
	WarnAt []float64 `json:"warn_at,omitzero"`
	// Warned is how many warnings the run was given, and WrappedUp whether it was asked to wrap up.
	Warned    int  `json:"warned,omitempty"`
	WrappedUp bool `json:"wrapped_up,omitempty"`
	// Paused is how long holds have stopped the wall clock, Holds how many holds are open.
	Paused float64 `json:"paused_seconds,omitempty"`
	Holds  int     `json:"holds,omitempty"`
	// Phase is what the run noted last.
	Phase string `json:"phase,omitempty"`
	// Spent is how far counted limits are used, at most [MaxSpent] of them.
	// MoreSpent is how many there are besides.
	Spent     []Spent `json:"spent,omitempty"`
	MoreSpent int     `json:"more_spent,omitempty"`
	// Outcome is "succeeded" or "failed" for a [Finished] run whose command ended, ExitStatus its exit status, and Signal
	// the signal that ended it. Where nobody saw how it ended both are left out.
	Outcome    string `json:"outcome,omitempty"`
	ExitStatus *int   `json:"exit_status,omitempty"`
	Signal     string `json:"signal,omitempty"`
	// Escalation is how far the end of the run's command is: see [KeeperConfig].RunState. It is nil while that is not
	// being ended, and once the run has ended.
	Escalation *Escalation `json:"ending,omitempty"`
}

// An Escalation is the signal that was sent last to a command that is being ended, and the one that follows if it lives
// on: none after SIGKILL. The times are of the clock of its host.
type Escalation struct {
	Signal string    `json:"signal"`
	SentAt time.Time `json:"sent_at"`
	Next   string    `json:"next,omitempty"`
	NextAt time.Time `json:"next_at,omitzero"`
}

// MaxSpent is how many counted limits a [State] has, so that a row stays small.
const MaxSpent = 16

// MaxWarnAt is how many warnings a [Spent] has, for the same reason.
const MaxWarnAt = 8

// A Spent is how far one counted limit is used, as [watchdog.Usage] has it. Costs are in micro-units of the currency.
type Spent struct {
	Limit    string `json:"limit"`
	Tool     string `json:"tool,omitempty"`
	Currency string `json:"currency,omitempty"`
	Used     int64  `json:"used"`
	Admitted int64  `json:"admitted,omitempty"`
	Allowed  int64  `json:"allowed"`
	// Reserve is the part of Allowed that is kept for wrapping up.
	Reserve int64 `json:"reserve,omitempty"`
	// WarnAt holds the fractions of Allowed at which the run is warned, the last [MaxWarnAt] of them. Nil means
	// [watchdog.DefaultWarnAt], an empty slice no warnings.
	WarnAt []float64 `json:"warn_at,omitzero"`
}

func stateOf(w *watchdog.Watchdog) State {
	run := handle.Of(w.Context())
	limits, of := run.Settings().Limits, run.State()
	state := State{
		WallClock: seconds(verdict.Sum(limits.WallClock, of.Extended)), Safety: seconds(limits.Safety),
		Idle: seconds(limits.Idle), NoProgress: seconds(limits.NoProgress), Reserve: seconds(limits.Reserve),
		WarnAt: warnsAt(limits.WarnAt), Warned: of.Warned, WrappedUp: of.WrappedUp,
		Paused: seconds(of.Paused.Truncate(time.Second)), Holds: of.Holds, Phase: w.LastNote(),
		Outcome: of.Command.Outcome, ExitStatus: (*int)(of.Command.ExitStatus), Signal: of.Command.Signal,
	}
	state.spend(w.Usage())
	return state
}

func (s *State) spend(used []watchdog.Usage) {
	for _, u := range used[:min(len(used), MaxSpent)] {
		warnAt := warnsAt(u.WarnAt)
		if verdict.KindOf(u.Limit) == verdict.KindCallInput { // each call uses it anew: no part of it is ever used up
			warnAt = []float64{}
		}
		s.Spent = append(s.Spent, Spent{
			Limit: u.Limit, Tool: u.Tool, Currency: u.Currency,
			Used: u.Used, Admitted: u.Admitted, Allowed: u.Allowed,
			Reserve: u.Reserve, WarnAt: warnAt[max(len(warnAt)-MaxWarnAt, 0):],
		})
	}
	s.MoreSpent = max(len(used)-MaxSpent, 0)
}

// seconds are a length as a row has it, 0 for no limit.
func seconds(d time.Duration) float64 {
	if d == watchdog.NoLimit {
		return 0
	}
	return d.Seconds()
}

// warnsAt returns a copy of the fractions of a limit at which a run is warned, nil for the default.
func warnsAt(fractions []float64) []float64 {
	if slices.Equal(fractions, []float64{watchdog.DefaultWarnAt}) {
		return nil
	}
	return append([]float64{}, fractions...)
}
