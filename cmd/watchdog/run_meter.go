package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/stall"
)

// A meter charges a command's calls of models to its run while the command runs. A nil meter counts nothing.
type meter struct {
	proxy *modelproxy.Proxy
	run   *watchdog.Watchdog
	notes *notes
}

// startMeter starts to listen for the calls of the record's command, and says what that needs to be metered that its
// environment cannot give it.
func (p Program) startMeter(plan *meterPlan, record *runRecord, words []string) (*meter, error) {
	if plan == nil {
		return nil, nil
	}
	m := &meter{run: record.run, notes: &notes{priced: plan.counts.Prices != nil, now: make(chan string, 1)}}
	plan.counts.Logger = slog.New(m.notes)
	var err error
	if m.proxy, err = modelproxy.Start(m.run.Context(), &plan.counts, os.LookupEnv); err != nil {
		return nil, err
	}
	if hint := modelproxy.Hint(words, os.LookupEnv); hint != "" {
		p.say(hint)
	}
	return m, nil
}

// standstill tells why the command's calls wait, nothing without a meter.
func (m *meter) standstill() <-chan string {
	if m == nil {
		return nil
	}
	return m.notes.now
}

// environ is the environment of the command, nil for that of this program.
func (m *meter) environ() []string {
	if m == nil {
		return nil
	}
	return m.proxy.Environ(os.Environ())
}

func (m *meter) close() error {
	if m == nil {
		return nil
	}
	return m.proxy.Close()
}

// ofSpend reports whether the code is that of what a meter counts.
func ofSpend(code watchdog.StopReason) bool {
	limit := record.LimitOfCode(string(code))
	return limit != nil && limit.Counts && code != watchdog.LoopDetected
}

// overspent returns the stop of a run whose calls did not fit in what it may spend, nil for any other run.
func (m *meter) overspent() *watchdog.Stop {
	if m == nil {
		return nil
	}
	if stop := m.run.Stop(); stop != nil && ofSpend(stop.Code) {
		return stop
	}
	return nil
}

// spentText says which limit ended the run, and how far it is used.
func spentText(stop *watchdog.Stop) string {
	if stop.Usage == nil {
		return "it reached its limit: " + string(stop.Code)
	}
	return story.UsageText(stop.Usage)
}

// noCall is what to say of a command of which no call could be seen, empty for any other. One of which another request
// came made none.
func (m *meter) noCall(result *stall.Result) string {
	if m == nil || result == nil || m.proxy.Heard() > 0 {
		return ""
	}
	return "no call of a model came through the meter, and so nothing was limited: does the command heed " +
		strings.Join(modelproxy.Variables(), ", ") + "? For one that wants a flag write: sh -c 'codex -c " +
		`openai_base_url="$OPENAI_BASE_URL"'`
}

// noCallNote is what the record of such a command says.
const noCallNote = "no call of a model came through its meter"

// remarks are what else there is to say about the calls, when they are over.
func (m *meter) remarks() (all []string) {
	if m == nil {
		return nil
	}
	for _, r := range m.proxy.Refused() {
		if m.overspent() != nil && (r.Kind == modelproxy.Limit || r.Kind == modelproxy.Ended) {
			continue // it is what the last line says
		}
		all = append(all, fmt.Sprintf("%d of the command's calls were refused, the first because: %s", r.Count,
			strings.TrimPrefix(r.First, "watchdog: ")))
	}
	return append(all, m.notes.all()...)
}

// failures are what there is to say about calls that had no answer, empty if each had one.
func (m *meter) failures() string {
	if m == nil {
		return ""
	}
	n, first := m.proxy.Unanswered()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of the command's calls failed, the first because: %s", n,
		term.Plain(strings.TrimPrefix(first, "watchdog: ")))
}

func (m *meter) used() []watchdog.Usage {
	if m == nil {
		return nil
	}
	return m.run.Usage()
}

const mostNotes = 10

// notes is the handler of a log for people who read it when the command has ended: its screen is not ours. What it gets
// is about models without a price and responses that were not read, each once, and has no text of a call. Why the
// command stands still is of use only while it does.
type notes struct {
	slog.Handler // nil: no logger of a meter has attributes or groups

	priced bool        // there are prices, and so a model can lack one
	now    chan string // why the command stands still

	mu   sync.Mutex
	said []string
	more int
}

// Enabled implements [slog.Handler].
func (*notes) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements [slog.Handler].
func (n *notes) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	if r.Level < slog.LevelWarn {
		select {
		case n.now <- text:
		default: // nobody looks
		}
		return nil
	}
	ofModel := false
	r.Attrs(func(a slog.Attr) bool {
		ofModel = ofModel || a.Key == "model"
		text += fmt.Sprintf(", %s %q", a.Key, a.Value)
		return true
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case ofModel && !n.priced:
	case len(n.said) == mostNotes:
		n.more++
	default:
		n.said = append(n.said, text)
	}
	return nil
}

func (n *notes) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := slices.Clone(n.said)
	if n.more > 0 {
		all = append(all, fmt.Sprintf("%d more of this kind", n.more))
	}
	return all
}
