package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// The types of notice, as the body has them.
const (
	// TypeStop says that a limit, a guard or the host stopped a run.
	TypeStop = "watchdog.stop"
	// TypeSweeperCancel says that a sweeper cancelled a session whose process was dead or silent.
	TypeSweeperCancel = "watchdog.sweeper_cancel"
	// TypeComplete says that a run has done its work.
	TypeComplete = "watchdog.complete"
	// TypeAlert says that a sweeper cancelled many sessions, see [Alert].
	TypeAlert = "watchdog.alert"
	// TypeTest says that somebody tests the webhook, see [Sender.Test].
	TypeTest = "watchdog.test"
)

// A message is the body of a notice. Fields are added and never renamed. Nothing in it is content of the run.
type message struct {
	Type      string       `json:"type"`
	Timestamp record.Stamp `json:"timestamp"` // when it happened
	Data      data         `json:"data"`
}

type data struct {
	ID     string `json:"id"`
	RunID  string `json:"run_id,omitempty"`
	Parent string `json:"parent,omitempty"`
	// Of a notice that neither a guard nor this package put.
	AggregateType string `json:"aggregate_type,omitempty"`
	AggregateID   string `json:"aggregate_id,omitempty"`

	Reason         string         `json:"reason,omitempty"`
	Limit          string         `json:"limit,omitempty"`
	LimitSeconds   record.Seconds `json:"limit_seconds,omitempty"`
	ElapsedSeconds record.Seconds `json:"elapsed_seconds,omitempty"`
	StopFailed     bool           `json:"stop_failed,omitempty"`
	Corrected      bool           `json:"corrected,omitempty"`

	Cancels       int            `json:"cancels,omitempty"`
	WithinSeconds record.Seconds `json:"within_seconds,omitempty"`

	CreatedAt record.Stamp `json:"created_at"` // when it was put
}

func (m message) body() []byte { return record.JSON(m) }

// messageOf returns what a notice says, with what the events of its aggregate add. The notice alone says it where its
// event is there no more, or cannot be read.
func messageOf(n session.Notice, events []watchdog.Event) message {
	m := message{
		Type: n.Type, Timestamp: record.Stamp(n.CreatedAt), Data: data{ID: n.ID, CreatedAt: record.Stamp(n.CreatedAt)},
	}
	switch {
	case n.Type == TypeAlert:
		m.alert(n.AggregateID)
		return m
	case !isEnd(n):
		m.Data.AggregateType, m.Data.AggregateID = n.AggregateType, n.AggregateID
		return m
	}
	m.Data.RunID = n.AggregateID
	m.Type = TypeStop
	if n.Type == watchdog.EventComplete {
		m.Type, m.Data.Reason = TypeComplete, record.CompleteReason
	}
	for _, e := range events {
		m.take(e)
	}
	return m
}

// correctionsOf returns the IDs that the corrections of cancels have.
func correctionsOf(events []watchdog.Event) (ids []string) {
	for _, e := range events {
		var p record.Cancel
		if e.Type == watchdog.EventCancel && json.Unmarshal(e.Payload, &p) == nil {
			window := cmp.Or(p.Window, p.SessionStartedAt.String())
			ids = append(ids, record.EventID(e.AggregateID, window, watchdog.EventCorrection, e.ID))
		}
	}
	return ids
}

// isEnd reports whether a notice is of the end of a run.
func isEnd(n session.Notice) bool {
	return n.AggregateType == watchdog.AggregateType &&
		(n.Type == watchdog.EventCancel || n.Type == watchdog.EventComplete)
}

// take takes what an event of the aggregate says of the notice: its own event, and a correction of that.
func (m *message) take(e watchdog.Event) {
	var corrected record.Correction
	switch {
	case e.ID == m.Data.ID && e.Type == watchdog.EventComplete:
		m.complete(e)
	case e.ID == m.Data.ID && e.Type == watchdog.EventCancel:
		m.cancel(e)
	case e.Type == watchdog.EventCorrection && json.Unmarshal(e.Payload, &corrected) == nil:
		m.Data.Corrected = m.Data.Corrected || corrected.Cancel == m.Data.ID
	}
}

func (m *message) complete(e watchdog.Event) {
	m.Timestamp = record.Stamp(e.Timestamp)
	var p record.Complete
	if json.Unmarshal(e.Payload, &p) == nil {
		m.Data.Parent, m.Data.ElapsedSeconds = p.Parent, p.ElapsedSeconds
		if p.Outcome == record.Failed {
			m.Data.Reason = record.Failed
		}
	}
}

func (m *message) cancel(e watchdog.Event) {
	m.Timestamp = record.Stamp(e.Timestamp)
	var p record.Cancel
	if json.Unmarshal(e.Payload, &p) != nil {
		return
	}
	code := watchdog.StopReason(record.Code(p.Reason))
	if p.Author != "" || code == watchdog.SessionIdleTimeout || code == watchdog.SessionHostLost {
		m.Type = TypeSweeperCancel
	}
	if isCode(code) {
		m.Data.Reason = string(code)
	}
	if code.Own() {
		m.Data.Limit = record.LimitOf(record.Reason(string(code)))
	}
	m.Data.Parent, m.Data.StopFailed = p.Parent, p.StopFailed
	m.Data.ElapsedSeconds, m.Data.LimitSeconds = p.ElapsedSeconds, p.ConfiguredBudgetSeconds
}

// maxCode is the longest code that is told.
const maxCode = 100

// isCode reports whether a reason has the form of a stop code. What another writer stored there may be any text.
func isCode(code watchdog.StopReason) bool {
	for _, r := range code {
		if r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return code != "" && len(code) <= maxCode
}

// alertFormat is the aggregate ID of an alert.
const alertFormat = "%d cancels in %s"

func (m *message) alert(aggregateID string) {
	var within string
	if _, err := fmt.Sscanf(aggregateID, alertFormat, &m.Data.Cancels, &within); err == nil {
		if d, err := time.ParseDuration(within); err == nil {
			m.Data.WithinSeconds = record.FloatSeconds(d)
		}
	}
}

// alertType is the aggregate type of an alert.
const alertType = "sweeper"

// An alert that cannot be put is tried so often in all, so long after one another.
const alertTries, alertPause = 3, time.Second

// Alert returns a func for the alert of a sweeper that counts cancels within a time: it puts a notice into the outbox,
// with the number of cancels and that time only. Unlike the end of a run it is in no transaction: a process that dies
// first puts none. What cannot be put is tried three times, and is then an error in the log; nil is [slog.Default].
func Alert(outbox session.Outbox, within time.Duration, logger *slog.Logger) func(ctx context.Context, cancels int) {
	if logger == nil {
		logger = slog.Default()
	}
	return func(ctx context.Context, cancels int) {
		n := session.Notice{
			ID: rand.Text(), AggregateType: alertType, AggregateID: fmt.Sprintf(alertFormat, cancels, within), Type: TypeAlert,
		}
		if err := putAlert(ctx, outbox, n); err != nil {
			logger.ErrorContext(ctx, "an alert of many cancels could not be put into the outbox, and nobody is told",
				"cancels", cancels, "within", within, "error", err)
		}
	}
}

func putAlert(ctx context.Context, outbox session.Outbox, n session.Notice) (err error) {
	for range alertTries {
		_, err = onStore(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, outbox.PutNotices(ctx, n) })
		if err == nil || !pause(ctx, alertPause) {
			return err
		}
	}
	return err
}
