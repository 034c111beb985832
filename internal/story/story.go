package story

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// A Record is what is stored about one run.
type Record struct {
	RunID string
	// Parent is the run whose layer it is told as. Empty tells the run that the row or the last event is of.
	Parent string
	// Events are those of the run's aggregate, as [watchdog.EventStore.Read] returns them. Row is its session, nil if it
	// has none.
	Events []watchdog.Event
	Row    *session.Session
	// Layers are the runs below it, MoreLayers how many there are besides.
	Layers     []Record
	MoreLayers int
}

// MaxLayers is how many layers are read for a story, each with a query of its own. There may be thousands.
const MaxLayers = 32

// ReadLayers reads the layers of the run: of the sorted IDs the first that come after one, all of them after an empty
// one.
func (r *Record) ReadLayers(ctx context.Context, feed watchdog.FeedStore, after string) error {
	rest, err := feed.Layers(ctx, r.RunID)
	if err != nil {
		return err
	}
	from, found := slices.BinarySearch(rest, after)
	if found {
		from++
	}
	rest = rest[from:]
	r.MoreLayers = max(len(rest)-MaxLayers, 0)
	for _, runID := range rest[:len(rest)-r.MoreLayers] {
		events, err := feed.Read(ctx, watchdog.AggregateType, runID)
		if err != nil {
			return err
		}
		r.Layers = append(r.Layers, Record{RunID: runID, Parent: r.RunID, Events: events})
	}
	return nil
}

// A State is where a run stands.
type State string

// The states.
const (
	// Running is a run whose row says that a process runs it.
	Running State = "running"
	// Ending is a running run whose command is being ended: it was sent a signal and has not ended yet.
	Ending State = "ending"
	// Stopped is a run that a guard ended.
	Stopped State = "stopped"
	// Complete is a run that has done its work.
	Complete State = "complete"
	// Failed is a run whose command ended by itself and failed.
	Failed State = "failed"
	// Finished is a run that its host closed, or whose command exited by itself.
	Finished State = "finished"
	// Interrupted is a run that was ended from outside, or whose process is gone.
	Interrupted State = "interrupted"
	// Unknown is a run without an end and without a row that says whether it lives.
	Unknown State = "unknown"
)

// Live reports whether the row of a run says that a process runs it.
func (s State) Live() bool { return s == Running || s == Ending }

// A Story is what became of a run. Its JSON form is part of the contract of the command line: fields are added and
// never renamed. Times are UTC to the microsecond, lengths in seconds.
type Story struct {
	RunID  string `json:"run_id"`
	Parent string `json:"parent,omitempty"`
	Host   string `json:"host,omitempty"`
	State  State  `json:"state"`
	// ToldAt is the time at which a run that is not over had what the story says.
	ToldAt time.Time `json:"told_at"`
	// Attempt is the number of the latest attempt, Resumes how often a sweeper's policy had the run resumed.
	Attempt int `json:"attempt,omitempty"`
	Resumes int `json:"resumes,omitempty"`
	// StartedAt is the start of the window that the run is in. Before are the windows before that, oldest first.
	StartedAt time.Time `json:"started_at,omitzero"`
	Before    []Window  `json:"windows_before,omitempty"`
	// Allowed are the limits that are known, Reserve is the part of the wall clock that is kept for wrapping up.
	Allowed    []Limit     `json:"allowed,omitempty"`
	Reserve    Span        `json:"reserve_seconds,omitempty"`
	Extensions []Extension `json:"extensions,omitempty"`
	// Elapsed is how long the window lasted, without Paused, in which holds had stopped its wall clock.
	Elapsed Span            `json:"elapsed_seconds"`
	Paused  Span            `json:"paused_seconds,omitempty"`
	Spent   []session.Spent `json:"spent,omitempty"`
	// Vouched says that the process of a running run holds a lease. Silence is how long a running run has certainly been
	// silent; 0 says nothing.
	Vouched bool `json:"vouched,omitempty"`
	Silence Span `json:"silence_seconds,omitempty"`
	// AgentsStopped says that a sweeper has stopped what works on a running run, or tried to, and could not cancel it yet.
	AgentsStopped bool `json:"agents_stopped,omitempty"`
	// Behind says that a running run was silent and has woken up, and that its process cannot write the row.
	Behind bool `json:"behind,omitempty"`
	// Escalation is how far the end of the command is, of a run that is ending.
	Escalation *session.Escalation `json:"ending,omitempty"`
	// OpenHolds is how many holds the run had open when its process said so last.
	OpenHolds int `json:"open_holds,omitempty"`
	// Noted is the last thing that the run noted.
	Noted    string    `json:"noted,omitempty"`
	Asked    []Request `json:"asked,omitempty"`
	Holds    []Hold    `json:"holds,omitempty"`
	Overruns []Overrun `json:"overruns,omitempty"`
	// Interrupts are all of the window, also those after which another attempt went on.
	Interrupts []Interrupt `json:"interrupts,omitempty"`
	End        *End        `json:"end,omitempty"`
	Command    *Command    `json:"command,omitempty"`
	// Layers are the runs below this one whose last event is latest, the latest first. Those of windows before are left
	// out.
	Layers     []Layer `json:"layers,omitempty"`
	MoreLayers int     `json:"more_layers,omitempty"`
	Next       Next    `json:"next"`
	// Others are events that tell nothing of this run: those of another writer, and those that cannot be read.
	Others []Other `json:"others,omitempty"`
}

// A Window is a window before the one that the run is in.
type Window struct {
	StartedAt time.Time           `json:"started_at"`
	EndedAt   time.Time           `json:"ended_at,omitzero"`
	Code      watchdog.StopReason `json:"code,omitempty"`
	// ExitStatus and Signal are how a command ended that failed.
	ExitStatus *int   `json:"exit_status,omitempty"`
	Signal     string `json:"signal,omitempty"`
	// Corrected says that the end was wrong: what was cancelled had finished.
	Corrected bool `json:"corrected,omitempty"`
	// LastEventAt is the time of its last event. Holds are those that stopped its wall clock.
	LastEventAt time.Time `json:"last_event_at,omitzero"`
	Holds       []Hold    `json:"holds,omitempty"`
}

// String says what became of the window.
func (w Window) String() string {
	text := "left open"
	switch w.Code {
	case "":
	case session.ReasonFailed:
		text = "failed"
		if how := (End{Signal: w.Signal, ExitStatus: w.ExitStatus}).ofFailure(); how != "" {
			text += " (" + how + ")"
		}
	case record.CompleteReason:
		text = "complete"
	default:
		text = fmt.Sprintf("stopped (%s)", w.Code)
	}
	if !w.EndedAt.IsZero() {
		text += fmt.Sprintf(" after %v", Span(w.EndedAt.Sub(w.StartedAt)))
	}
	if w.Corrected {
		text += "; corrected: it had finished"
	}
	return text
}

// An Other is an event that tells nothing of the run.
type Other struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Type    string    `json:"type"`
	Problem string    `json:"problem"`
}

// A Layer is a run below another.
type Layer struct {
	RunID   string              `json:"run_id"`
	State   State               `json:"state"`
	At      time.Time           `json:"at"` // of its end, or of its last event
	Code    watchdog.StopReason `json:"code,omitempty"`
	Elapsed Span                `json:"elapsed_seconds"`
	// StartedAt is the start of its window, Meaning is Code in words, LeftAlive says what of it is left alive.
	StartedAt time.Time `json:"started_at,omitzero"`
	Meaning   string    `json:"meaning,omitempty"`
	LeftAlive string    `json:"left_alive,omitempty"`
}

// A Next is how to go on with a run.
type Next struct {
	Advice string `json:"advice"`
	// Command is a command line that does it, empty where there is none.
	Command []string `json:"command,omitempty"`
}

// A Span is a length of time. Its JSON form is in seconds.
type Span time.Duration

// MarshalJSON writes seconds, to the microsecond.
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(record.ExactSeconds(time.Duration(s)))
}

// UnmarshalJSON reads them.
func (s *Span) UnmarshalJSON(text []byte) error {
	var seconds record.Seconds
	err := json.Unmarshal(text, &seconds)
	*s = Span(record.Duration(seconds))
	return err
}

// String is the length as people read it: to the second, or for less than a minute to the millisecond.
func (s Span) String() string {
	d := time.Duration(s)
	unit := time.Second
	if d.Abs() < time.Minute {
		unit = time.Millisecond
	}
	text := d.Truncate(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
